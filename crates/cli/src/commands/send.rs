//! `posthaste send`: one event, through the API, its payload exactly as it was given.

mod wait;

use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::SendArgs;
use crate::client::{Accepted, Client, ClientError};
use crate::terminal::{self, BadUsage};
use wait::Watched;

/// More than any server accepts; what is read must end.
const PAYLOAD_BYTES_MAX: u64 = 32 * 1_024 * 1_024;

/// The body of the request, in the API's words.
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
}

pub(crate) async fn run(args: &SendArgs, client: &Client) -> anyhow::Result<ExitCode> {
    let body = body(args, &payload(args)?)?;
    let answer = match &args.idempotency_key {
        Some(key) => client.post_once(&["events"], body, key).await,
        None => client.post(&["events"], Some(body)).await,
    };
    let answer = answer.map_err(ClientError::of_arguments)?;
    let Accepted { event_id } = answer.read()?;
    if !args.json {
        // Whoever waits is told by the exit code too.
        terminal::print_if_read(&terminal::harmless_line(&event_id))?;
    } else if !args.wait {
        terminal::print_answer(answer.as_bytes())?;
    }
    if !args.wait {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        terminal::note(&format!("{event_id} was accepted"));
    }
    let watched = wait::until_settled(client, &event_id, args.timeout).await?;
    if args.json {
        terminal::print_answer(watched.answer.as_bytes())?;
    }
    terminal::note(&told(&watched, &event_id));
    Ok(if watched.event.status() == "delivered" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn body(args: &SendArgs, payload: &RawValue) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&NewEvent {
        destination_url: &args.url,
        event_type: &args.event_type,
        payload,
        event_id: args.event_id.as_deref(),
        payment_request_id: args.payment_request_id.as_deref(),
        session_id: args.session_id.as_deref(),
        webhook_id: args.webhook_id.as_deref(),
        max_attempts: args.max_attempts,
    })?)
}

/// Raw, because what is signed and sent is this text and no other spelling of it.
fn payload(args: &SendArgs) -> Result<Box<RawValue>, BadUsage> {
    let (text, from) = match (&args.data, &args.file) {
        (Some(data), _) => (data.clone(), "--data".to_owned()),
        (None, Some(path)) if path.as_os_str() == "-" => {
            read(io::stdin().lock(), "standard input".to_owned())?
        }
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| BadUsage(format!("cannot open {name}: {error}")))?;
            read(file, name)?
        }
        (None, None) => return Err(BadUsage("give a payload with --data or --file".to_owned())),
    };
    serde_json::from_str(&text).map_err(|error| {
        let example = r#"--data '{"invoice": 17}'"#;
        BadUsage(format!("the payload in {from} is not JSON ({error}): write it as in {example}"))
    })
}

/// What was read, and from where.
fn read(from: impl Read, name: String) -> Result<(String, String), BadUsage> {
    let mut text = String::new();
    match from.take(PAYLOAD_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(bytes) if bytes as u64 > PAYLOAD_BYTES_MAX => Err(BadUsage(format!(
            "{name} holds more than {PAYLOAD_BYTES_MAX} bytes: no server accepts as many"
        ))),
        Ok(_) => Ok((text, name)),
        Err(error) => Err(BadUsage(format!("cannot read {name}: {error}"))),
    }
}

fn told(watched: &Watched, event_id: &str) -> String {
    let event = &watched.event;
    let attempts = terminal::counted(event.attempts.into(), "attempt");
    let error = event.last_error.as_deref().map(|error| format!(": {}", terminal::harmless_line(error)));
    let error = error.unwrap_or_default();
    match event.status() {
        "delivered" => format!("delivered after {attempts}"),
        "pending" => format!(
            "still pending after {attempts}, and no longer waited for: it goes on being delivered. \
             `posthaste events show {event_id}` tells how it fares"
        ),
        status => format!(
            "{status} after {attempts}{error}. `posthaste events show {event_id}` tells more, `posthaste dlq requeue \
             {event_id}` tries again"
        ),
    }
}
