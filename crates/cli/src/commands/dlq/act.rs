//! `posthaste dlq requeue ID…` and `dlq discard ID…`: act on the named events with one request each, a few requests at a time.

use std::process::ExitCode;

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use crate::cli::BulkArgs;
use crate::client::{ActionResult, ApiClient, ApiResponse, Hold};
use crate::terminal::{self, BadUsage, escape_line, time};

/// Number of concurrent requests: enough to share commits in the store, few enough not to delay deliveries.
const CONCURRENCY: usize = 8;

/// What the command does to dead letters.
pub(super) struct Action {
    /// The last segment of the path.
    path: &'static str,
    /// What an event is after the action.
    done: &'static str,
    body: Option<Vec<u8>>,
}

impl Action {
    pub(super) const fn requeue() -> Self {
        Self { path: "requeue", done: "requeued", body: None }
    }

    pub(super) fn discard(reason: Option<&str>) -> Self {
        let body = reason.map(|reason| json!({ "reason": reason }).to_string().into_bytes());
        Self { path: "discard", done: "discarded", body }
    }
}

/// Acts on these events, and prints the result of each. Fails if the server refused one.
pub(super) async fn run(
    action: &Action,
    event_ids: &[String],
    args: &BulkArgs,
    client: &ApiClient,
) -> anyhow::Result<ExitCode> {
    if args.filter.is_given() {
        return Err(BadUsage(
            "--all, --kind and the other conditions select among all events; use them without ids".to_owned(),
        )
        .into());
    }
    let requests = event_ids.iter().map(|event_id| async move {
        (event_id, client.act(&["dlq", event_id, action.path], action.body.clone()).await)
    });
    // `buffered` keeps the order: with --json, the n-th line is the response for the n-th id.
    let mut responses = stream::iter(requests).buffered(CONCURRENCY);
    let mut is_any_refused = false;
    while let Some((event_id, response)) = responses.next().await {
        match response {
            Ok(response) => report(action, &response, args.json)?,
            Err(refused) if refused.is_event_rejection() => {
                is_any_refused = true;
                terminal::note(&format!("posthaste: {event_id}: {refused}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if is_any_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints one response. A closed standard output is no error: the other events are still changed.
fn report(action: &Action, response: &ApiResponse, json: bool) -> anyhow::Result<()> {
    if json {
        return terminal::print_unless_closed(&String::from_utf8_lossy(response.as_bytes()));
    }
    let ActionResult { event_id, delivery_status, held } = response.parse()?;
    let status = delivery_status.map(|status| format!(": {status}")).unwrap_or_default();
    terminal::print_unless_closed(&escape_line(&format!("{event_id} is {}{status}", action.done)))?;
    if let Some(hold) = &held {
        terminal::note(&describe_hold(hold));
    }
    Ok(())
}

/// Says why an event is not sent yet, and how to send it now.
pub(in crate::commands) fn describe_hold(hold: &Hold) -> String {
    let id = escape_line(&hold.destination_id);
    let at = |text: &Option<String>| text.as_deref().map(|text| time::format_full(text, time::now()));
    let why = match (hold.state.as_str(), at(&hold.paused_until), at(&hold.next_probe_at)) {
        ("paused", Some(until), _) => format!("is paused until {until}"),
        ("paused", None, _) => "is paused until it is resumed".to_owned(),
        (_, _, Some(probe)) => format!("has an open circuit; the next probe is {probe}"),
        _ => "has an open circuit".to_owned(),
    };
    format!("It is held: destination {id} {why}. `posthaste destinations resume {id}` sends it now.")
}
