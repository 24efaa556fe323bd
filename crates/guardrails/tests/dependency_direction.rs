//! Dependencies between our crates point one way: `domain ← store ← engine`, adapters on the ports they implement,
//! and only the binary on everything. Normal dependencies count; tests and build scripts may use what they like.

use std::process::Command;

use serde_json::Value;

enum May {
    DependOn(&'static [&'static str]),
    DependOnAll,
}

/// Each crate without its `posthaste-`, and the crates of ours that it may depend on.
const DIRECTION: &[(&str, May)] = &[
    ("domain", May::DependOn(&[])),
    ("store", May::DependOn(&["domain"])),
    ("store-conformance", May::DependOn(&["domain", "store"])),
    ("store-memory", May::DependOn(&["domain", "store"])),
    ("store-comparison", May::DependOn(&["domain", "store", "store-conformance", "store-memory"])),
    ("store-sqlite", May::DependOn(&["domain", "store"])),
    ("store-postgres", May::DependOn(&["domain", "store"])),
    ("engine", May::DependOn(&["domain", "store"])),
    ("sender", May::DependOn(&["domain", "engine"])),
    ("api", May::DependOn(&["domain", "store", "engine"])),
    ("dashboard", May::DependOn(&[])),
    ("sim", May::DependOn(&["domain", "store", "store-memory", "engine"])),
    ("postgres-server", May::DependOn(&[])),
    ("store-bench", May::DependOnAll),
    ("guardrails", May::DependOn(&[])),
    ("posthaste", May::DependOn(&["domain", "store", "store-sqlite", "store-postgres", "engine", "sender"])),
    ("config", May::DependOn(&["domain", "engine", "sender", "api", "posthaste"])),
    ("cli", May::DependOnAll),
];

/// Families of crates that wait, talk or draw lots: `tokio` stands for `tokio-util` and `tokio_util` too.
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

struct Member {
    name: String,
    depends_on: Vec<String>,
}

/// One line for each dependency or crate that breaks the rules.
fn refusals(members: &[Member]) -> Vec<String> {
    members.iter().flat_map(|member| wrong_way(member).into_iter().chain(impure(member))).collect()
}

fn wrong_way(member: &Member) -> Vec<String> {
    let name = &member.name;
    let Some((_, may)) = DIRECTION.iter().find(|(known, _)| *known == short(name)) else {
        return vec![format!("{name} is not in DIRECTION; add it there with the crates it may depend on")];
    };
    let May::DependOn(allowed) = may else { return vec![] };
    let ours = member.depends_on.iter().filter(|dependency| is_ours(dependency));
    ours.filter(|dependency| !allowed.contains(&short(dependency)))
        .map(|dependency| {
            format!("{name} depends on {dependency}, and may depend only on {allowed:?} of ours")
        })
        .collect()
}

fn impure(member: &Member) -> Vec<String> {
    if short(&member.name) != "domain" {
        return vec![];
    }
    let is_impure = |name: &str| {
        IMPURE.iter().any(|family| {
            name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
        })
    };
    let refused = member.depends_on.iter().filter(|dependency| is_impure(dependency));
    refused
        .map(|name| format!("domain depends on {name}, and is pure: take time and chance as values"))
        .collect()
}

fn is_ours(package: &str) -> bool {
    package == "posthaste" || package.starts_with("posthaste-")
}

fn short(package: &str) -> &str {
    package.strip_prefix("posthaste-").unwrap_or(package)
}

/// The workspace as cargo sees it.
fn members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the cargo that built this test still runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    parse_members(&metadata)
}

fn parse_members(metadata: &Value) -> Vec<Member> {
    let text = |value: &Value| value.as_str().expect("format version 1 has a name here").to_owned();
    let list = |value: &Value| value.as_array().expect("format version 1 has a list here").clone();
    list(&metadata["packages"])
        .iter()
        .map(|package| Member {
            name: text(&package["name"]),
            depends_on: list(&package["dependencies"])
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        })
        .collect()
}

#[test]
fn s2_nfr006_dependencies_of_our_crates_point_one_way() {
    let members = members();
    assert!(members.iter().any(|member| member.name == "posthaste-guardrails"), "cargo metadata lists us");
    let refusals = refusals(&members);
    assert!(refusals.is_empty(), "\n{}\n", refusals.join("\n"));
}

fn member(name: &str, depends_on: &[&str]) -> Member {
    Member { name: name.to_owned(), depends_on: depends_on.iter().map(|&name| name.to_owned()).collect() }
}

#[test]
fn the_direction_of_the_design_is_accepted() {
    let graph = [
        member("posthaste-domain", &["bytes", "random-access", "futurespective"]),
        member("posthaste-store", &["posthaste-domain", "tokio"]),
        member("posthaste-engine", &["posthaste-domain", "posthaste-store", "tokio", "rand"]),
        member("posthaste", &["posthaste-engine", "posthaste-sender", "posthaste-store-sqlite"]),
    ];
    assert_eq!(refusals(&graph), [] as [&str; 0]);
}

#[test]
fn a_dependency_against_the_direction_is_refused() {
    let against = [
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
    for (name, dependency) in against {
        let refusals = refusals(&[member(name, &["thiserror", dependency])]);
        assert_eq!(refusals.len(), 1, "{name} → {dependency}: {refusals:?}");
        assert!(refusals[0].starts_with(&format!("{name} depends on {dependency}, and may")), "{refusals:?}");
    }
}

#[test]
fn an_unknown_crate_is_refused_until_it_is_in_the_table() {
    for name in ["posthaste-util", "common"] {
        let expected = format!("{name} is not in DIRECTION; add it there with the crates it may depend on");
        assert_eq!(refusals(&[member(name, &[])]), [expected]);
    }
}

#[test]
fn an_impure_dependency_of_the_domain_is_refused() {
    for dependency in ["tokio", "tokio-util", "rand", "rand_core", "hyper", "async-trait", "futures-util"] {
        let refusals = refusals(&[member("posthaste-domain", &[dependency])]);
        assert_eq!(refusals.len(), 1, "{dependency}: {refusals:?}");
        assert!(
            refusals[0].starts_with(&format!("domain depends on {dependency}, and is pure")),
            "{refusals:?}"
        );
    }
}

#[test]
fn only_normal_dependencies_count() {
    let metadata = serde_json::json!({ "packages": [{ "name": "posthaste-domain", "dependencies": [
        { "name": "bytes", "kind": null },
        { "name": "tokio", "kind": "dev" },
        { "name": "rand", "kind": "build" },
    ] }] });
    let members = parse_members(&metadata);
    assert_eq!(members[0].depends_on, ["bytes"]);
}
