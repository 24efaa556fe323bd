//! Rules about manifests and crate roots that no compiler holds: every third-party dependency is declared once, in
//! the workspace, with its reason, every crate says what it is and forbids `unsafe`, and one crate has the tests of
//! the retry contract.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_guardrails::BACKOFF_TESTS_SOURCE;

/// One line for each third-party dependency of `[workspace.dependencies]` that has no reason beside it.
fn dependencies_without_reason(root_manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut refused = Vec::new();
    for line in root_manifest.lines() {
        if let Some(header) = header(line) {
            section = header;
            if section.starts_with("workspace.dependencies.") {
                refused.push(format!("[{section}]: write the dependency on one line, with its `# reason`"));
            }
        } else if section == "workspace.dependencies"
            && let Some(name) = dependency_name(line)
            && !is_ours(line)
            && reason(line).is_none_or(str::is_empty)
        {
            refused.push(format!("{name}: say in a `# reason` on its line what it is for"));
        }
    }
    refused
}

/// One line for each dependency of a crate that is not inherited from the workspace.
fn dependencies_not_inherited(crate_manifest: &str) -> Vec<String> {
    let mut in_dependencies = false;
    let mut refused = Vec::new();
    for line in crate_manifest.lines() {
        if let Some(section) = header(line) {
            in_dependencies = section.ends_with("dependencies");
            if section.contains("dependencies.") {
                refused
                    .push(format!("[{section}]: write the dependency on one line, with `workspace = true`"));
            }
        } else if in_dependencies
            && let Some(name) = dependency_name(line)
            && !line.contains("workspace = true")
        {
            refused.push(format!(
                "{name}: declare it in the root Cargo.toml and write `{name}.workspace = true`"
            ));
        }
    }
    refused
}

/// What a crate root lacks.
fn faults_of_root(source: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !source.starts_with("//!") {
        faults.push("start it with a `//!` that says what the crate owns".to_owned());
    }
    if !source.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
        faults.push("add `#![forbid(unsafe_code)]`".to_owned());
    }
    faults
}

/// The name of a section, where the line opens one.
fn header(line: &str) -> Option<&str> {
    let (header, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    Some(header.trim())
}

/// The key of a line `key = …`; None for empty lines, comments and what continues a value.
fn dependency_name(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let name = key.trim().trim_matches('"').split('.').next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn is_ours(line: &str) -> bool {
    line.starts_with("posthaste") && line.contains("path = \"crates/")
}

/// The comment at the end of a line of TOML: what follows the first `#` outside a string.
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

fn crates() -> Vec<PathBuf> {
    let crates = fs::read_dir(workspace().join("crates")).expect("the crates are in crates/");
    let paths = crates.map(|entry| entry.expect("crates/ can be listed").path());
    paths.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn in_file(path: &Path, faults: Vec<String>) -> Vec<String> {
    faults.into_iter().map(|fault| format!("{}: {fault}", path.display())).collect()
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_dependency_of_the_workspace_has_a_reason() {
    let path = workspace().join("Cargo.toml");
    let manifest = read(&path);
    assert!(manifest.contains("\n[workspace.dependencies]\n"), "the section that this test reads is there");
    assert_none(&in_file(&path, dependencies_without_reason(&manifest)));
}

#[test]
fn every_dependency_of_a_crate_is_inherited_from_the_workspace() {
    let manifests = crates().into_iter().map(|path| path.join("Cargo.toml"));
    let faults = manifests.flat_map(|path| in_file(&path, dependencies_not_inherited(&read(&path))));
    assert_none(&faults.collect::<Vec<_>>());
}

#[test]
fn every_crate_says_what_it_is_and_forbids_unsafe() {
    let mut faults = Vec::new();
    for path in crates() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| path.join(root));
        let roots: Vec<_> = roots.into_iter().filter(|root| root.is_file()).collect();
        assert!(!roots.is_empty(), "{} has neither src/lib.rs nor src/main.rs", path.display());
        faults.extend(roots.iter().flat_map(|root| in_file(root, faults_of_root(&read(root)))));
    }
    assert_none(&faults);
}

/// The check of the test log knows the file and not the crate, which cargo does not print.
#[test]
fn the_tests_of_the_retry_contract_are_those_of_the_domain() {
    let having = crates().into_iter().filter(|path| path.join(BACKOFF_TESTS_SOURCE).is_file());
    assert_eq!(having.collect::<Vec<_>>(), [workspace().join("crates/domain")]);
}

#[test]
fn a_dependency_without_reason_is_refused() {
    let manifest = r##"
[workspace.package]
version = "0.1.0"

[workspace.dependencies]
posthaste-domain = { path = "crates/domain" }

# a comment above is not a reason
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
    let refused: Vec<_> = dependencies_without_reason(manifest)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(refused, ["bytes", "hmac", "tokio", "url", "subtle", "uuid", "[workspace.dependencies.rand]"]);
}

#[test]
fn a_dependency_that_is_not_inherited_is_refused() {
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
    let refused: Vec<_> = dependencies_not_inherited(manifest)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(refused, ["url", "libc", "proptest", "[dependencies.rand]"]);
}

#[test]
fn a_crate_root_without_doc_or_forbid_is_refused() {
    assert_eq!(faults_of_root("//! What it owns.\n#![forbid(unsafe_code)]\n"), [] as [&str; 0]);
    assert_eq!(faults_of_root("").len(), 2);
    assert_eq!(faults_of_root("// A comment.\n//! Late.\n#![forbid(unsafe_code)]\n").len(), 1);
    assert_eq!(faults_of_root("//! What it owns.\n// #![forbid(unsafe_code)]\n").len(), 1);
}
