//! Rule: source files and documents name the actor and use plain words. This test finds the most common violations.
//!
//! The rule is in CONTRIBUTING.md under **Words**.

use std::fs;
use std::path::{Path, PathBuf};

/// Words and phrases that hide the actor or read as riddles. They match as whole words, in any case, and also as parts of
/// `snake_case` names.
///
/// The list is split with [`concat!`], so that this file passes its own check.
const BANNED: [&str; 7] = [
    concat!("to", "ld"),
    concat!("who", "ever"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("every", "body"),
    concat!("is so ", "no more"),
    concat!("how-", "manieth"),
];

/// Directories with checked files. The check also reads the files in the root itself.
const DIRECTORIES: [&str; 3] = ["crates", "docs", "deploy"];
const EXTENSIONS: [&str; 4] = ["md", "rs", "sql", "toml"];

/// Returns the banned words and phrases in a line.
fn banned_in(line: &str) -> Vec<&'static str> {
    let line = line.to_ascii_lowercase();
    BANNED.into_iter().filter(|phrase| has_words(&line, phrase)).collect()
}

/// Returns whether a line contains a phrase that is not part of a longer word.
fn has_words(line: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + phrase.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

/// Returns the checked files in a directory; also those in its subdirectories if `recursive`.
fn checked_files(directory: &Path, recursive: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("a directory entry can be read").path());
    let has_extension = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    };
    paths
        .flat_map(|path| match path.is_dir() {
            true if recursive => checked_files(&path, true),
            true => vec![],
            false => vec![path],
        })
        .filter(has_extension)
        .collect()
}

#[test]
fn no_file_contains_a_banned_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root");
    let mut files = checked_files(root, false);
    files.extend(DIRECTORIES.into_iter().flat_map(|directory| checked_files(&root.join(directory), true)));
    files.sort();
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut violations = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let path = path.strip_prefix(root).expect("the file is in the workspace").display();
        for (number, line) in (1..).zip(text.lines()) {
            violations.extend(banned_in(line).into_iter().map(|phrase| {
                format!("{path}:{number}: \"{phrase}\"; name the actor, see **Words** in CONTRIBUTING.md")
            }));
        }
    }
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn banned_words_match_as_whole_words_in_any_case() {
    let [verb, actor, .., phrase, _] = BANNED;
    for line in [
        verb.to_owned(),
        format!("Text that {actor}'s eyes read"),
        format!("fn is_{verb}_once()"),
        format!("// {}.", actor.to_uppercase()),
        format!("a limit that {phrase}"),
    ] {
        assert_eq!(banned_in(&line).len(), 1, "{line}");
    }
    for line in [format!("s{verb}"), format!("{verb}er"), "the body, somewhere".to_owned(), String::new()] {
        assert_eq!(banned_in(&line), [] as [&str; 0], "{line}");
    }
}
