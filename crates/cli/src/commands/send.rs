//! `posthaste send`: enqueues one event through the API. The payload is sent byte for byte.

mod wait;

use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::SendArgs;
use crate::client::{AcceptedEvent, ApiClient, ClientError, Event};
use crate::terminal::{self, BadUsage};
use wait::PolledEvent;

/// Maximum number of bytes read from a file or standard input, which may be endless. More than any server accepts.
const PAYLOAD_BYTES_MAX: u64 = 32 * 1_024 * 1_024;

/// The request body that enqueues the event.
#[derive(Serialize)]
struct NewEvent<'a> {
    destination_url: &'a str,
    event_type: &'a str,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<&'a str>,
}

pub(crate) async fn run(args: &SendArgs, client: &ApiClient) -> anyhow::Result<ExitCode> {
    let body = request_body(args, &read_payload(args)?)?;
    let response = match &args.idempotency_key {
        Some(key) => client.post_idempotent(&["events"], body, key).await,
        None => client.post(&["events"], Some(body)).await,
    };
    let response = response.map_err(ClientError::blame_arguments)?;
    let AcceptedEvent { event_id } = response.parse()?;
    if !args.json {
        // A closed standard output must not end --wait: its exit code is a result too.
        terminal::print_unless_closed(&terminal::escape_line(&event_id))?;
    } else if !args.wait {
        terminal::print_response(response.as_bytes())?;
    }
    if !args.wait {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        terminal::note(&format!("{event_id} was accepted"));
    }
    wait_for_result(client, &event_id, args.timeout, args.json).await
}

/// Waits until an event is settled, and prints its result. The command fails unless the event is delivered.
pub(super) async fn wait_for_result(
    client: &ApiClient,
    event_id: &str,
    timeout: Option<Duration>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let PolledEvent { response, event } = wait::wait_until_settled(client, event_id, timeout).await?;
    if json {
        terminal::print_response(response.as_bytes())?;
    }
    terminal::note(&describe_result(&event, event_id));
    Ok(if event.status() == "delivered" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn request_body(args: &SendArgs, payload: &RawValue) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&NewEvent {
        destination_url: &args.url,
        event_type: &args.event_type,
        payload,
        event_id: args.event_id.as_deref(),
        payment_request_id: args.payment_request_id.as_deref(),
        session_id: args.session_id.as_deref(),
        webhook_id: args.webhook_id.as_deref(),
        max_attempts: args.max_attempts,
        deliver_at: args.deliver_at.as_deref(),
    })?)
}

/// Reads the payload from the arguments, a file or standard input. It stays raw text, because exactly these bytes are
/// signed and delivered.
fn read_payload(args: &SendArgs) -> Result<Box<RawValue>, BadUsage> {
    let (text, source) = match (&args.data, &args.file) {
        (Some(data), _) => (data.clone(), "--data".to_owned()),
        (None, Some(path)) if path.as_os_str() == "-" => {
            read(io::stdin().lock(), "standard input".to_owned())?
        }
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| BadUsage(format!("cannot open {name}: {error}")))?;
            read(file, name)?
        }
        (None, None) => return Err(BadUsage("add a payload with --data or --file".to_owned())),
    };
    serde_json::from_str(&text).map_err(|error| {
        let example = r#"--data '{"invoice": 17}'"#;
        BadUsage(format!("the payload in {source} is not JSON ({error}): write it as in {example}"))
    })
}

/// Reads a bounded text. Returns it with the name of its source.
fn read(source: impl Read, name: String) -> Result<(String, String), BadUsage> {
    let mut text = String::new();
    match source.take(PAYLOAD_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(bytes) if bytes as u64 > PAYLOAD_BYTES_MAX => Err(BadUsage(format!(
            "{name} holds more than {PAYLOAD_BYTES_MAX} bytes, which no server accepts"
        ))),
        Ok(_) => Ok((text, name)),
        Err(error) => Err(BadUsage(format!("cannot read {name}: {error}"))),
    }
}

/// Describes the event after the wait: delivered, failed, or still pending because the wait timed out.
fn describe_result(event: &Event, event_id: &str) -> String {
    let attempts = terminal::pluralize(event.attempts.into(), "attempt");
    let error = event.last_error.as_deref().map(|error| format!(": {}", terminal::escape_line(error)));
    let error = error.unwrap_or_default();
    match event.status() {
        "delivered" => format!("delivered after {attempts}"),
        "pending" => format!(
            "still pending after {attempts}: stopped waiting, delivery continues. \
             `posthaste events show {event_id}` shows its state"
        ),
        status => format!(
            "{status} after {attempts}{error}. `posthaste events show {event_id}` shows the attempts, `posthaste dlq \
             requeue {event_id}` tries again"
        ),
    }
}
