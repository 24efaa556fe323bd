//! Parser for the list of criteria and their tests in `docs/requirements.md`.
//!
//! The list consists of every Markdown table with exactly the header `| id | what | tests |`. The parser ignores other
//! text and other tables. A row is:
//!
//! ```text
//! | S0-FR-001-AC1 | jitter is valid from 0 to 10000 | `s0_fr001_ac1_range` `s0_fr001_ac1_env` |
//! | S2-FR-003-AC2 | the list takes a limit          | `s2_fr003_ac2_limit` |
//! ```
//!
//! A row in any other form becomes a [`MalformedRow`] with the reason; the parser skips no row. A table ends at an empty
//! line.

use thiserror::Error;

const HEADER: [&str; 3] = ["id", "what", "tests"];

/// The parsed list of requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    pub rows: Vec<Row>,
    pub malformed: Vec<MalformedRow>,
}

/// One criterion and the tests that cover it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Line number in the file, from 1.
    pub line: usize,
    /// Id of the criterion, as in `S0-FR-001-AC1`.
    pub id: String,
    /// Names of test functions, without their modules; at least one.
    pub tests: Vec<String>,
}

/// A row that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {error}")]
pub struct MalformedRow {
    pub line: usize,
    pub error: RowError,
}

/// Why a row could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowError {
    #[error(
        "`{0}` is not a row of three cells; write `| id | what | tests |`, and an empty line after the table"
    )]
    NotThreeCells(String),
    #[error("`{0}` follows the header directly; put the line `|---|---|---|` between them")]
    NoSeparator(String),
    #[error("`{0}` is not an id; write capitals, digits, dots and hyphens, as in `S0-FR-001-AC1`")]
    BadId(String),
    #[error("{id} already has a row at line {first_line}; list all its tests there")]
    DuplicateId { id: String, first_line: usize },
    #[error("{0} has an empty cell under `what`; describe the requirement")]
    NoDescription(String),
    #[error("{0} lists no test; list one in backticks")]
    NoTests(String),
    #[error("{id} has `{word}` under `tests`; write test function names in backticks, without their modules")]
    BadTestName { id: String, word: String },
}

/// The part of the document that the parser is in.
enum ParsePosition {
    Text,
    CodeBlock,
    BelowHeader,
    TableRows,
}

/// Parses all tables of requirements in a Markdown text.
pub fn parse_requirements(text: &str) -> Requirements {
    let mut requirements = Requirements::default();
    let mut position = ParsePosition::Text;
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        let fence = content.starts_with("```");
        position = match position {
            ParsePosition::CodeBlock if fence => ParsePosition::Text,
            ParsePosition::CodeBlock => ParsePosition::CodeBlock,
            ParsePosition::Text if fence => ParsePosition::CodeBlock,
            ParsePosition::Text if cells(content).is_some_and(|cells| cells == HEADER) => {
                ParsePosition::BelowHeader
            }
            ParsePosition::Text => ParsePosition::Text,
            ParsePosition::BelowHeader => {
                if !is_separator(content) {
                    requirements.push_malformed(line, RowError::NoSeparator(content.to_owned()));
                }
                ParsePosition::TableRows
            }
            ParsePosition::TableRows if content.is_empty() => ParsePosition::Text,
            ParsePosition::TableRows => {
                requirements.push_row(line, content);
                ParsePosition::TableRows
            }
        };
    }
    requirements
}

impl Requirements {
    fn push_row(&mut self, line: usize, content: &str) {
        match parse_row(line, content).and_then(|row| self.reject_duplicate(row)) {
            Ok(row) => self.rows.push(row),
            Err(error) => self.push_malformed(line, error),
        }
    }

    fn push_malformed(&mut self, line: usize, error: RowError) {
        self.malformed.push(MalformedRow { line, error });
    }

    fn reject_duplicate(&self, row: Row) -> Result<Row, RowError> {
        match self.rows.iter().find(|earlier| earlier.id == row.id) {
            Some(earlier) => Err(RowError::DuplicateId { id: row.id, first_line: earlier.line }),
            None => Ok(row),
        }
    }
}

fn parse_row(line: usize, content: &str) -> Result<Row, RowError> {
    let cells = cells(content).unwrap_or_default();
    let [id, what, tests] = cells[..] else { return Err(RowError::NotThreeCells(content.to_owned())) };
    if !is_id(id) {
        return Err(RowError::BadId(id.to_owned()));
    }
    if what.is_empty() {
        return Err(RowError::NoDescription(id.to_owned()));
    }
    let tests = parse_test_names(id, tests)?;
    if tests.is_empty() {
        return Err(RowError::NoTests(id.to_owned()));
    }
    Ok(Row { line, id: id.to_owned(), tests })
}

fn parse_test_names(id: &str, names: &str) -> Result<Vec<String>, RowError> {
    names
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| match word.strip_prefix('`').and_then(|word| word.strip_suffix('`')) {
            Some(name) if is_test_name(name) => Ok(name.to_owned()),
            _ => Err(RowError::BadTestName { id: id.to_owned(), word: word.to_owned() }),
        })
        .collect()
}

fn is_id(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_uppercase())
        && id.ends_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
        && id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-' || c == '.')
}

fn is_test_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_separator(line: &str) -> bool {
    let is_dashes = |cell: &str| cell.contains('-') && cell.chars().all(|c| c == '-' || c == ':');
    cells(line).is_some_and(|cells| cells.len() == HEADER.len() && cells.into_iter().all(is_dashes))
}

/// Splits a table line into its trimmed cells; `\|` does not end a cell. None unless the line starts and ends with a pipe.
fn cells(line: &str) -> Option<Vec<&str>> {
    let mut rest = line.strip_prefix('|')?;
    let mut cells = Vec::new();
    while let Some(end) = unescaped_pipe(rest) {
        cells.push(rest[..end].trim());
        rest = &rest[end + 1..];
    }
    rest.is_empty().then_some(cells)
}

/// Returns the byte index of the first pipe without a backslash before it.
fn unescaped_pipe(text: &str) -> Option<usize> {
    text.match_indices('|').map(|(at, _)| at).find(|&at| !text[..at].ends_with('\\'))
}

#[cfg(test)]
mod tests;
