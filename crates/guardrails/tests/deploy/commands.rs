//! Rule: every `posthaste` command in the runbook and in `deploy/` exists.

use yaml_rust2::Yaml;

use crate::assert_none;
use crate::files::{File, deploy_files, entries, files_at, parse_yaml};

/// Commands of `posthaste`, each with its subcommands. A command with subcommands requires one of them.
const COMMANDS: [(&str, &[&str]); 22] = [
    ("serve", &[]),
    ("worker", &[]),
    ("dispatch", &[]),
    ("migrate", &[]),
    ("send", &[]),
    ("listen", &[]),
    ("overview", &[]),
    ("workers", &[]),
    ("dlq", &["list", "requeue", "cancel", "discard", "bulk"]),
    ("events", &["list", "show", "content", "replay", "cancel"]),
    ("destinations", &["list", "show", "pause", "resume", "probe", "secret"]),
    ("apps", &["list", "add", "show", "update", "delete"]),
    (
        "endpoints",
        &[
            "list",
            "add",
            "show",
            "update",
            "disable",
            "enable",
            "delete",
            "secret",
            "rotate",
            "stats",
            "send-example",
            "recover",
            "replay-missing",
            "operation",
        ],
    ),
    ("messages", &["list", "publish", "show", "resend"]),
    ("token", &[]),
    ("operations", &["list", "stop"]),
    ("secrets", &["reseal"]),
    ("doctor", &[]),
    ("openapi", &[]),
    ("config", &[]),
    ("secret", &[]),
    ("completions", &[]),
];

/// Checks the words after `posthaste` in a command line. Ignores flags and paths.
fn command_violation(words: &[&str]) -> Option<String> {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    let first = words.first().copied().filter(is_word)?;
    let Some((_, subcommands)) = COMMANDS.iter().find(|(command, _)| *command == first) else {
        return Some(format!("`posthaste {first}` is not a command"));
    };
    let second = words.get(1).copied().unwrap_or_default();
    let missing = !subcommands.is_empty() && !subcommands.contains(&second);
    missing
        .then(|| format!("`posthaste {first} {second}`: {first} requires one of {}", subcommands.join(", ")))
}

/// Returns the code in a text with Markdown: spans in backticks, and fenced blocks line by line.
fn code_parts(text: &str) -> Vec<&str> {
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let prose = text.split("```").step_by(2);
    blocks.chain(prose.flat_map(|prose| prose.split('`').skip(1).step_by(2))).collect()
}

/// Returns the words after each call of `posthaste` in a shell line.
fn posthaste_calls(line: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> =
        line.split([' ', '(', ')', '"', '|', ';', '\n']).filter(|word| !word.is_empty()).collect();
    let is_program = |word: &str| word == "posthaste" || word.ends_with("/bin/posthaste");
    let at = words.iter().enumerate().filter(|(_, word)| is_program(word)).map(|(at, _)| at);
    at.map(|at| words[at + 1..].to_vec()).collect()
}

/// Returns the arguments that a deployment file passes to `posthaste`. A compose file has them in `command`. A
/// Kubernetes manifest has them in `args`; its `command` belongs to a hook.
fn start_arguments(file: &File) -> Vec<Vec<String>> {
    if file.is_yaml() {
        let documents = parse_yaml(file).unwrap_or_default();
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

fn violations(file: &File) -> Vec<String> {
    let in_code = code_parts(&file.text)
        .into_iter()
        .flat_map(posthaste_calls)
        .filter_map(|words| command_violation(&words));
    let in_starts = start_arguments(file).into_iter().filter_map(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        command_violation(&words)
    });
    in_code.chain(in_starts).map(|violation| format!("{}: {violation}", file.path)).collect()
}

#[test]
fn every_command_in_the_deployment_and_the_runbook_exists() {
    let files: Vec<_> = deploy_files().into_iter().chain(files_at("docs/operations.md")).collect();
    let found = files.iter().flat_map(|file| code_parts(&file.text)).flat_map(posthaste_calls).count();
    assert!(found > 20, "only {found} commands were found");
    let started: Vec<_> = files.iter().flat_map(start_arguments).collect();
    assert!(started.iter().any(|words| words == &["serve", "--no-worker"]), "{started:?}");
    assert_none(&files.iter().flat_map(violations).collect::<Vec<_>>());
}

#[test]
fn command_that_does_not_exist_is_found() {
    let count =
        |path: &str, text: &str| violations(&File { path: path.to_owned(), text: text.to_owned() }).len();
    assert_eq!(
        count("a.md", "Run `posthaste doctor`, then `runuser -u posthaste -- posthaste dlq list`."),
        0
    );
    assert_eq!(
        count("a.md", "Run `posthaste repair`.\n```\nposthaste dlq purge | xargs posthaste reque\n```\n"),
        3
    );
    assert_eq!(
        count("a.md", "posthaste is a word in prose, `kubectl get pods -n posthaste` names a namespace"),
        0
    );
    assert_eq!(count("a.yaml", "containers: [{args: [\"work\"]}, {args: [\"worker\"]}]\n"), 1);
    assert_eq!(count("a.yaml", "lifecycle: {exec: {command: [\"sleep\", \"5\"]}}\n"), 0);
    assert_eq!(count("a.yaml", "services: {api: {command: [\"api\"]}}\n"), 1);
    assert_eq!(count("a.service", "ExecStart=/usr/local/bin/posthaste server\n"), 1);
    assert_eq!(count("Dockerfile", "CMD [\"start\"]\n"), 1);
}
