//! The example file and the reference are made from the table of settings, and stay in step with it.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_config::{SETTINGS, Secrecy, Source, example_file, reference};

use crate::{Said, assert_words};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this package is two levels deep").into()
}

/// With POSTHASTE_UPDATE set the document is written instead, for whoever changed the table.
fn assert_in_step(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is not what the table of settings says; run \
         `POSTHASTE_UPDATE=1 cargo test -p posthaste --test config documents`, and read the difference"
    );
}

#[test]
fn the_example_file_is_in_step() {
    assert_in_step("posthaste.example.toml", &example_file());
}

#[test]
fn the_reference_is_in_step() {
    assert_in_step("docs/configuration.md", &reference());
}

/// The lines of the example that are settings, with the comment sign removed.
fn uncommented() -> Vec<String> {
    let is_setting = |line: &str| SETTINGS.iter().any(|s| line.starts_with(&format!("{} = ", s.name)));
    example_file()
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| is_setting(line))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_example_file_as_it_is_changes_nothing() {
    let config = Said::nothing().file(example_file()).load().unwrap();
    assert!(config.settings.iter().all(|effective| effective.source == Source::Default));
}

#[test]
fn every_line_of_the_example_can_be_uncommented() {
    let lines = uncommented();
    assert_eq!(lines.len(), SETTINGS.len());
    for (line, setting) in lines.iter().zip(SETTINGS) {
        let loaded = Said::nothing().file(line).load();
        if setting.secrecy == Secrecy::Secret {
            // Nobody is to run with a secret that everyone knows.
            assert_words(&loaded.unwrap_err()[0], &[setting.name, "***"]);
            continue;
        }
        let config = loaded.unwrap_or_else(|errors| panic!("{line}: {errors:?}"));
        if let Some(default) = setting.default.usual() {
            let value = config.setting(setting.name).unwrap().value.clone().unwrap();
            assert_eq!(value, default, "{line}");
        }
    }
}

#[test]
fn the_documents_hold_every_name_rule_and_default() {
    for document in [example_file(), reference()] {
        for setting in SETTINGS {
            assert_words(&document, &[setting.name, setting.env, setting.rule, setting.help]);
            assert_words(&document, &[&setting.default.to_string(), setting.env_also.unwrap_or_default()]);
        }
    }
}

/// The table of README holds a few settings, with the defaults that the reference gives.
#[test]
fn readme_gives_defaults_whole() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for name in ["allow_private_networks", "retry_jitter_bps", "max_retry_attempts"] {
        let row =
            readme.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).expect("it has a row");
        let setting = posthaste_config::setting(name).unwrap();
        assert_words(row, &[&format!("| {} |", setting.default)]);
    }
}
