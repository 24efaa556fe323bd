//! Reads the list of criteria and their tests out of `docs/requirements.md`.
//!
//! The list is every Markdown table whose header is exactly `| id | what | tests |`; other text and other tables
//! are left alone. A row is:
//!
//! ```text
//! | S0-FR-001-AC1 | jitter is valid from 0 to 10000 | `s0_fr001_ac1_range` `s0_fr001_ac1_env` |
//! | S2-FR-003-AC2 | the list takes a limit          | `s2_fr003_ac2_limit` |
//! ```
//!
//! A row that reads otherwise is malformed and says why; it is never skipped. A table ends at an empty line.

use thiserror::Error;

const HEADER: [&str; 3] = ["id", "what", "tests"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    pub rows: Vec<Row>,
    pub malformed: Vec<MalformedRow>,
}

/// One criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub line: usize,
    pub id: String,
    /// At least one.
    pub tests: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {error}")]
pub struct MalformedRow {
    pub line: usize,
    pub error: RowError,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowError {
    #[error(
        "`{0}` is not a row of three cells; write `| id | what | tests |`, and an empty line after the table"
    )]
    NotThreeCells(String),
    #[error("`{0}` stands where the line `|---|---|---|` belongs; put it under the header")]
    NoSeparator(String),
    #[error("`{0}` is not an id; write capitals, digits, dots and hyphens, as in `S0-FR-001-AC1`")]
    BadId(String),
    #[error("{id} has a row already, at line {first_line}; name all its tests there")]
    DuplicateId { id: String, first_line: usize },
    #[error("{0} says nothing under `what`; say what it asks for")]
    NothingAsked(String),
    #[error("{0} names no test; name one in backticks")]
    NoTests(String),
    #[error("{id} has `{word}` under `tests`; write test function names in backticks, without their modules")]
    BadTestName { id: String, word: String },
}

enum Place {
    Text,
    CodeFence,
    BelowHeader,
    Rows,
}

pub fn parse_requirements(text: &str) -> Requirements {
    let mut found = Requirements::default();
    let mut place = Place::Text;
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        let fence = content.starts_with("```");
        place = match place {
            Place::CodeFence if fence => Place::Text,
            Place::CodeFence => Place::CodeFence,
            Place::Text if fence => Place::CodeFence,
            Place::Text if cells(content).is_some_and(|cells| cells == HEADER) => Place::BelowHeader,
            Place::Text => Place::Text,
            Place::BelowHeader => {
                if !is_separator(content) {
                    found.refuse(line, RowError::NoSeparator(content.to_owned()));
                }
                Place::Rows
            }
            Place::Rows if content.is_empty() => Place::Text,
            Place::Rows => {
                found.take(line, content);
                Place::Rows
            }
        };
    }
    found
}

impl Requirements {
    fn take(&mut self, line: usize, content: &str) {
        match parse_row(line, content).and_then(|row| self.refuse_duplicate(row)) {
            Ok(row) => self.rows.push(row),
            Err(error) => self.refuse(line, error),
        }
    }

    fn refuse(&mut self, line: usize, error: RowError) {
        self.malformed.push(MalformedRow { line, error });
    }

    fn refuse_duplicate(&self, row: Row) -> Result<Row, RowError> {
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
        return Err(RowError::NothingAsked(id.to_owned()));
    }
    let tests = parse_names(id, tests)?;
    if tests.is_empty() {
        return Err(RowError::NoTests(id.to_owned()));
    }
    Ok(Row { line, id: id.to_owned(), tests })
}

fn parse_names(id: &str, names: &str) -> Result<Vec<String>, RowError> {
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
    let is_rule = |cell: &str| cell.contains('-') && cell.chars().all(|c| c == '-' || c == ':');
    cells(line).is_some_and(|cells| cells.len() == HEADER.len() && cells.into_iter().all(is_rule))
}

/// The trimmed cells of a table line; `\|` does not end a cell. None where the line is not framed by pipes.
fn cells(line: &str) -> Option<Vec<&str>> {
    let mut rest = line.strip_prefix('|')?;
    let mut cells = Vec::new();
    while let Some(end) = unescaped_pipe(rest) {
        cells.push(rest[..end].trim());
        rest = &rest[end + 1..];
    }
    rest.is_empty().then_some(cells)
}

fn unescaped_pipe(text: &str) -> Option<usize> {
    text.match_indices('|').map(|(at, _)| at).find(|&at| !text[..at].ends_with('\\'))
}

#[cfg(test)]
mod tests;
