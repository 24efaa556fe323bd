//! Rule: dependencies between our crates point in one direction. `domain ← store ← engine`, adapters depend on the ports
//! that they implement, and only the binary and the benchmark may depend on every crate. The rule covers normal
//! dependencies; tests and build scripts may depend on any crate.

use std::process::Command;

use serde_json::Value;

/// The crates of this workspace that a crate may depend on.
enum Allowed {
    Only(&'static [&'static str]),
    All,
}

/// Allowed dependencies of each crate, with names without the prefix `posthaste-`.
const ALLOWED_DEPENDENCIES: &[(&str, Allowed)] = &[
    ("domain", Allowed::Only(&[])),
    ("store", Allowed::Only(&["domain"])),
    ("store-conformance", Allowed::Only(&["domain", "store"])),
    ("store-memory", Allowed::Only(&["domain", "store"])),
    ("store-comparison", Allowed::Only(&["domain", "store", "store-conformance", "store-memory"])),
    ("store-sqlite", Allowed::Only(&["domain", "store"])),
    ("claimable", Allowed::Only(&["domain", "store"])),
    ("store-postgres", Allowed::Only(&["claimable", "domain", "store"])),
    ("engine", Allowed::Only(&["domain", "store"])),
    ("sender", Allowed::Only(&["domain", "engine"])),
    ("api", Allowed::Only(&["domain", "store", "engine"])),
    ("dashboard", Allowed::Only(&[])),
    ("sim", Allowed::Only(&["domain", "store", "store-memory", "engine"])),
    ("postgres-server", Allowed::Only(&[])),
    ("bench", Allowed::All),
    ("guardrails", Allowed::Only(&[])),
    ("posthaste", Allowed::Only(&["domain", "store", "store-sqlite", "store-postgres", "engine", "sender"])),
    ("config", Allowed::Only(&["domain", "engine", "sender", "api", "posthaste"])),
    ("cli", Allowed::All),
];

/// Crates for async code, I/O or randomness, which `domain` must not depend on. A name also matches as a prefix: `tokio`
/// matches `tokio-util`.
const IMPURE: &[&str] = &[
    "async",
    "axum",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "mio",
    "rand",
    "reqwest",
    "smol",
    "tokio",
    "tower",
];

/// A package of the workspace with the names of its normal dependencies.
struct Member {
    name: String,
    dependencies: Vec<String>,
}

/// Returns one line for each dependency or crate that violates the rules.
fn violations(members: &[Member]) -> Vec<String> {
    let of_member =
        |member| forbidden_dependencies(member).into_iter().chain(impure_dependencies_of_domain(member));
    members.iter().flat_map(of_member).collect()
}

fn forbidden_dependencies(member: &Member) -> Vec<String> {
    let name = &member.name;
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(listed, _)| *listed == short_name(name))
    else {
        return vec![format!(
            "{name} is not in ALLOWED_DEPENDENCIES; add it with the crates it may depend on"
        )];
    };
    let Allowed::Only(allowed) = allowed else { return vec![] };
    let ours = member.dependencies.iter().filter(|dependency| is_ours(dependency));
    ours.filter(|dependency| !allowed.contains(&short_name(dependency)))
        .map(|dependency| {
            format!("{name} depends on {dependency}, but of our crates it may depend only on {allowed:?}")
        })
        .collect()
}

fn impure_dependencies_of_domain(member: &Member) -> Vec<String> {
    if short_name(&member.name) != "domain" {
        return vec![];
    }
    let is_impure = |name: &str| {
        IMPURE.iter().any(|prefix| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
        })
    };
    let impure = member.dependencies.iter().filter(|dependency| is_impure(dependency));
    impure
        .map(|name| {
            format!("domain depends on {name}, but must stay pure: take times and random draws as values")
        })
        .collect()
}

fn is_ours(package: &str) -> bool {
    package == "posthaste" || package.starts_with("posthaste-")
}

