//! Arguments of the commands for producers and receivers: `send` and `listen`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::ServerArgs;
use super::server::variable;

const SEND_EXAMPLES: &str = "\
Examples:
  posthaste send --url https://shop.example/hooks --type invoice.paid --data '{\"invoice\": 17}'
  jq .order all.json | posthaste send --url https://shop.example/hooks --type order.new --file -
  posthaste send --url http://127.0.0.1:8700/ --type test.ping --data '{}' --wait --timeout 30
  posthaste send --url https://shop.example/hooks --type trial.ends --data '{}' --deliver-at 2026-01-31T11:00:00Z";

/// The values of `max_attempts` that the API accepts.
const MAX_ATTEMPTS: std::ops::RangeInclusive<i64> = 1..=1_000;

#[derive(Debug, Clone, Args)]
#[command(after_help = SEND_EXAMPLES, group = ArgGroup::new("payload").required(true))]
pub(crate) struct SendArgs {
    /// URL to deliver the event to
    #[arg(long)]
    pub(crate) url: String,
    /// Type of the event, such as invoice.paid
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: String,
    /// Payload, as JSON
    #[arg(long, value_name = "JSON", group = "payload")]
    pub(crate) data: Option<String>,
    /// File with the payload, as JSON; - reads standard input
    #[arg(long, value_name = "FILE", group = "payload")]
    pub(crate) file: Option<PathBuf>,
    /// Id of the event; without it, the server generates one
    #[arg(long, value_name = "ID")]
    pub(crate) event_id: Option<String>,
    /// Idempotency key: the same event sent again with the same key is enqueued once and gets the same response
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Id of the payment request that the event is about
    #[arg(long, value_name = "ID")]
    pub(crate) payment_request_id: Option<String>,
    /// Id of the session that the event is about
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Label of the receiver
    #[arg(long, value_name = "ID")]
    pub(crate) webhook_id: Option<String>,
    /// Maximum number of attempts; without it, the server's retry policy decides
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(MAX_ATTEMPTS))]
    pub(crate) max_attempts: Option<u32>,
    /// Time of the first attempt, as in 2026-01-31T11:00:00Z, at most 90 days ahead [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) deliver_at: Option<String>,
    /// Wait until the event is delivered or failed; exit with 1 if it failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stop waiting after this time and exit with 1; delivery of the event continues
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = parse_seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print the server's JSON response instead of the id; with --wait, the event in its final state
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

const LISTEN_EXAMPLES: &str = "\
Examples:
  posthaste secret | posthaste listen --secret-file -
  posthaste listen --fail 2                   respond 500 to the first two deliveries of each event
  posthaste listen --status 410               respond 410 Gone to every delivery
  posthaste listen --port 0 --json | jq .event_type
  posthaste listen --register customer-17     register as an endpoint of the application, until Ctrl-C";

#[derive(Debug, Clone, Args)]
#[command(after_help = LISTEN_EXAMPLES)]
pub(crate) struct ListenArgs {
    /// Port on 127.0.0.1; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 8700)]
    pub(crate) port: u16,
    /// File with the signing secret, whsec_…, as `posthaste secret` prints it; - reads standard input. Several secrets are
    /// separated by commas or white space [env: POSTHASTE_SIGNING_SECRET, which holds the secret itself]
    #[arg(long, value_name = "FILE", conflicts_with = "secrets")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Signing secret. Every user of this machine can read the arguments of a process: use --secret-file for a real secret
    #[arg(long = "secret", value_name = "SECRET", value_parser = require_secret)]
    secrets: Vec<String>,
    /// Respond with 500 to the first N deliveries of each event
    #[arg(long, value_name = "N", conflicts_with = "status")]
    pub(crate) fail: Option<u32>,
    /// Respond to every delivery with this status
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// Delay of each response in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, hide_default_value = true)]
    pub(crate) delay: u64,
    /// Print each delivery as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
    /// Register this receiver as an endpoint of an application, with a secret of its own, and delete it at the end
    #[arg(long, value_name = "APP", conflicts_with_all = ["secret_file", "secrets"])]
    pub(crate) register: Option<String>,
    /// With --register: receive only messages of this registered event type; may be repeated
    #[arg(long = "type", value_name = "TYPE", requires = "register")]
    pub(crate) event_types: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl ListenArgs {
    /// Returns the secrets of `--secret` or, without that flag, of the environment variable. `--secret-file` takes
    /// precedence over both.
    pub(crate) fn secrets(&self) -> String {
        match self.secrets.as_slice() {
            [] => variable("POSTHASTE_SIGNING_SECRET").unwrap_or_default(),
            flags => flags.join(","),
        }
    }
}

/// Splits a list of secrets at commas and white space: `posthaste secret` prints one secret per line.
pub(crate) fn split_secrets(list: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c == ',' || c.is_whitespace();
    list.split(is_separator).filter(|secret| !secret.is_empty())
}

/// Returns a text with secrets, or an error if it contains none. A user who passes a secret wants signatures to be checked,
/// even if `posthaste secret` failed and printed nothing.
pub(crate) fn require_secret(text: &str) -> Result<String, String> {
    if split_secrets(text).next().is_some() {
        return Ok(text.to_owned());
    }
    let advice = "it contains no secret; if it comes from `posthaste secret`, run that command alone to see why it \
                  printed none, or omit the flag to skip verification";
    Err(advice.to_owned())
}

/// Parses a number of seconds, which may have a fraction.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "it must be 0 or more seconds".to_owned())
}
