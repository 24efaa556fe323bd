//! Tests of the table format.

use super::*;

fn table(rows: &str) -> String {
    format!("| id | what | tests |\n|---|---|---|\n{rows}\n")
}

/// Parses a table with this row, which must be well formed.
fn parse_valid(row: &str) -> Row {
    let parsed = parse_requirements(&table(row));
    assert_eq!(parsed.malformed, []);
    assert_eq!(parsed.rows.len(), 1, "{row}");
    parsed.rows.into_iter().next().unwrap()
}

/// Parses a table with this row, which must be malformed, and returns the reason.
fn parse_malformed(row: &str) -> RowError {
    let parsed = parse_requirements(&table(row));
    assert_eq!(parsed.rows, [], "{row}");
    assert_eq!(parsed.malformed.len(), 1, "{row}");
    assert_eq!(parsed.malformed[0].line, 3, "{row}");
    parsed.malformed.into_iter().next().unwrap().error
}

#[test]
fn test_names_are_separated_by_spaces_or_commas() {
    let row = parse_valid("| S1-3.3 | the five tests | `test_a`, `test_b` `test_c` |");
    assert_eq!((row.line, row.id.as_str()), (3, "S1-3.3"));
    assert_eq!(row.tests, ["test_a", "test_b", "test_c"]);
}

#[test]
fn escaped_pipe_does_not_end_a_cell() {
    assert_eq!(parse_valid(r"| S4-F1 | `a \| b` | `s4_f1_a` |").tests, ["s4_f1_a"]);
}

#[test]
fn each_malformed_row_has_its_reason() {
    let id = || "S4-F1".to_owned();
    let bad_word = |word: &str| RowError::BadTestName { id: id(), word: word.to_owned() };
    let cases = [
        ("| S4-F1 | what | `a`", RowError::NotThreeCells("| S4-F1 | what | `a`".to_owned())),
        ("| S4-F1 | `a` |", RowError::NotThreeCells("| S4-F1 | `a` |".to_owned())),
        ("S4-F1 without pipes", RowError::NotThreeCells("S4-F1 without pipes".to_owned())),
        ("| s4 f1 | what | `a` |", RowError::BadId("s4 f1".to_owned())),
        ("| | what | `a` |", RowError::BadId(String::new())),
        ("| S4-F1 | | `a` |", RowError::NoDescription(id())),
        ("| S4-F1 | what | |", RowError::NoTests(id())),
        ("| S4-F1 | what | , |", RowError::NoTests(id())),
        ("| S4-F1 | what | a |", bad_word("a")),
        ("| S4-F1 | what | `tests::a` |", bad_word("`tests::a`")),
        ("| S4-F1 | what | `a` later |", bad_word("later")),
        ("| S4-F1 | what | not yet |", bad_word("not")),
        ("| S4-F1 | what | `a`, not yet: the rest |", bad_word("not")),
    ];
    for (row, error) in cases {
        assert_eq!(parse_malformed(row), error);
    }
}

#[test]
fn second_row_for_an_id_is_malformed() {
    let parsed = parse_requirements(&table("| S4-F1 | what | `a` |\n| S4-F1 | what | `b` |"));
    let error = RowError::DuplicateId { id: "S4-F1".to_owned(), first_line: 3 };
    assert_eq!(parsed.malformed, [MalformedRow { line: 4, error }]);
    assert_eq!(parsed.rows.len(), 1);
}

#[test]
fn header_without_a_separator_is_malformed() {
    let parsed = parse_requirements("| id | what | tests |\n| S4-F1 | what | `a` |\n");
    assert!(matches!(parsed.malformed[..], [MalformedRow { line: 2, error: RowError::NoSeparator(_) }]));
}

#[test]
fn other_text_and_other_tables_are_ignored() {
    let text = "\
# Requirements

| id | tests |
|---|---|
| not | `ours` |

```text
| id | what | tests |
|---|---|---|
| S4-F1 | an example | `a` |
```

| id | what | tests |
|:--|---|--:|
| S4-A1 | what | `b` |

| loose | pipes | here |
";
    let parsed = parse_requirements(text);
    assert_eq!(parsed.malformed, []);
    assert_eq!(parsed.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["S4-A1"]);
}
