//! The request of a bulk operation: its fields as they are sent, and what they mean.

use posthaste_domain::Throttle;
use posthaste_store::BulkAction;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::actions::validate_reason;
use crate::error::ApiError;
use crate::filter::{FilterRequest, ParsedFilter, Place};

/// Dead letters per second, if the request does not say.
const RATE_DEFAULT: i64 = 100;
/// The most dead letters per second: more would only be held back by the workers' steps.
const RATE_MAX: i64 = 10_000;

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

/// A valid request.
#[derive(Debug)]
pub(super) struct AcceptedBulk {
    pub(super) action: BulkAction,
    pub(super) filter: ParsedFilter,
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
            filter: self.filter.unwrap_or_default().accept(Place::Filter)?,
            rate,
            reason: self.reason,
            is_dry_run: self.dry_run.unwrap_or(false),
        })
    }
}

/// The error of a field that breaks a rule.
fn invalid(field: &str, rule: &str, text: &str) -> ApiError {
    Place::Body.invalid(field, rule, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(body: serde_json::Value) -> Result<AcceptedBulk, String> {
        let request: BulkRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.accept().map_err(|error| error.to_string())
    }

    #[test]
    fn a_bad_value_is_named_with_its_rule() {
        for (body, message) in [
            (json!({"action": "delete"}), "action must be requeue, cancel or discard, got \"delete\""),
            (json!({"action": "requeue", "rate_per_second": 0}), "rate_per_second must be 1 to 10000, got 0"),
            (
                json!({"action": "requeue", "filter": {"failure_kind": "dead"}}),
                "filter.failure_kind must be exhausted, cancelled, abandoned, gone, expired or not_cancelled, got \"dead\"",
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
        assert_eq!(accepted.filter, ParsedFilter::default());
    }
}
