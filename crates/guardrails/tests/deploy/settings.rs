//! Rule: every environment variable in `deploy/` and in the runbook is a setting.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::files::{File, deploy_files, entries, files_at, parse_yaml, read};

const PREFIX: &str = "POSTHASTE_";

/// Variables of the compose file itself, and those that its PostgreSQL image reads.
const COMPOSE_VARIABLES: [&str; 4] = ["IMAGE", "POSTGRES_DB", "POSTGRES_PASSWORD", "POSTGRES_USER"];

/// The reference of all settings. A test of `posthaste-config` keeps it equal to the declared settings.
pub(crate) const REFERENCE: &str = "docs/configuration.md";

/// Returns the rows of the reference, one per setting: name, effect, rule, default and variables.
pub(crate) fn setting_rows(reference: &str) -> Vec<[&str; 5]> {
    let rows = reference.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().ok()
    })
    .collect()
}

/// Returns the variables of all settings, and those of the commands that talk to a server (`[env: …]` in their help).
fn known_variables() -> BTreeSet<String> {
    let settings: BTreeSet<_> = setting_variables(&read(REFERENCE)).into_iter().collect();
    for canonical in ["POSTHASTE_DATABASE_URL", "POSTHASTE_API_KEYS", "POSTHASTE_ALLOW_FAST_RETRIES"] {
        assert!(
            settings.contains(canonical),
            "{REFERENCE} does not list {canonical}; if its tables changed, change `setting_rows`"
        );
    }
    let commands = files_at("crates/cli/src/cli");
    settings.into_iter().chain(commands.iter().flat_map(|file| command_variables(&file.text))).collect()
}

/// Returns the variables in the last column of the reference.
fn setting_variables(reference: &str) -> Vec<String> {
    let cells = setting_rows(reference).into_iter().map(|[.., variables]| variables);
    cells.flat_map(|cell| cell.split('`').filter(|name| is_variable_name(name))).map(str::to_owned).collect()
}

/// Returns the variables that the help of commands names.
fn command_variables(source: &str) -> Vec<String> {
    let names = source.split("[env: ").skip(1).filter_map(|rest| rest.split(']').next());
    names.filter(|name| is_variable_name(name)).map(str::to_owned).collect()
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_variable_char)
}

fn is_variable_char(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

/// Returns every name in a text that starts with [`PREFIX`]. Skips the bare prefix, as in "POSTHASTE_…".
fn prefixed_names(text: &str) -> Vec<String> {
    let words = text.split(|c| !is_variable_char(c));
    words.filter(|word| word.starts_with(PREFIX) && *word != PREFIX).map(str::to_owned).collect()
}

/// Returns the variables that a deployment file sets, with any prefix: lines `NAME=value`, and YAML keys in capitals.
fn variables_set_by(file: &File) -> Vec<String> {
    if file.is_yaml() {
        let documents = parse_yaml(file).unwrap_or_default();
        let keys = documents.iter().flat_map(entries).map(|(key, _)| key);
        return keys.filter(|key| key.len() > 1 && is_variable_name(key)).map(str::to_owned).collect();
    }
    let lines = file.text.lines().filter(|_| file.path.ends_with(".env.example"));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim_start_matches("# ").to_owned())
        .collect()
}

/// Returns one line for each variable in a file that is neither a setting nor one of [`COMPOSE_VARIABLES`].
fn unknown_variables(file: &File, known: &BTreeSet<String>) -> Vec<String> {
    let named: BTreeSet<_> = prefixed_names(&file.text).into_iter().chain(variables_set_by(file)).collect();
    let is_postgres = |name: &String| COMPOSE_VARIABLES.contains(&name.as_str());
    let unknown = named.iter().filter(|name| !known.contains(*name) && !is_postgres(name));
    unknown
        .map(|name| format!("{}: {name} is not a setting; `posthaste config` lists the settings", file.path))
        .collect()
}

#[test]
fn every_variable_in_the_deployment_and_the_runbook_is_a_setting() {
    let known = known_variables();
    let files = deploy_files().into_iter().chain(files_at("docs/operations.md"));
    assert_none(&files.flat_map(|file| unknown_variables(&file, &known)).collect::<Vec<_>>());
}

#[test]
fn unknown_variable_is_found() {
    let known = BTreeSet::from(["POSTHASTE_LISTEN".to_owned(), "RETRY_BATCH_SIZE".to_owned()]);
    let count = |path: &str, text: &str| {
        unknown_variables(&File { path: path.to_owned(), text: text.to_owned() }, &known).len()
    };
    assert_eq!(count("a.env.example", "POSTHASTE_LISTEN=x\nRETRY_BATCH_SIZE=5\nPOSTGRES_DB=x\n"), 0);
    assert_eq!(count("a.env.example", "# POSTHASTE_LISTENS=x\nLISTEN=x\n"), 2);
    assert_eq!(count("a.yaml", "data: {POSTHASTE_LISTEN: x, BATCH_SIZE: 5}\n"), 1);
    assert_eq!(count("a.md", "Set POSTHASTE_… as you like, or `POSTHASTE_PORT`."), 1);
}

#[test]
fn variables_are_found_in_the_reference_and_in_the_help_of_commands() {
    let reference =
        "| setting | effect |\n|---|---|\n| `a` | does A | a word | none | `POSTHASTE_A`, `OLD_A` |\n";
    assert_eq!(setting_variables(reference), ["POSTHASTE_A", "OLD_A"]);
    assert_eq!(command_variables("/// URL [env: POSTHASTE_B]\n/// [env: x]"), ["POSTHASTE_B"]);
}
