//! Facts that documents state are true: settings, API operations, code, tests, commands and links.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_config::{setting, settings};
use serde_json::Value;

use crate::document::{anchors, blocks, code_spans, links, read, root, rows, section};

/// The documents whose links are checked.
const DOCUMENTS: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/comparison.md",
    "docs/notices.md",
    "docs/producing.md",
    "docs/receiving.md",
    "docs/svix-sdks.md",
];

#[test]
fn the_settings_in_readme_exist_with_these_defaults() {
    let configuration = section(&read("README.md"), "Configuration");
    assert!(configuration.contains(&format!("All {}:", settings().len())), "there are {}", settings().len());
    let rows = rows(&configuration);
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let name = row[0].trim_matches('`');
        let setting = setting(name).unwrap_or_else(|| panic!("{name} is not a setting"));
        let documented = row[1].trim_matches('`');
        let default = setting.default.to_string();
        assert!(
            default == documented || default.starts_with(&format!("{documented} (")),
            "{name}: the default is {default}, not {documented}"
        );
    }
}

#[test]
fn s0_fr004_ac2_readme_names_jitter_and_budget_under_both_names_with_what_they_do() {
    let rows = rows(&section(&read("README.md"), "Configuration"));
    for name in ["retry_jitter_bps", "retry_budget"] {
        let row = rows
            .iter()
            .find(|row| row[0] == format!("`{name}`"))
            .expect("the table has a row of the setting");
        let setting = setting(name).unwrap();
        let text = row.join(" ");
        for variable in [setting.env.as_str(), setting.env_alias.unwrap()] {
            assert!(text.contains(variable), "{name}: {variable} is not in {text:?}");
        }
        assert!(row[2].split(' ').count() > 5, "{name}: {:?} does not say what it does", row[2]);
    }
}

#[test]
fn every_api_operation_in_readme_is_in_the_openapi_document() {
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste")).arg("openapi").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let readme = read("README.md");
    let mut found = 0;
    for span in code_spans(&readme) {
        let Some((method @ ("GET" | "POST"), path)) = span.split_once(' ') else { continue };
        let path = path.split('?').next().unwrap();
        assert!(document["paths"][path][method.to_lowercase()].is_object(), "{span} is not in the document");
        found += 1;
    }
    assert!(found >= 4, "only {found} operations were found");
}

#[test]
fn the_rust_code_in_readme_is_from_the_example() {
    let example = read("crates/posthaste/examples/embedded.rs");
    let lines: Vec<_> = example.lines().map(str::trim).collect();
    let code: Vec<_> =
        blocks(&read("README.md")).into_iter().filter(|block| block.language == "rust").collect();
    assert!(!code.is_empty(), "README has no Rust code");
    for line in code.iter().flat_map(|block| block.text.lines()).map(str::trim) {
        assert!(line.is_empty() || line == "…" || lines.contains(&line), "{line:?} is not in the example");
    }
}

/// The workspace has several programs: without `-p`, cargo runs that of `default-members`.
#[test]
fn the_first_command_in_readme_runs_posthaste() {
    let commands = section(&read("README.md"), "Two commands");
    let line = commands.lines().find(|line| line.starts_with("cargo run")).expect("README has the command");
    let command = line.split('#').next().unwrap().trim();
    let is_default = read("Cargo.toml").contains("default-members = [\"crates/cli\"]");
    let is_named = command.contains("-p posthaste-cli");
    assert!(command.starts_with("cargo run --release") && (is_named || is_default), "{command}");
}

#[test]
fn every_test_that_the_comparison_names_exists() {
    let sources = source_files(&root().join("crates"));
    let sources: Vec<_> = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let is_test = |span: &str| {
        span.matches('_').count() >= 3
            && span.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let mut found = 0;
    for span in code_spans(&read("docs/comparison.md")).iter().filter(|span| is_test(span)) {
        let (function, declared) = (format!("fn {span}("), [format!(" {span},"), format!(" {span};")]);
        // Some tests are declared by a macro, once for each store.
        let has_test = |source: &String| {
            source.contains(&function)
                || (source.contains("on_both_stores! {") && declared.iter().any(|name| source.contains(name)))
        };
        assert!(sources.iter().any(has_test), "no test is named {span}");
        found += 1;
    }
    assert!(found >= 10, "only {found} names of tests were found");
}

#[test]
fn every_link_within_the_repository_resolves() {
    for path in DOCUMENTS {
        let text = read(path);
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                root().join(path)
            } else {
                root().join(path).parent().unwrap().join(file)
            };
            assert!(target.exists(), "{path}: the target of {link} does not exist");
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&target).unwrap());
                assert!(anchors.iter().any(|other| other == anchor), "{path}: {link} names no heading");
            }
        }
    }
}

/// Returns the Rust files under a directory.
fn source_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { source_files(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
