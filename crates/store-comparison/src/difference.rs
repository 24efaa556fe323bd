//! Where the two disagree, in words.

use std::fmt::{self, Debug};

use posthaste_store::StoreError;

/// What the store did and the model did not.
#[derive(Debug)]
pub(crate) struct Difference(String);

/// What a step comes to as long as the two agree.
pub(crate) type Agreed<T = ()> = Result<T, Difference>;

impl Difference {
    pub(crate) fn new(told: impl Into<String>) -> Self {
        Self(told.into())
    }

    /// A call that the model answers and the store does not.
    pub(crate) fn failed(call: &str, error: &StoreError) -> Self {
        Self(format!("{call} failed: {error}"))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Both are in the model's terms.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, model: &T, store: &T) -> Agreed {
    if model == store {
        return Ok(());
    }
    let (model, store) = (field_by_field(model), field_by_field(store));
    Err(Difference(format!("{what} differs:\n{}", differing_fields(&model, &store))))
}

/// A line for each field, whatever its value holds.
fn field_by_field(value: &impl Debug) -> Vec<String> {
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

/// Two values of one shape have the same fields; where they do not, both are shown whole.
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
        let told = same("a thing", &model, &store).unwrap_err().to_string();
        assert_eq!(told, "a thing differs:\n  model: size: None,\n  store: size: Some(Some(7)),");
    }

    #[test]
    fn values_of_different_shapes_are_shown_whole() {
        let told = same("it", &vec![1], &vec![1, 2]).unwrap_err().to_string();
        assert!(
            told.contains("model: [\n    1,\n]") && told.contains("store: [\n    1,\n    2,\n]"),
            "{told}"
        );
    }
}
