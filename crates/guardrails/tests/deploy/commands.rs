//! Every command of `posthaste` that a document or a deployment runs exists.

use yaml_rust2::Yaml;

use crate::assert_none;
use crate::files::{File, below, entries, shipped, yaml};

/// The contract of the command line. A command with others below it needs one of them.
const COMMANDS: [(&str, &[&str]); 14] = [
    ("serve", &[]),
    ("worker", &[]),
    ("dispatch", &[]),
    ("migrate", &[]),
    ("send", &[]),
    ("listen", &[]),
    ("overview", &[]),
    ("dlq", &["list", "requeue"]),
    ("events", &["list", "show", "cancel"]),
    ("doctor", &[]),
    ("openapi", &[]),
    ("config", &[]),
    ("secret", &[]),
    ("completions", &[]),
];

/// What is wrong with what follows the word `posthaste`; flags and paths are not judged.
fn fault(words: &[&str]) -> Option<String> {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    let first = words.first().copied().filter(is_word)?;
    let Some((_, below)) = COMMANDS.iter().find(|(command, _)| *command == first) else {
        return Some(format!("`posthaste {first}` is no command"));
    };
    let second = words.get(1).copied().unwrap_or_default();
    let missing = !below.is_empty() && !below.contains(&second);
    missing.then(|| format!("`posthaste {first} {second}`: {first} takes one of {}", below.join(", ")))
}

/// The code in a text of Markdown or in comments: spans in backticks, and blocks between fences, line by line.
fn code(text: &str) -> Vec<&str> {
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let prose = text.split("```").step_by(2);
    blocks.chain(prose.flat_map(|prose| prose.split('`').skip(1).step_by(2))).collect()
}

/// What follows the program's name, wherever it is run in a line of shell.
fn calls(line: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> =
        line.split([' ', '(', ')', '"', '|', ';', '\n']).filter(|word| !word.is_empty()).collect();
    let is_program = |word: &str| word == "posthaste" || word.ends_with("/bin/posthaste");
    let at = words.iter().enumerate().filter(|(_, word)| is_program(word)).map(|(at, _)| at);
    at.map(|at| words[at + 1..].to_vec()).collect()
}

/// What a container of ours, or the unit, is started with. In a compose file that is `command`; in a manifest it is
/// `args`, and a `command` there belongs to a hook.
fn started_with(file: &File) -> Vec<Vec<String>> {
    if file.is_yaml() {
        let documents = yaml(file).unwrap_or_default();
        let key = |document: &Yaml| if document["services"].is_badvalue() { "args" } else { "command" };
        let lists = documents.iter().flat_map(|document| {
            entries(document)
                .into_iter()
                .filter(|(name, _)| *name == key(document))
                .filter_map(|(_, list)| list.as_vec())
        });
        return lists.map(|list| list.iter().filter_map(Yaml::as_str).map(str::to_owned).collect()).collect();
    }
    let lines = file.text.lines();
    let unit = lines.clone().filter_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/posthaste "));
    let image = lines.filter_map(|line| line.strip_prefix("CMD "));
    let image = image.filter_map(|list| serde_json::from_str::<Vec<String>>(list).ok());
    unit.map(|words| words.split(' ').map(str::to_owned).collect()).chain(image).collect()
}

fn faults(file: &File) -> Vec<String> {
    let written = code(&file.text).into_iter().flat_map(calls).filter_map(|words| fault(&words));
    let started = started_with(file).into_iter().filter_map(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        fault(&words)
    });
    written.chain(started).map(|fault| format!("{}: {fault}", file.path)).collect()
}

#[test]
fn every_command_in_the_deployment_and_the_runbook_exists() {
    let files: Vec<_> = shipped().into_iter().chain(below("docs/operations.md")).collect();
    let found = files.iter().flat_map(|file| code(&file.text)).flat_map(calls).count();
    assert!(found > 20, "commands are found at all: {found}");
    let started: Vec<_> = files.iter().flat_map(started_with).collect();
    assert!(started.iter().any(|words| words == &["serve", "--no-worker"]), "{started:?}");
    assert_none(&files.iter().flat_map(faults).collect::<Vec<_>>());
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let faults =
        |path: &str, text: &str| faults(&File { path: path.to_owned(), text: text.to_owned() }).len();
    assert_eq!(
        faults("a.md", "Run `posthaste doctor`, then `runuser -u posthaste -- posthaste dlq list`."),
        0
    );
    assert_eq!(
        faults("a.md", "Run `posthaste repair`.\n```\nposthaste dlq purge | xargs posthaste reque\n```\n"),
        3
    );
    assert_eq!(
        faults("a.md", "posthaste is a word in prose, `kubectl get pods -n posthaste` names a namespace"),
        0
    );
    assert_eq!(faults("a.yaml", "containers: [{args: [\"work\"]}, {args: [\"worker\"]}]\n"), 1);
    assert_eq!(faults("a.yaml", "lifecycle: {exec: {command: [\"sleep\", \"5\"]}}\n"), 0);
    assert_eq!(faults("a.yaml", "services: {api: {command: [\"api\"]}}\n"), 1);
    assert_eq!(faults("a.service", "ExecStart=/usr/local/bin/posthaste server\n"), 1);
    assert_eq!(faults("Dockerfile", "CMD [\"start\"]\n"), 1);
}
