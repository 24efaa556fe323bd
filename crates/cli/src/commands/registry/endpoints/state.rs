//! The state of an endpoint in words. The registry knows whether an endpoint is disabled. The operators' API knows whether it is
//! failing, paused or behind an open circuit, and needs the API key of a viewer or operator.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use posthaste_domain::{EndpointId, Timestamp};
use serde::Deserialize;

use crate::client::{ApiClient, ApiPath, ClientError, Destination, EndpointItem, ListPage, RegistryPage};
use crate::commands::destinations;
use crate::terminal::{Color, time};

/// Number of requests to the operators' API that are in flight at once.
const REQUESTS_MAX: usize = 8;

/// One page of endpoints, with the operator's view of each where the API key permits it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct EndpointPage(RegistryPage<EndpointItem>);

impl ListPage for EndpointPage {
    type Item = EndpointItem;

    const API: ApiPath = RegistryPage::<EndpointItem>::API;
    const CURSOR_PARAMETER: &'static str = RegistryPage::<EndpointItem>::CURSOR_PARAMETER;

    fn items(&self) -> &[EndpointItem] {
        self.0.items()
    }

    fn next_cursor(&self) -> Option<&String> {
        self.0.next_cursor()
    }

    async fn complete(&mut self, client: &ApiClient) {
        load(self.0.items_mut(), client).await;
    }
}

/// Adds the operator's view to the enabled endpoints. An endpoint whose view cannot be loaded keeps the registry's fields. The
/// first request is sent alone, so that a key without the permission costs one request.
pub(super) async fn load(endpoints: &mut [EndpointItem], client: &ApiClient) {
    let mut enabled = endpoints.iter_mut().filter(|endpoint| !endpoint.disabled);
    let Some(first) = enabled.next() else { return };
    match request(first, client).await {
        Ok(destination) => first.destination = destination,
        Err(_) => return,
    }
    let requests = enabled.map(async |endpoint| {
        endpoint.destination = request(endpoint, client).await.ok().flatten();
    });
    stream::iter(requests).buffer_unordered(REQUESTS_MAX).collect::<()>().await;
}

/// Requests the destination of an endpoint. Returns None for an id of a form that this version does not know.
async fn request(endpoint: &EndpointItem, client: &ApiClient) -> Result<Option<Destination>, ClientError> {
    let Some(EndpointId(destination)) = EndpointId::parse(&endpoint.id) else { return Ok(None) };
    client.get(&["destinations", &destination.to_string()], &[]).await?.parse().map(Some)
}

/// Formats the state of an endpoint. Without the operator's view, an endpoint is enabled or disabled.
pub(super) fn describe(endpoint: &EndpointItem, now: Timestamp) -> (String, Color) {
    match (endpoint.disabled, &endpoint.disabled_reason, &endpoint.destination) {
        (true, Some(reason), _) => (format!("disabled ({reason})"), Color::Bad),
        (true, None, _) => ("disabled".to_owned(), Color::Bad),
        (false, _, None) => ("enabled".to_owned(), Color::Good),
        (false, _, Some(destination)) => (words(destination, now), destinations::color(destination)),
    }
}

/// Formats the state of a destination, and for how long it has had it or will keep it.
fn words(destination: &Destination, now: Timestamp) -> String {
    let at = |text: &Option<String>| text.as_deref().and_then(time::parse);
    let format = |duration: Duration| time::format_duration(duration);
    match destination.state.as_str() {
        "failing" => match at(&destination.failing_since) {
            Some(since) => format!("failing for {}", format(now.since(since))),
            None => "failing".to_owned(),
        },
        "paused" => match at(&destination.paused_until) {
            Some(until) => format!("paused for another {}", format(until.since(now))),
            None => "paused until resumed".to_owned(),
        },
        "circuit_open" => match at(&destination.next_probe_at) {
            Some(probe) if probe > now => format!("circuit open, probe in {}", format(probe.since(now))),
            _ => "circuit open".to_owned(),
        },
        state => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_words_with_durations() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let (earlier, later) =
            (Some("2026-01-31T16:28:02Z".to_owned()), Some("2026-01-31T16:31:32Z".to_owned()));
        let destination = |state: &str| Destination { state: state.into(), ..Destination::default() };
        let cases = [
            (destination("ok"), "ok"),
            (Destination { failing_since: earlier, ..destination("failing") }, "failing for 3 min"),
            (Destination { paused_until: later.clone(), ..destination("paused") }, "paused for another 30 s"),
            (destination("paused"), "paused until resumed"),
            (
                Destination { next_probe_at: later, ..destination("circuit_open") },
                "circuit open, probe in 30 s",
            ),
        ];
        for (destination, expected) in cases {
            let endpoint = EndpointItem { destination: Some(destination), ..EndpointItem::default() };
            assert_eq!(describe(&endpoint, now).0, expected);
        }
        assert_eq!(describe(&EndpointItem::default(), now).0, "enabled");
    }
}
