//! Conditions on events that lists and bulk operations share: their texts, and what they mean.

use posthaste_domain::{ApplicationId, ApplicationRef, DestinationUrl, EndpointId, FailureKind, OrgId, Uid};
use posthaste_store::{AppScope, BulkFilter, ErrorFilter, StoreError};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::api::ApiState;
use crate::error::ApiError;
use crate::query::{QueryParameters, excerpt, invalid_parameter};
use crate::timestamp::GivenTime;

/// Longest text of an event type or of a producer's reference in a filter, in characters.
const TEXT_CHARS_MAX: usize = 256;
/// The value of `failure_kind` that selects every kind but `cancelled`.
pub(crate) const NOT_CANCELLED: &str = "not_cancelled";

/// The names of the parameters that [`FilterRequest::of_query`] reads.
pub(crate) const FILTER_PARAMETERS: [&str; 7] =
    ["destination", "app", "event_type", "failure_kind", "error_class", "since", "until"];

/// Conditions that a dead letter must meet, all of them. Without a condition, all dead letters but cancelled ones are selected.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBulkFilter)]
pub(crate) struct FilterRequest {
    /// The URL to which the events were enqueued, or the id of an endpoint.
    #[schema(example = "https://shop.example/hooks")]
    destination: Option<String>,
    /// The id or the uid of an application.
    #[schema(example = "customer-17")]
    app: Option<String>,
    #[schema(max_length = 256, example = "invoice.paid")]
    event_type: Option<String>,
    /// A failure kind; `not_cancelled` stands for every kind but `cancelled`, as no kind does.
    #[schema(example = "exhausted")]
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

/// Where a condition was given, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A field of a body.
    Body,
    /// A field of the filter in a body.
    Filter,
    /// A parameter of the query.
    Query,
}

impl Place {
    /// Returns the error of a value that breaks a rule.
    pub(crate) fn invalid(self, name: &str, rule: &str, text: &str) -> ApiError {
        self.error(name, &format!("must be {rule}, got {:?}", excerpt(text)))
    }

    fn error(self, name: &str, message: &str) -> ApiError {
        match self {
            Self::Body => ApiError::invalid_at(format!("{name} {message}"), json!({ "field": name })),
            Self::Filter => {
                let field = format!("filter.{name}");
                ApiError::invalid_at(format!("{field} {message}"), json!({ "field": field }))
            }
            Self::Query => invalid_parameter(name, format!("{name} {message}")),
        }
    }
}

/// A valid filter, whose application may still be a uid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedFilter {
    filter: BulkFilter,
    app_uid: Option<(Uid, String)>,
}

