//! Commands of people who produce and receive events: `send` and `listen`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::ServerArgs;
use super::server::variable;

const SEND_EXAMPLES: &str = "\
Examples:
  posthaste send --url https://shop.example/hooks --type invoice.paid --data '{\"invoice\": 17}'
  jq .order all.json | posthaste send --url https://shop.example/hooks --type order.new --file -
  posthaste send --url http://127.0.0.1:8700/ --type test.ping --data '{}' --wait --timeout 30";

/// What the API accepts.
const MAX_ATTEMPTS: std::ops::RangeInclusive<i64> = 1..=1_000;

#[derive(Debug, Clone, Args)]
#[command(after_help = SEND_EXAMPLES, group = ArgGroup::new("payload").required(true))]
pub(crate) struct SendArgs {
    /// Where the event is delivered to
    #[arg(long)]
    pub(crate) url: String,
    /// The event's type, as its receivers know it
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: String,
    /// The payload, as JSON
    #[arg(long, value_name = "JSON", group = "payload")]
    pub(crate) data: Option<String>,
    /// A file with the payload, as JSON; - reads standard input
    #[arg(long, value_name = "FILE", group = "payload")]
    pub(crate) file: Option<PathBuf>,
    /// The event's id; without it, the server makes one
    #[arg(long, value_name = "ID")]
    pub(crate) event_id: Option<String>,
    /// Makes sending the same event again harmless: the server answers as it did the first time
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// The payment request that the event is about
    #[arg(long, value_name = "ID")]
    pub(crate) payment_request_id: Option<String>,
    /// The session that the event is about
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// A label for the receiver
    #[arg(long, value_name = "ID")]
    pub(crate) webhook_id: Option<String>,
    /// How often to try; without it, as often as the server's retry policy says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(MAX_ATTEMPTS))]
    pub(crate) max_attempts: Option<u32>,
    /// Wait until the event is delivered or failed; exit with 1 if it failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stop waiting after so many seconds, and exit with 1; the event goes on being delivered
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print the server's answer instead of the id; with --wait, the event as it ended
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

const LISTEN_EXAMPLES: &str = "\
Examples:
  posthaste listen --secret \"$(posthaste secret)\"
  posthaste listen --fail 2                   the first two deliveries of each event get a 500
  posthaste listen --status 410               every delivery is told that the endpoint is gone
  posthaste listen --port 0 --json | jq .event_type";

#[derive(Debug, Clone, Args)]
#[command(after_help = LISTEN_EXAMPLES)]
pub(crate) struct ListenArgs {
    /// The port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8700)]
    pub(crate) port: u16,
    /// The signing secret, whsec_…, as `posthaste secret` prints it; several are separated by commas or spaces
    /// [env: POSTHASTE_SIGNING_SECRET]
    #[arg(long = "secret", value_name = "SECRET", value_parser = some_secret)]
    secrets: Vec<String>,
    /// Answer 500 to the first N deliveries of each event
    #[arg(long, value_name = "N", conflicts_with = "status")]
    pub(crate) fail: Option<u32>,
    /// Answer every delivery with this status
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// Wait so many milliseconds before each answer
    #[arg(long, value_name = "MS", default_value_t = 0, hide_default_value = true)]
    pub(crate) delay: u64,
    /// Print one JSON object per delivery, on a line of its own
    #[arg(long)]
    pub(crate) json: bool,
}

impl ListenArgs {
    pub(crate) fn secrets(&self) -> Vec<String> {
        let listed = match self.secrets.as_slice() {
            [] => variable("POSTHASTE_SIGNING_SECRET").unwrap_or_default(),
            given => given.join(","),
        };
        each_secret(&listed).map(str::to_owned).collect()
    }
}

/// `posthaste secret` prints one per line.
fn each_secret(listed: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| c == ',' || c.is_whitespace();
    listed.split(between).filter(|secret| !secret.is_empty())
}

/// Whoever gives the flag wants signatures checked: that must not depend on whether there was a secret to give.
fn some_secret(text: &str) -> Result<String, String> {
    if each_secret(text).next().is_some() {
        return Ok(text.to_owned());
    }
    let advice = "there is no secret in it; if it was to come from `posthaste secret`, run that by itself to see why it \
                  printed none, or leave --secret out to check no signatures";
    Err(advice.to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "it must be 0 or more seconds".to_owned())
}
