//! The request of a bulk operation: its fields as they are sent, and what they mean.

use posthaste_domain::{ApplicationId, DestinationUrl, EndpointId, FailureKind, Throttle};
use posthaste_store::{BulkAction, BulkFilter, ErrorFilter};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::actions::validate_reason;
use crate::error::ApiError;
use crate::query::excerpt;
use crate::timestamp::GivenTime;

/// Dead letters per second, if the request does not say.
const RATE_DEFAULT: i64 = 100;
/// The most dead letters per second: more would only be held back by the workers' steps.
const RATE_MAX: i64 = 10_000;
/// Longest text of an event type in a filter, in characters.
const EVENT_TYPE_CHARS_MAX: usize = 256;

/// What to do with which dead letters.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBulkOperation)]
pub(crate) struct BulkRequest {
    #[schema(value_type = super::BulkActionSchema)]
    action: String,
    filter: Option<FilterRequest>,
    /// Dead letters per second, by default 100.
    #[schema(minimum = 1, maximum = 10000, example = 100)]
    rate_per_second: Option<i64>,
    /// Why, for the audit log of each event and for `last_error` of cancelled ones.
    #[schema(max_length = 500, example = "the receiver is up again")]
    reason: Option<String>,
    /// Only count the dead letters that the filter selects.
    dry_run: Option<bool>,
}

/// Conditions that a dead letter must meet, all of them. Without a condition, all dead letters but cancelled ones are selected.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBulkFilter)]
pub(crate) struct FilterRequest {
    /// The URL to which the events were enqueued, or the id of an endpoint.
    #[schema(example = "https://shop.example/hooks")]
    destination: Option<String>,
    /// The id of an application.
    #[schema(example = "app_0000000000000003")]
    app: Option<String>,
    #[schema(max_length = 256, example = "invoice.paid")]
    event_type: Option<String>,
    #[schema(value_type = Option<crate::event::FailureKindSchema>)]
    failure_kind: Option<String>,
    /// The beginning of the last error: `timeout`, `dns`, `blocked_address`, `connect`, `tls`, `certificate`, `reset`,
    /// `broken_response`, `unsendable`, `panic`, an HTTP status such as `http_503`, or all of one hundred such as `http_5xx`.
    #[schema(example = "http_5xx")]
    error_class: Option<String>,
    /// Events that failed at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<GivenTime>,
    /// Events that failed at this time or earlier.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<GivenTime>,
}

/// A valid request.
#[derive(Debug)]
pub(super) struct AcceptedBulk {
    pub(super) action: BulkAction,
    pub(super) filter: BulkFilter,
    pub(super) rate: Throttle,
    pub(super) reason: Option<String>,
    pub(super) is_dry_run: bool,
}

impl BulkRequest {
    /// Validates the request.
    pub(super) fn accept(self) -> Result<AcceptedBulk, ApiError> {
        let action = BulkAction::from_name(&self.action)
            .ok_or_else(|| invalid("action", "requeue, cancel or discard", &self.action))?;
        let rate = self.rate_per_second.unwrap_or(RATE_DEFAULT);
        let rate = Throttle::new(rate).ok().filter(|_| rate <= RATE_MAX).ok_or_else(|| {
            let message = format!("rate_per_second must be 1 to {RATE_MAX}, got {rate}");
            ApiError::invalid_at(message, json!({ "field": "rate_per_second" }))
        })?;
        validate_reason(self.reason.as_deref().unwrap_or_default())?;
        Ok(AcceptedBulk {
            action,
            filter: self.filter.unwrap_or_default().accept()?,
            rate,
            reason: self.reason,
            is_dry_run: self.dry_run.unwrap_or(false),
        })
    }
}