impl ParsedFilter {
    /// Finds the application by its uid.
    pub(crate) async fn resolve(mut self, state: &ApiState, place: Place) -> Result<BulkFilter, ApiError> {
        if let Some((uid, text)) = self.app_uid {
            let (org, app) = (OrgId::default_org(), ApplicationRef::Uid(uid));
            self.filter.app = match state.store.applications().get(AppScope { org: &org, app: &app }).await {
                Ok(app) => Some(app.id),
                Err(StoreError::ApplicationNotFound { .. }) => {
                    return Err(place.invalid("app", "the id or the uid of an existing application", &text));
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(self.filter)
    }
}

impl FilterRequest {
    /// Reads the conditions from the query.
    pub(crate) fn of_query(parameters: &QueryParameters) -> Result<Self, ApiError> {
        let text = |name| parameters.get(name).map(str::to_owned);
        let time = |name| match text(name) {
            None => Ok(None),
            Some(given) => match GivenTime::try_from(given) {
                Ok(time) => Ok(Some(time)),
                Err(message) => Err(Place::Query.error(name, &message)),
            },
        };
        Ok(Self {
            destination: text("destination"),
            app: text("app"),
            event_type: text("event_type"),
            failure_kind: text("failure_kind"),
            error_class: text("error_class"),
            since: time("since")?,
            until: time("until")?,
        })
    }

    /// Validates the conditions.
    pub(crate) fn accept(self, place: Place) -> Result<ParsedFilter, ApiError> {
        let mut parsed = ParsedFilter::default();
        let filter = &mut parsed.filter;
        (filter.since, filter.until) = (self.since.map(|since| since.0), self.until.map(|until| until.0));
        if let Some(text) = self.destination {
            filter.endpoint = EndpointId::parse(&text);
            if filter.endpoint.is_none() {
                let url = DestinationUrl::parse(&text);
                let rule = "a URL or the id of an endpoint";
                filter.destination = Some(url.map_err(|_| place.invalid("destination", rule, &text))?);
            }
        }
        if let Some(text) = self.app {
            filter.app = ApplicationId::parse(&text);
            if filter.app.is_none() {
                let uid = Uid::for_application(&text);
                let uid =
                    uid.map_err(|_| place.invalid("app", "the id or the uid of an application", &text))?;
                parsed.app_uid = Some((uid, text));
            }
        }
        let filter = &mut parsed.filter;
        filter.event_type = self.event_type.map(|text| accept_text("event_type", text, place)).transpose()?;
        if let Some(text) = self.failure_kind.filter(|text| text != NOT_CANCELLED) {
            let names: Vec<&str> = FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
            let rule = format!("{} or {NOT_CANCELLED}", names.join(", "));
            let kind = FailureKind::from_name(&text);
            filter.failure_kind = Some(kind.ok_or_else(|| place.invalid("failure_kind", &rule, &text))?);
        }
        if let Some(text) = self.error_class {
            let rule = "an error class such as timeout, or an HTTP status such as http_503 or http_5xx";
            let error = ErrorFilter::parse(&text);
            filter.error = Some(error.ok_or_else(|| place.invalid("error_class", rule, &text))?);
        }
        if let (Some(since), Some(until)) = (filter.since, filter.until)
            && since > until
        {
            let until = if place == Place::Filter { "filter.until" } else { "until" };
            return Err(place.error("since", &format!("must not be later than {until}")));
        }
        Ok(parsed)
    }
}

/// Accepts a text that is compared as a whole.
pub(crate) fn accept_text(name: &str, text: String, place: Place) -> Result<String, ApiError> {
    match text.chars().count() {
        1..=TEXT_CHARS_MAX => Ok(text),
        _ => Err(place.invalid(name, &format!("1 to {TEXT_CHARS_MAX} characters"), &text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(request: FilterRequest, place: Place) -> Result<ParsedFilter, String> {
        request.accept(place).map_err(|error| error.to_string())
    }

    #[test]
    fn a_destination_is_a_url_or_an_endpoint() {
        let of = |text: &str| {
            let request = FilterRequest { destination: Some(text.to_owned()), ..FilterRequest::default() };
            accept(request, Place::Filter).map(|parsed| parsed.filter)
        };
        assert_eq!(of("https://a.example/x").unwrap().destination.unwrap().as_str(), "https://a.example/x");
        assert!(of("ep_0000000000000011").unwrap().endpoint.is_some());
        let refused = of("nowhere").unwrap_err();
        assert_eq!(refused, "filter.destination must be a URL or the id of an endpoint, got \"nowhere\"");
    }

    #[test]
    fn an_application_is_an_id_or_a_uid() {
        let of = |text: &str| {
            accept(FilterRequest { app: Some(text.to_owned()), ..FilterRequest::default() }, Place::Query)
        };
        assert!(of("app_0000000000000003").unwrap().filter.app.is_some());
        assert_eq!(of("customer-17").unwrap().app_uid.unwrap().1, "customer-17");
        let refused = of("a b").unwrap_err();
        assert_eq!(refused, "app must be the id or the uid of an application, got \"a b\"");
    }

    #[test]
    fn no_kind_and_not_cancelled_mean_the_same() {
        let of = |kind: Option<&str>| {
            let failure_kind = kind.map(str::to_owned);
            accept(FilterRequest { failure_kind, ..FilterRequest::default() }, Place::Filter).unwrap()
        };
        assert_eq!(of(None), of(Some(NOT_CANCELLED)));
    }
}
