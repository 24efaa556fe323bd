//! JSON request bodies: parsed by serde, with errors that name the position, the field and the array index of the mistake.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_path_to_error::{Path, Segment};

use crate::error::ApiError;

/// The longest part of a parser message that an error repeats, in characters. The message may quote the request.
const MESSAGE_CHARS_MAX: usize = 400;
/// The longest part of a field name that an error repeats, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Parses a whole body as JSON. `T` may borrow from the body.
pub(crate) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| invalid_body(error.inner(), Some(error.path())))?;
    json.end().map_err(|error| invalid_body(&error, None))?;
    Ok(value)
}

/// A `T` that must be written as a JSON object.
///
/// A derived `Deserialize` also accepts an array of the fields' values in order: `["reason"]` for `{"reason":"reason"}`. The
/// API does not.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Describes a parser error: what is wrong, in which array element, in which field, at which line and column.
fn invalid_body(error: &serde_json::Error, path: Option<&Path>) -> ApiError {
    let (line, column) = (error.line(), error.column());
    let full_message = error.to_string();
    let position = format!(" at line {line} column {column}");
    let reason = truncate(full_message.strip_suffix(&position).unwrap_or(&full_message), MESSAGE_CHARS_MAX);
    let mut details = serde_json::Map::new();
    let mut message = String::from("the body is invalid: ");
    if let Some(index) = path.and_then(array_index) {
        details.insert("index".to_owned(), json!(index));
        message += &format!("event {index}: ");
    }
    if let Some(field) = field_in_message(&reason) {
        details.insert("field".to_owned(), json!(truncate(field, NAME_CHARS_MAX)));
    } else if let Some(field) = path.and_then(field_of_value) {
        let field = truncate(field, NAME_CHARS_MAX);
        message += &format!("{field}: ");
        details.insert("field".to_owned(), json!(field));
    }
    message += &reason;
    if line > 0 {
        details.insert("line".to_owned(), json!(line));
        details.insert("column".to_owned(), json!(column));
        message += &position;
    }
    ApiError::invalid_at(message, details.into())
}

/// Returns the index of the array element that a path leads into.
fn array_index(path: &Path) -> Option<usize> {
    path.iter().find_map(|segment| match segment {
        Segment::Seq { index } => Some(*index),
        _ => None,
    })
}

/// Returns the field whose value a path leads into: of the array element, if it leads into one.
fn field_of_value(path: &Path) -> Option<&str> {
    let before_element = path.iter().position(|segment| matches!(segment, Segment::Seq { .. })).unwrap_or(0);
    path.iter().skip(before_element).find_map(|segment| match segment {
        Segment::Map { key } => Some(key.as_str()),
        _ => None,
    })
}

/// Returns the field that an error about a missing, duplicate or unknown field names. Serde raises these errors at the
/// object, so the path may not contain the field.
fn field_in_message(message: &str) -> Option<&str> {
    if let Some(unknown) = message.strip_prefix("unknown field `") {
        return unknown.split_once("`, expected ").map(|(field, _)| field);
    }
    let quoted =
        message.strip_prefix("missing field `").or_else(|| message.strip_prefix("duplicate field `"))?;
    quoted.strip_suffix('`')
}

fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
