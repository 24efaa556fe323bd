//! Request bodies of the registry: unknown fields are ignored, and a mistake is reported with the path to its field.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, Uri};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};

use super::error::{Problem, RegistryError};
use crate::api::ApiState;
use crate::body::{RequestBody, require_json};
use crate::error::ApiError;
use crate::json::Object;

/// Maximum size of a body without a payload.
pub(super) const BODY_BYTES_MAX: usize = 512 << 10;
/// The longest part of a parser's message that an error repeats, in characters. The message may quote the request.
const MESSAGE_CHARS_MAX: usize = 400;
/// The longest part of a field's name that an error repeats, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A request whose body has not been read yet.
pub(super) struct Incoming {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    body: Body,
}

impl<S: Send + Sync> FromRequest<S> for Incoming {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        Ok(Self { uri: parts.uri, headers: parts.headers, body })
    }
}

impl Incoming {
    /// Reads the body. A body that is not empty must be declared as JSON.
    pub(super) async fn read(self, state: &ApiState, bytes_max: usize) -> Result<RequestBody, RegistryError> {
        let body = state.bodies.read(&*state.clock, self.body, bytes_max).await?;
        if !body.bytes.is_empty() {
            require_json(&self.headers).map_err(|error| match error {
                ApiError::Invalid { message, .. } => RegistryError::UnsupportedMediaType(message),
                other => other.into(),
            })?;
        }
        Ok(body)
    }
}

/// Parses a whole body as a JSON object. `T` may borrow from the body.
pub(super) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, RegistryError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| invalid_body(error.inner(), Some(error.path())))?;
    json.end().map_err(|error| invalid_body(&error, None))?;
    Ok(value)
}

/// Parses a body that may be left out.
pub(super) fn parse_optional<'b, T: Deserialize<'b> + Default>(body: &'b [u8]) -> Result<T, RegistryError> {
    if body.is_empty() { Ok(T::default()) } else { parse(body) }
}

/// Distinguishes a field that is null from one that is left out.
pub(super) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Describes a parser's error: where it is, and what is wrong.
fn invalid_body(error: &serde_json::Error, path: Option<&Path>) -> RegistryError {
    let message: String = error.to_string().chars().take(MESSAGE_CHARS_MAX).collect();
    let mut loc = vec!["body".to_owned()];
    if !error.is_syntax() && !error.is_eof() {
        loc.extend(path.into_iter().flat_map(Path::iter).filter_map(segment_name));
        loc.extend(missing_field(&message));
    }
    let kind = match error.classify() {
        serde_json::error::Category::Data => "value_error",
        _ => "value_error.jsondecode",
    };
    RegistryError::Invalid(Problem { loc, msg: message, kind })
}

fn segment_name(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.chars().take(NAME_CHARS_MAX).collect()),
        _ => None,
    }
}

/// Returns the name of a field that is missing. Serde raises this error at the object that lacks the field.
fn missing_field(message: &str) -> Option<String> {
    let (name, _) = message.strip_prefix("missing field `")?.split_once('`')?;
    Some(name.to_owned())
}
