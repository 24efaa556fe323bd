//! Every environment variable that a deployment sets is one that something reads.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::files::{File, below, entries, shipped, yaml};

const PREFIX: &str = "POSTHASTE_";

/// What the images beside ours read.
const OF_OTHERS: [&str; 3] = ["POSTGRES_DB", "POSTGRES_PASSWORD", "POSTGRES_USER"];

/// The variables of the configuration, as its table in the source lists them (`env: "…"`, `env_also: Some("…")`), and
/// those of the commands that talk to a server (`[env: …]`).
fn known() -> BTreeSet<String> {
    let read = |path| below(path).iter().flat_map(|file| declared(&file.text)).collect::<BTreeSet<_>>();
    let settings = read("crates/config/src");
    for canonical in ["POSTHASTE_DATABASE_URL", "POSTHASTE_API_KEYS", "POSTHASTE_ALLOW_FAST_RETRIES"] {
        assert!(
            settings.contains(canonical),
            "crates/config/src has no line `env: \"{canonical}\"`; if settings are declared otherwise now, \
             teach this test to read them"
        );
    }
    settings.into_iter().chain(read("crates/cli/src/cli")).collect()
}

/// The quoted names that follow a declaration of a variable.
fn declared(source: &str) -> Vec<String> {
    let starts = ["env: \"", "env_also: Some(\"", "[env: "];
    let after = starts.iter().flat_map(|start| source.split(start).skip(1));
    after
        .filter_map(|rest| rest.split(['"', ']']).next())
        .filter(|name| is_variable(name))
        .map(str::to_owned)
        .collect()
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_of_variable)
}

fn is_of_variable(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

/// Every name in a text that begins like ours. The bare prefix, as in "POSTHASTE_…", stands for all.
fn ours(text: &str) -> Vec<String> {
    let words = text.split(|c| !is_of_variable(c));
    words.filter(|word| word.starts_with(PREFIX) && *word != PREFIX).map(str::to_owned).collect()
}

/// What a file sets, whatever it begins with: lines of `NAME=value`, keys of YAML in capitals.
fn set_by(file: &File) -> Vec<String> {
    if file.is_yaml() {
        let documents = yaml(file).unwrap_or_default();
        let keys = documents.iter().flat_map(entries).map(|(key, _)| key);
        return keys.filter(|key| key.len() > 1 && is_variable(key)).map(str::to_owned).collect();
    }
    let lines = file.text.lines().filter(|_| file.path.ends_with(".env.example"));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim_start_matches("# ").to_owned())
        .collect()
}

fn unknown(file: &File, known: &BTreeSet<String>) -> Vec<String> {
    let named: BTreeSet<_> = ours(&file.text).into_iter().chain(set_by(file)).collect();
    let of_others = |name: &String| OF_OTHERS.contains(&name.as_str());
    let unknown = named.iter().filter(|name| !known.contains(*name) && !of_others(name));
    unknown.map(|name| format!("{}: {name} is no setting; see `posthaste config`", file.path)).collect()
}

#[test]
fn every_variable_of_the_deployment_and_the_runbook_is_a_setting() {
    let known = known();
    let files = shipped().into_iter().chain(below("docs/operations.md"));
    assert_none(&files.flat_map(|file| unknown(&file, &known)).collect::<Vec<_>>());
}

#[test]
fn a_variable_that_nobody_reads_is_noticed() {
    let known = BTreeSet::from(["POSTHASTE_LISTEN".to_owned(), "RETRY_BATCH_SIZE".to_owned()]);
    let faults = |path: &str, text: &str| {
        unknown(&File { path: path.to_owned(), text: text.to_owned() }, &known).len()
    };
    assert_eq!(faults("a.env.example", "POSTHASTE_LISTEN=x\nRETRY_BATCH_SIZE=5\nPOSTGRES_DB=x\n"), 0);
    assert_eq!(faults("a.env.example", "# POSTHASTE_LISTENS=x\nLISTEN=x\n"), 2);
    assert_eq!(faults("a.yaml", "data: {POSTHASTE_LISTEN: x, BATCH_SIZE: 5}\n"), 1);
    assert_eq!(faults("a.md", "Set POSTHASTE_… as you like, or `POSTHASTE_PORT`."), 1);
}

#[test]
fn declared_variables_are_found_in_the_source() {
    let source = r#"env: "POSTHASTE_A", env_also: Some("OLD_A"), /// URL [env: POSTHASTE_B] env: "", x: "C""#;
    assert_eq!(declared(source), ["POSTHASTE_A", "OLD_A", "POSTHASTE_B"]);
}
