//! Differences between the store and the model, as text.

use std::fmt::{self, Debug};

use posthaste_store::StoreError;

/// Describes how the store's behaviour differs from the model's.
#[derive(Debug)]
pub(crate) struct Difference(String);

/// The result of a comparison: an error as soon as the store and the model differ.
pub(crate) type ComparisonResult<T = ()> = Result<T, Difference>;

impl Difference {
    pub(crate) fn new(description: impl Into<String>) -> Self {
        Self(description.into())
    }

    /// Describes a call that fails on the store and succeeds on the model.
    pub(crate) fn failed(call: &str, error: &StoreError) -> Self {
        Self(format!("{call} failed: {error}"))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Compares two values, after the store's ids and timestamps were converted to the model's.
pub(crate) fn compare<T: PartialEq + Debug>(what: &str, model: &T, store: &T) -> ComparisonResult {
    if model == store {
        return Ok(());
    }
    let (model, store) = (field_lines(model), field_lines(store));
    Err(Difference(format!("{what} differs:\n{}", differing_fields(&model, &store))))
}

/// Formats a value with one line per field; a nested tuple value stays on its field's line.
fn field_lines(value: &impl Debug) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    let mut open_at = None;
    for line in format!("{value:#?}").lines() {
        let indent = line.len() - line.trim_start().len();
        match (open_at, fields.last_mut()) {
            (Some(opened), Some(field)) => {
                if line.trim().starts_with(')') && field.ends_with(',') {
                    field.pop();
                }
                field.push_str(line.trim());
                open_at = Some(opened).filter(|opened| indent > *opened);
            }
            _ => {
                fields.push(line.to_owned());
                open_at = line.ends_with('(').then_some(indent);
            }
        }
    }
    fields
}

/// Shows the lines that differ. Values with different numbers of lines are shown whole.
fn differing_fields(model: &[String], store: &[String]) -> String {
    if model.len() != store.len() {
        return format!("model: {}\nstore: {}", model.join("\n"), store.join("\n"));
    }
    let differing = model.iter().zip(store).filter(|(model, store)| model != store);
    let lines: Vec<String> = differing
        .map(|(model, store)| format!("  model: {}\n  store: {}", model.trim(), store.trim()))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing {
        name: &'static str,
        size: Option<Option<u8>>,
    }

    #[test]
    fn only_the_fields_that_differ_are_shown() {
        let (model, store) = (Thing { name: "it", size: None }, Thing { name: "it", size: Some(Some(7)) });
        let difference = compare("a thing", &model, &store).unwrap_err().to_string();
        assert_eq!(difference, "a thing differs:\n  model: size: None,\n  store: size: Some(Some(7)),");
    }

    #[test]
    fn values_of_different_shapes_are_shown_whole() {
        let difference = compare("it", &vec![1], &vec![1, 2]).unwrap_err().to_string();
        assert!(
            difference.contains("model: [\n    1,\n]") && difference.contains("store: [\n    1,\n    2,\n]"),
            "{difference}"
        );
    }
}
