//! Query parameters of the registry: unknown ones are ignored, and a value of the wrong type is a 400.

use std::collections::BTreeSet;

use axum::extract::{FromRequestParts, Query};
use http::Uri;
use http::request::Parts;
use posthaste_domain::{Channel, EventTypeName, Timestamp};

use super::error::RegistryError;

/// The parameters of a request's query.
pub(super) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = RegistryError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RegistryError> {
        Self::parse(&parts.uri)
    }
}

impl Params {
    pub(super) fn parse(uri: &Uri) -> Result<Self, RegistryError> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            RegistryError::IllTyped(
                "the query cannot be parsed; write it as name=value&name=value".to_owned(),
            )
        })?;
        Ok(Self(pairs.0))
    }

    /// Returns the value of a parameter. Of several, the last one counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn bool(&self, name: &str) -> Result<Option<bool>, RegistryError> {
        self.typed(name, "true or false", |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, RegistryError> {
        self.typed(name, "a whole number", |text| text.parse().ok())
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, RegistryError> {
        self.typed(name, "a time as in 2026-01-31T11:29:00Z", parse_time)
    }

    pub(super) fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RegistryError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            RegistryError::IllTyped(format!("{name} must be {expected}, got {shown:?}"))
        })
    }

    /// Returns the event types of a filter, which are joined by commas or repeated.
    pub(super) fn event_types(&self) -> Result<Option<BTreeSet<EventTypeName>>, RegistryError> {
        let values = self.0.iter().filter(|(key, _)| key == "event_types");
        let names = values.flat_map(|(_, value)| value.split(',')).filter(|name| !name.is_empty());
        let types: BTreeSet<_> = names
            .map(EventTypeName::new)
            .collect::<Result<_, _>>()
            .map_err(|error| RegistryError::in_query("event_types", error))?;
        Ok((!types.is_empty()).then_some(types))
    }

    pub(super) fn channel(&self) -> Result<Option<Channel>, RegistryError> {
        let channel = self.get("channel").map(Channel::new).transpose();
        channel.map_err(|error| RegistryError::in_query("channel", error))
    }
}

/// Parses a time: RFC 3339, or without an offset, which then is UTC, as some SDKs write it.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let with_offset = text.parse::<jiff::Timestamp>().ok();
    let time = with_offset.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    time.map(|time| Timestamp::from_micros(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_is_utc() {
        let expected = Some(Timestamp::from_secs(1_700_000_000));
        for text in [
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:20+01:00",
            "2023-11-14T22:13:20",
            "2023-11-14 22:13:20Z",
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
        for text in ["", "yesterday", "1700000000", "2023-13-01T00:00:00Z"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
