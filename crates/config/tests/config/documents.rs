//! The example file and the reference are up to date with the declared settings.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_config::{Secrecy, Source, example_file, reference, settings};

use crate::{UserInput, assert_contains};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this package is two levels deep").into()
}

/// Compares a document with its expected text. Writes it first if POSTHASTE_UPDATE is set.
fn assert_up_to_date(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is out of date; run `POSTHASTE_UPDATE=1 cargo test -p posthaste-config --test config documents` and \
         review the difference"
    );
}

#[test]
fn example_file_is_up_to_date() {
    assert_up_to_date("posthaste.example.toml", &example_file());
}

#[test]
fn reference_is_up_to_date() {
    assert_up_to_date("docs/configuration.md", &reference());
}

/// Returns the lines of the example that are settings, without their comment sign.
fn uncommented() -> Vec<String> {
    let is_setting = |line: &str| settings().any(|s| line.starts_with(&format!("{} = ", s.name)));
    example_file()
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| is_setting(line))
        .map(str::to_owned)
        .collect()
}

#[test]
fn example_file_sets_nothing() {
    let config = UserInput::new().file(example_file()).parse().unwrap();
    assert!(config.settings.iter().all(|effective| effective.source == Source::Default));
}

#[test]
fn every_line_of_the_example_is_valid_except_secrets() {
    let lines = uncommented();
    assert_eq!(lines.len(), settings().len());
    for (line, setting) in lines.iter().zip(settings()) {
        let loaded = UserInput::new().file(line).parse();
        if setting.secrecy == Secrecy::Secret {
            // The example of a secret must not be usable, because it is public.
            assert_contains(&loaded.unwrap_err()[0], &[setting.name, "***"]);
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
fn documents_contain_every_name_rule_and_default() {
    for document in [example_file(), reference()] {
        for setting in settings() {
            assert_contains(&document, &[setting.name, &setting.env, &setting.rule, &setting.help]);
            assert_contains(
                &document,
                &[&setting.default.to_string(), setting.env_alias.unwrap_or_default()],
            );
        }
    }
}

/// README lists some settings; conditional defaults are easily cut there.
#[test]
fn readme_states_conditional_defaults_in_full() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for name in ["allow_private_networks", "retry_jitter_bps", "max_retry_attempts"] {
        let row =
            readme.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).expect("it has a row");
        let setting = posthaste_config::setting(name).unwrap();
        assert_contains(row, &[&format!("| {} |", setting.default)]);
    }
}