fn short_name(package: &str) -> &str {
    package.strip_prefix("posthaste-").unwrap_or(package)
}

/// Reads the packages of the workspace from `cargo metadata`.
fn read_members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the cargo that built this test can run");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    parse_members(&metadata)
}

fn parse_members(metadata: &Value) -> Vec<Member> {
    let text =
        |value: &Value| value.as_str().expect("format version 1 has a string in this field").to_owned();
    let list = |value: &Value| value.as_array().expect("format version 1 has a list in this field").clone();
    list(&metadata["packages"])
        .iter()
        .map(|package| Member {
            name: text(&package["name"]),
            dependencies: list(&package["dependencies"])
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        })
        .collect()
}

#[test]
fn s2_nfr006_dependencies_of_our_crates_point_one_way() {
    let members = read_members();
    assert!(
        members.iter().any(|member| member.name == "posthaste-guardrails"),
        "cargo metadata does not list this package"
    );
    let violations = violations(&members);
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

fn member(name: &str, dependencies: &[&str]) -> Member {
    Member { name: name.to_owned(), dependencies: dependencies.iter().map(|&name| name.to_owned()).collect() }
}

#[test]
fn dependencies_in_the_allowed_direction_pass() {
    let graph = [
        member("posthaste-domain", &["bytes", "random-access", "futurespective"]),
        member("posthaste-store", &["posthaste-domain", "tokio"]),
        member("posthaste-engine", &["posthaste-domain", "posthaste-store", "tokio", "rand"]),
        member("posthaste", &["posthaste-engine", "posthaste-sender", "posthaste-store-sqlite"]),
    ];
    assert_eq!(violations(&graph), [] as [&str; 0]);
}

#[test]
fn dependency_against_the_direction_is_a_violation() {
    let forbidden = [
        ("posthaste-domain", "posthaste-store"),
        ("posthaste-store", "posthaste-engine"),
        ("posthaste-engine", "posthaste-store-memory"),
        ("posthaste-engine", "posthaste"),
        ("posthaste-store-sqlite", "posthaste-store-postgres"),
        ("posthaste-sender", "posthaste-store"),
        ("posthaste-dashboard", "posthaste-domain"),
        ("posthaste-guardrails", "posthaste-domain"),
        ("posthaste", "posthaste-api"),
        ("posthaste", "posthaste-config"),
        ("posthaste-config", "posthaste-cli"),
    ];
    for (name, dependency) in forbidden {
        let violations = violations(&[member(name, &["thiserror", dependency])]);
        assert_eq!(violations.len(), 1, "{name} → {dependency}: {violations:?}");
        assert!(
            violations[0].starts_with(&format!("{name} depends on {dependency}, but of our crates")),
            "{violations:?}"
        );
    }
}

#[test]
fn crate_missing_from_the_table_is_a_violation() {
    for name in ["posthaste-util", "common"] {
        let expected =
            format!("{name} is not in ALLOWED_DEPENDENCIES; add it with the crates it may depend on");
        assert_eq!(violations(&[member(name, &[])]), [expected]);
    }
}

#[test]
fn impure_dependency_of_the_domain_is_a_violation() {
    for dependency in ["tokio", "tokio-util", "rand", "rand_core", "hyper", "async-trait", "futures-util"] {
        let violations = violations(&[member("posthaste-domain", &[dependency])]);
        assert_eq!(violations.len(), 1, "{dependency}: {violations:?}");
        assert!(
            violations[0].starts_with(&format!("domain depends on {dependency}, but must stay pure")),
            "{violations:?}"
        );
    }
}

#[test]
fn dev_and_build_dependencies_are_ignored() {
    let metadata = serde_json::json!({ "packages": [{ "name": "posthaste-domain", "dependencies": [
        { "name": "bytes", "kind": null },
        { "name": "tokio", "kind": "dev" },
        { "name": "rand", "kind": "build" },
    ] }] });
    let members = parse_members(&metadata);
    assert_eq!(members[0].dependencies, ["bytes"]);
}
