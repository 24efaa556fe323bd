//! Rule: the documents state how many kinds of fault the simulation injects, and how many planted bugs it catches.

use std::fs;
use std::path::Path;

/// The documents that state these numbers.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "docs/comparison.md"];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the number of faults that the macro `faults!` lists.
fn fault_count(source: &str) -> usize {
    let list = source.split_once("\nfaults! {\n").expect("the source lists the faults").1;
    let list = list.split_once("\n}").expect("the list ends").0;
    list.lines().filter(|line| line.trim_end().ends_with("\",")).count()
}

fn test_count(source: &str) -> usize {
    source.lines().filter(|line| *line == "#[test]").count()
}

/// Returns the numbers that stand directly before the words.
fn numbers_before(text: &str, words: &str) -> Vec<usize> {
    let before = text.match_indices(words).map(|(at, _)| text[..at].trim_end());
    before.filter_map(|text| text.rsplit(char::is_whitespace).next()?.parse().ok()).collect()
}

#[test]
fn documents_state_the_number_of_faults_and_of_planted_bugs() {
    let faults = fault_count(&read("crates/sim/src/fault.rs"));
    let bugs = test_count(&read("crates/sim/tests/planted_bugs/main.rs"));
    let mut stated = 0;
    for document in DOCUMENTS {
        let text = read(document);
        for (words, count) in [("kinds of fault", faults), ("planted bugs", bugs)] {
            let numbers = numbers_before(&text, words);
            stated += numbers.len();
            assert!(
                numbers.iter().all(|number| *number == count),
                "{document}: {count} {words}, not {numbers:?}"
            );
        }
    }
    assert!(stated >= 5, "the documents state the numbers {stated} times");
}

#[test]
fn counts_are_read_from_sources_and_documents() {
    let source = "/// Doc.\nfaults! {\n    A: \"a\",\n    /// Doc.\n    B: \"b\",\n}\n    C: \"c\",\n";
    assert_eq!(fault_count(source), 2);
    assert_eq!(test_count("#[test]\nfn a() {}\n#[test]\nfn b() {}\n"), 2);
    assert_eq!(
        numbers_before("35 planted bugs, and 7\nplanted bugs; the planted bugs", "planted bugs"),
        [35, 7]
    );
}
