//! Rules about manifests and crate roots that no compiler enforces. The root manifest declares every third-party
//! dependency, each with a reason. Every crate has a `//!` comment and forbids `unsafe`. Only `domain` has the tests of the
//! retry contract.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_guardrails::BACKOFF_TESTS_SOURCE;

/// Returns one line for each third-party dependency in `[workspace.dependencies]` without a `# reason`.
fn dependencies_without_reason(root_manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut violations = Vec::new();
    for line in root_manifest.lines() {
        if let Some(name) = section_name(line) {
            section = name;
            if section.starts_with("workspace.dependencies.") {
                violations
                    .push(format!("[{section}]: write the dependency on one line, with its `# reason`"));
            }
        } else if section == "workspace.dependencies"
            && let Some(name) = dependency_name(line)
            && !is_ours(line)
            && reason(line).is_none_or(str::is_empty)
        {
            violations.push(format!("{name}: add a `# reason` to its line that says what it is for"));
        }
    }
    violations
}

/// Returns one line for each dependency that a crate does not inherit from the workspace.
fn dependencies_not_inherited(crate_manifest: &str) -> Vec<String> {
    let mut in_dependencies = false;
    let mut violations = Vec::new();
    for line in crate_manifest.lines() {
        if let Some(section) = section_name(line) {
            in_dependencies = section.ends_with("dependencies");
            if section.contains("dependencies.") {
                violations
                    .push(format!("[{section}]: write the dependency on one line, with `workspace = true`"));
            }
        } else if in_dependencies
            && let Some(name) = dependency_name(line)
            && !line.contains("workspace = true")
        {
            violations.push(format!(
                "{name}: declare it in the root Cargo.toml and write `{name}.workspace = true`"
            ));
        }
    }
    violations
}

/// Returns one line for each rule about crate roots that this source violates.
fn crate_root_violations(source: &str) -> Vec<String> {
    let mut violations = Vec::new();
    if !source.starts_with("//!") {
        violations.push("start the file with a `//!` comment that says what the crate owns".to_owned());
    }
    if !source.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
        violations.push("add `#![forbid(unsafe_code)]`".to_owned());
    }
    violations
}

/// Returns the name of the TOML section that a line starts, if it starts one.
fn section_name(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    Some(name.trim())
}

/// Returns the key of a line `key = …`; None for empty lines, comments and later lines of a value.
fn dependency_name(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let name = key.trim().trim_matches('"').split('.').next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Returns whether a line declares a crate of this workspace.
fn is_ours(line: &str) -> bool {
    line.starts_with("posthaste") && line.contains("path = \"crates/")
}

/// Returns the comment at the end of a TOML line: the text after the first `#` outside a string.
fn reason(line: &str) -> Option<&str> {
    let mut in_string = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => in_string = !in_string,
            '#' if !in_string => return Some(line[at + 1..].trim()),
            _ => {}
        }
    }
    None
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root")
}

/// Returns the directories of all crates.
fn crates() -> Vec<PathBuf> {
    let crates = fs::read_dir(workspace().join("crates")).expect("crates/ can be listed");
    let paths = crates.map(|entry| entry.expect("an entry of crates/ can be read").path());
    paths.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Prefixes each violation with the path of its file.
fn in_file(path: &Path, violations: Vec<String>) -> Vec<String> {
    violations.into_iter().map(|violation| format!("{}: {violation}", path.display())).collect()
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn every_dependency_of_the_workspace_has_a_reason() {
    let path = workspace().join("Cargo.toml");
    let manifest = read(&path);
    assert!(
        manifest.contains("\n[workspace.dependencies]\n"),
        "the manifest has no section [workspace.dependencies]"
    );
    assert_none(&in_file(&path, dependencies_without_reason(&manifest)));
}

#[test]
fn every_dependency_of_a_crate_is_inherited_from_the_workspace() {
    let manifests = crates().into_iter().map(|path| path.join("Cargo.toml"));
    let violations = manifests.flat_map(|path| in_file(&path, dependencies_not_inherited(&read(&path))));
    assert_none(&violations.collect::<Vec<_>>());
}

#[test]
fn every_crate_has_a_doc_comment_and_forbids_unsafe() {
    let mut violations = Vec::new();
    for path in crates() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| path.join(root));
        let roots: Vec<_> = roots.into_iter().filter(|root| root.is_file()).collect();
        assert!(!roots.is_empty(), "{} has neither src/lib.rs nor src/main.rs", path.display());
        violations.extend(roots.iter().flat_map(|root| in_file(root, crate_root_violations(&read(root)))));
    }
    assert_none(&violations);
}

/// The check of the test log compares only the file, because cargo does not print the crate.
#[test]
fn only_the_domain_has_the_tests_of_the_retry_contract() {
    let with_tests = crates().into_iter().filter(|path| path.join(BACKOFF_TESTS_SOURCE).is_file());
    assert_eq!(with_tests.collect::<Vec<_>>(), [workspace().join("crates/domain")]);
}

#[test]
fn dependency_without_a_reason_is_a_violation() {
    let manifest = r##"
[workspace.package]
version = "0.1.0"

[workspace.dependencies]
posthaste-domain = { path = "crates/domain" }

# a comment on the line above is not a reason
bytes = "1"
hmac = "0.13" #
sha2 = "0.11" # the hash under the signature
tokio = { version = "1", features = [
  "rt",
] }
url.version = "2"
  "subtle" = "2"
uuid = { version = "1", registry = "a#b" }

[workspace.dependencies.rand]
version = "0.10" # reasons

[profile.release]
debug = 1
"##;
    let violations: Vec<_> = dependencies_without_reason(manifest)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        violations,
        ["bytes", "hmac", "tokio", "url", "subtle", "uuid", "[workspace.dependencies.rand]"]
    );
}

#[test]
fn dependency_that_is_not_inherited_is_a_violation() {
    let manifest = r#"
[package]
name = "posthaste-engine"

[dependencies]
bytes.workspace = true
tokio = { workspace = true, features = ["rt"] }
url = "2"

[target.'cfg(unix)'.dependencies]
libc = "0.2"

[dev-dependencies] # tests only
proptest = { version = "1" }

[dependencies.rand]
version = "0.10"

[lints]
workspace = true
"#;
    let violations: Vec<_> = dependencies_not_inherited(manifest)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(violations, ["url", "libc", "proptest", "[dependencies.rand]"]);
}

#[test]
fn crate_root_without_doc_comment_or_forbid_is_a_violation() {
    assert_eq!(crate_root_violations("//! Owns a thing.\n#![forbid(unsafe_code)]\n"), [] as [&str; 0]);
    assert_eq!(crate_root_violations("").len(), 2);
    assert_eq!(crate_root_violations("// A comment.\n//! Late.\n#![forbid(unsafe_code)]\n").len(), 1);
    assert_eq!(crate_root_violations("//! Owns a thing.\n// #![forbid(unsafe_code)]\n").len(), 1);
}
