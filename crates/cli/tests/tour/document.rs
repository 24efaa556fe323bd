//! The parts of Markdown that these tests need: sections, fenced blocks, tables, code spans and links.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Reads a document of the repository, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// Returns the text under a heading of the second level.
pub(crate) fn section(document: &str, heading: &str) -> String {
    let start = format!("## {heading}");
    let lines = document.lines().skip_while(|line| *line != start).skip(1);
    let text: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
    assert!(!text.is_empty(), "the document has no section {start:?}");
    text.join("\n")
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// The last terminal that the text names before the block, as in `**Terminal 2**`.
    pub(crate) terminal: Option<u8>,
}

/// Returns the fenced blocks of a text, in order.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut terminal = None;
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new(), terminal });
            }
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => terminal = named_terminal(line).or(terminal),
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    found
}

fn named_terminal(line: &str) -> Option<u8> {
    let (_, rest) = line.rsplit_once("**Terminal ")?;
    rest.split("**").next()?.parse().ok()
}

/// Returns the cells of every row of the tables in a text, without the header rows.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<_> = text.lines().collect();
    let is_delimiter = |line: &str| line.starts_with("|---");
    let is_header = |at: usize| lines.get(at + 1).is_some_and(|next| is_delimiter(next));
    let rows = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| line.starts_with('|') && !is_delimiter(line) && !is_header(*at));
    rows.map(|(_, line)| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// Returns the text between backticks, outside fenced blocks.
pub(crate) fn code_spans(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Returns the targets of links within the repository, as they are written.
pub(crate) fn links(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// Returns the anchors of the headings of a document.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == ' ' || c == '_';
    headings
        .map(|title| title.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn blocks_have_their_language_and_the_terminal_named_before_them() {
    let text = "a\n**Terminal 1**:\n```sh\nx\n```\n```\ny\nz\n```\nnow in **Terminal 2**.\n```text\n```";
    let block = |language: &str, text: &str, terminal| Block {
        language: language.into(),
        text: text.into(),
        terminal,
    };
    let expected = [block("sh", "x\n", Some(1)), block("", "y\nz\n", Some(1)), block("text", "", Some(2))];
    assert_eq!(blocks(text), expected);
}

#[test]
fn a_section_ends_at_the_next_heading_and_rows_exclude_table_headers() {
    let text = "# t\n## A\nx\n| h |\n|---|\n| `a` | b |\n### deeper\n## B\n| c |\n";
    assert_eq!(section(text, "A"), "x\n| h |\n|---|\n| `a` | b |\n### deeper");
    assert_eq!(rows(text), [vec!["`a`", "b"], vec!["c"]]);
    assert_eq!(code_spans(text), ["a"]);
}

#[test]
fn links_and_anchors_exclude_fenced_blocks() {
    let text = "# The `map`, then\n[a](b.md#c) [d](https://x.example/)\n```\n[e](f)\n```\n";
    assert_eq!(links(text), ["b.md#c"]);
    assert_eq!(anchors(text), ["the-map-then"]);
}