impl FilterRequest {
    fn accept(self) -> Result<BulkFilter, ApiError> {
        let mut filter = BulkFilter {
            since: self.since.map(|since| since.0),
            until: self.until.map(|until| until.0),
            ..BulkFilter::default()
        };
        if let Some(text) = self.destination {
            filter.endpoint = EndpointId::parse(&text);
            if filter.endpoint.is_none() {
                let url = DestinationUrl::parse(&text);
                let url =
                    url.map_err(|_| invalid("filter.destination", "a URL or the id of an endpoint", &text))?;
                filter.destination = Some(url);
            }
        }
        if let Some(text) = self.app {
            let app = ApplicationId::parse(&text);
            filter.app = Some(app.ok_or_else(|| invalid("filter.app", "the id of an application", &text))?);
        }
        if let Some(text) = self.event_type {
            if text.is_empty() || text.chars().count() > EVENT_TYPE_CHARS_MAX {
                let rule = format!("1 to {EVENT_TYPE_CHARS_MAX} characters");
                return Err(invalid("filter.event_type", &rule, &text));
            }
            filter.event_type = Some(text);
        }
        if let Some(text) = self.failure_kind {
            let names: Vec<&str> = FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
            let kind = FailureKind::from_name(&text);
            let rule = format!("one of {}", names.join(", "));
            filter.failure_kind = Some(kind.ok_or_else(|| invalid("filter.failure_kind", &rule, &text))?);
        }
        if let Some(text) = self.error_class {
            let rule = "an error class such as timeout, or an HTTP status such as http_503 or http_5xx";
            let error = ErrorFilter::parse(&text);
            filter.error = Some(error.ok_or_else(|| invalid("filter.error_class", rule, &text))?);
        }
        if let (Some(since), Some(until)) = (filter.since, filter.until)
            && since > until
        {
            let message = "filter.since must not be later than filter.until";
            return Err(ApiError::invalid_at(message, json!({ "field": "filter.since" })));
        }
        Ok(filter)
    }
}

/// The error of a field that breaks a rule.
fn invalid(field: &str, rule: &str, text: &str) -> ApiError {
    let shown = excerpt(text);
    ApiError::invalid_at(format!("{field} must be {rule}, got {shown:?}"), json!({ "field": field }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(body: serde_json::Value) -> Result<AcceptedBulk, String> {
        let request: BulkRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.accept().map_err(|error| error.to_string())
    }

    #[test]
    fn a_destination_is_a_url_or_an_endpoint() {
        let of = |text: &str| {
            accept(json!({"action": "requeue", "filter": {"destination": text}})).map(|it| it.filter)
        };
        assert_eq!(of("https://a.example/x").unwrap().destination.unwrap().as_str(), "https://a.example/x");
        assert!(of("ep_0000000000000011").unwrap().endpoint.is_some());
        let refused = of("nowhere").unwrap_err();
        assert_eq!(refused, "filter.destination must be a URL or the id of an endpoint, got \"nowhere\"");
    }

    #[test]
    fn a_bad_value_is_named_with_its_rule() {
        for (body, message) in [
            (json!({"action": "delete"}), "action must be requeue, cancel or discard, got \"delete\""),
            (json!({"action": "requeue", "rate_per_second": 0}), "rate_per_second must be 1 to 10000, got 0"),
            (
                json!({"action": "requeue", "filter": {"failure_kind": "dead"}}),
                "filter.failure_kind must be one of exhausted, cancelled, abandoned, gone, expired, got \"dead\"",
            ),
            (
                json!({"action": "requeue", "filter": {"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}}),
                "filter.since must not be later than filter.until",
            ),
        ] {
            assert_eq!(accept(body).unwrap_err(), message);
        }
        assert!(
            accept(json!({"action": "requeue", "filter": {"since": "yesterday"}}))
                .unwrap_err()
                .contains("RFC 3339")
        );
        assert!(accept(json!({"action": "requeue", "other": 1})).unwrap_err().contains("unknown field"));
    }

    #[test]
    fn the_rate_is_a_hundred_by_default() {
        let accepted = accept(json!({"action": "discard"})).unwrap();
        assert_eq!((accepted.rate.per_second(), accepted.is_dry_run), (100, false));
        assert_eq!(accepted.filter, BulkFilter::default());
    }
}
