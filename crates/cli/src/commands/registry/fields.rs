//! Fields of requests and of cards that several resources share.

use std::collections::BTreeMap;

use posthaste_domain::Timestamp;
use serde_json::{Map, Value, json};

use crate::terminal::{OutputStyle, render_fields, time};

/// The body of a request: fields that the command line sets.
#[derive(Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Sets a field, if there is a value.
    pub(super) fn set(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Sets a field to a list, unless it is empty.
    pub(super) fn list(self, name: &str, values: &[String]) -> Self {
        self.set(name, (!values.is_empty()).then(|| json!(values)))
    }

    /// Sets the metadata, unless there are no pairs.
    pub(super) fn metadata(self, pairs: &[(String, String)]) -> Self {
        let object: BTreeMap<_, _> = pairs.iter().cloned().collect();
        self.set("metadata", (!pairs.is_empty()).then(|| json!(object)))
    }

    /// Sets a field to null, which clears it.
    pub(super) fn clear(self, name: &str, cleared: bool) -> Self {
        self.set(name, cleared.then_some(Value::Null))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_body(self) -> Value {
        Value::Object(self.0)
    }
}

/// Renders the fields of a card that have a value.
pub(super) fn card(fields: Vec<(&'static str, Option<String>)>, style: OutputStyle) -> String {
    let fields: Vec<_> = fields
        .into_iter()
        .filter_map(|(name, value)| value.filter(|value| !value.is_empty()).map(|value| (name, value)))
        .collect();
    render_fields(&fields, style)
}

/// Formats metadata as `key=value`, separated by spaces.
pub(super) fn metadata(pairs: &BTreeMap<String, String>) -> Option<String> {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(pairs.join(" "))
}

/// Formats a time of a response for a card.
pub(super) fn at(text: Option<&String>, now: Timestamp) -> Option<String> {
    text.map(|text| time::format_full(text, now))
}

/// Formats a limit of messages per second.
pub(super) fn throttle(rate: Option<u32>) -> Option<String> {
    rate.map(|rate| format!("{rate}/s"))
}
