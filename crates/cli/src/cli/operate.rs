//! Arguments of the operators' commands: `overview`, `workers`, `dlq`, `events` and `destinations`.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use posthaste::store::DestinationState;
use posthaste_domain::{FailureKind, Timestamp};

use super::bulk::{BulkArgs, BulkCommand, parse_time};
use super::produce::parse_seconds;
use super::settings::show_only_store_settings;
use super::{DestinationSecretArgs, ServerArgs};
use crate::terminal::time;

/// The page sizes that the API accepts.
const PAGE_LIMITS: std::ops::RangeInclusive<i64> = 1..=200;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  posthaste overview\n  posthaste overview --json | jq .failed_count")]
pub(crate) struct OverviewArgs {
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  posthaste workers\n  posthaste workers --json | jq '[.workers[].in_flight] | add'"
)]
pub(crate) struct WorkersArgs {
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DlqCommand {
    /// List events that could not be delivered, most recent first
    #[command(after_help = "Examples:\n  posthaste dlq list --limit 20\n  \
                            posthaste dlq list --type invoice.paid --error timeout --since 2h\n  \
                            posthaste dlq list --all --json | jq -r '.events[].event_id'")]
    List(DlqListArgs),
    /// Make failed events pending again, with their full number of attempts
    #[command(after_help = "Examples:\n  posthaste dlq requeue msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5\n  \
                            posthaste dlq requeue --destination https://shop.example/hooks --since 2h\n  \
                            posthaste dlq requeue --error http_5xx --rate 20 --yes\n  \
                            posthaste dlq requeue --all")]
    Requeue(RequeueArgs),
    /// Mark failed events as cancelled, in bulk: they do not wait for a repair any more
    #[command(after_help = "Example:\n  posthaste dlq cancel --destination https://gone.example/hooks \
                            --reason 'the customer has left'")]
    Cancel(CancelAllArgs),
    /// Remove failed events for good, with their payloads and attempts
    #[command(after_help = "Examples:\n  posthaste dlq discard msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5 \
                            --reason 'paid by other means'\n  \
                            posthaste dlq discard --kind cancelled --until 30d --yes")]
    Discard(DiscardArgs),
    /// List, show and stop bulk operations
    #[command(subcommand)]
    Bulk(BulkCommand),
}

/// The value of `failure_kind` with which the API lists every kind but `cancelled`.
const NOT_CANCELLED: &str = "not_cancelled";

/// Accepts the id of an event, but not its short form from a table.
fn whole_id(text: &str) -> Result<String, String> {
    if text.contains('…') {
        return Err("this id is shortened; list whole ids with --wide, or in a pipe".to_owned());
    }
    Ok(text.to_owned())
}

/// Accepts the name of a failure kind.
pub(super) fn failure_kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(FailureKind::ALL.iter().map(|kind| kind.as_str()))
}

/// Accepts the name of a failure kind, or [`NOT_CANCELLED`].
fn list_kinds() -> PossibleValuesParser {
    let kinds = FailureKind::ALL.iter().map(|kind| kind.as_str());
    PossibleValuesParser::new(kinds.chain([NOT_CANCELLED]))
}

/// The arguments that all list commands share.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Maximum number of items to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(PAGE_LIMITS))]
    pub(crate) limit: u32,
    /// Continue an earlier list; the cursor is printed at its end
    #[arg(long, value_name = "CURSOR", conflicts_with = "all")]
    pub(crate) cursor: Option<String>,
    /// List everything, page by page
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Show every column and whole ids, also on a narrow terminal
    #[arg(long)]
    pub(crate) wide: bool,
    /// Print the server's JSON responses unchanged, one per page
    #[arg(long)]
    pub(crate) json: bool,
}

/// Conditions that the events of a list must meet, all of them.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConditionArgs {
    /// List only events to this URL, or of this endpoint
    #[arg(long, value_name = "URL|ENDPOINT")]
    destination: Option<String>,
    /// List only events of this application
    #[arg(long, value_name = "ID|UID")]
    app: Option<String>,
    /// List only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// List only events with this last error: timeout, connect, dns, http_503, http_5xx, …
    #[arg(long, value_name = "CLASS")]
    error: Option<String>,
    /// List only events since then: 2h, 3d, or a time such as 2026-01-31T11:29:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// List only events until then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
}

impl ConditionArgs {
    /// Returns the conditions as parameters of the API.
    pub(crate) fn to_query(&self) -> Vec<(&'static str, String)> {
        let time = |at: &Option<Timestamp>| at.map(time::format_rfc3339);
        let given = [
            ("destination", self.destination.clone()),
            ("app", self.app.clone()),
            ("event_type", self.event_type.clone()),
            ("error_class", self.error.clone()),
            ("since", time(&self.since)),
            ("until", time(&self.until)),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DlqListArgs {
    /// List only events of this failure kind; not_cancelled lists every kind but cancelled
    #[arg(long, value_parser = list_kinds())]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct RequeueArgs {
    /// Ids of the events to requeue
    #[arg(value_name = "ID", group = "which", value_parser = whole_id)]
    pub(crate) event_ids: Vec<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct CancelAllArgs {
    /// Reason, recorded in the audit log of each event
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct DiscardArgs {
    /// Ids of the events to discard
    #[arg(value_name = "ID", group = "which", value_parser = whole_id)]
    pub(crate) event_ids: Vec<String>,
    /// Reason, recorded in the audit log
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
}

#[derive(Debug, Clone, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one command")]
pub(crate) enum EventsCommand {
    /// List events, most recent first
    #[command(after_help = "Examples:\n  posthaste events list --status pending\n  \
                            posthaste events list --destination https://shop.example/hooks --all\n  \
                            posthaste events list --app customer-17 --error http_5xx --since 2h\n  \
                            posthaste events list --payment-request-id pr_17")]
    List(EventsListArgs),
    /// Explain the state of an event, and show its fields and attempts
    #[command(after_help = "Example:\n  posthaste events show msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5")]
    Show(ShowArgs),
    /// Show the payload of an event with the headers of its requests; the event's audit log records the look
    #[command(after_help = "Examples:\n  posthaste events content msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5\n  \
                            posthaste events content order-17 --json | jq -r .payload")]
    Content(ContentArgs),
    /// Send a delivered event once more, as a new event with the same webhook-id
    #[command(after_help = "Examples:\n  posthaste events replay msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5\n  \
                            posthaste events replay order-17 --wait")]
    Replay(ReplayArgs),
    /// Cancel a pending or failed event: it moves to the dead-letter queue and is not attempted again unless requeued
    #[command(after_help = "Example:\n  posthaste events cancel msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5 \
                            --reason 'refunded by hand'")]
    Cancel(CancelArgs),
}

/// The delivery states that can be listed, and `retrying`: pending with at least one attempt.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Pending,
    Retrying,
    Delivered,
    Failed,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventsListArgs {
    /// List only events in this state; retrying are the pending events with at least one attempt
    #[arg(long, value_enum)]
    pub(crate) status: Option<Status>,
    /// List only failed events of this kind
    #[arg(long, value_parser = failure_kinds())]
    pub(crate) kind: Option<String>,
    /// List only events of this endpoint
    #[arg(long, value_name = "ID", conflicts_with = "destination")]
    pub(crate) endpoint: Option<String>,
    /// List only events with this reference of the producer
    #[arg(long, value_name = "ID")]
    pub(crate) payment_request_id: Option<String>,
    /// List only events with this reference of the producer
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// List only events with this reference of the producer
    #[arg(long, value_name = "ID")]
    pub(crate) webhook_id: Option<String>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// Id of the event
    #[arg(value_name = "ID", value_parser = whole_id)]
    pub(crate) event_id: String,
    /// Show every column of the attempts, also on a narrow terminal
    #[arg(long)]
    pub(crate) wide: bool,
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ContentArgs {
    /// Id of the event
    #[arg(value_name = "ID", value_parser = whole_id)]
    pub(crate) event_id: String,
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ReplayArgs {
    /// Id of the event
    #[arg(value_name = "ID", value_parser = whole_id)]
    pub(crate) event_id: String,
    /// Wait until the new event is delivered or has failed; exit code 1 if it has failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// Stop waiting after this time and exit with 1; delivery of the event continues
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = parse_seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print the server's JSON response unchanged
    #[arg(long, conflicts_with = "wait")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CancelArgs {
    /// Id of the event
    #[arg(value_name = "ID", value_parser = whole_id)]
    pub(crate) event_id: String,
    /// Reason, recorded with the event
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DestinationsCommand {
    /// List destinations with their state and the events that wait for them
    #[command(after_help = "Examples:\n  posthaste destinations list --state circuit_open\n  \
                            posthaste destinations list --all --json | jq '.destinations[].url'")]
    List(DestinationsListArgs),
    /// Show a destination: whether events are sent to it, and why not
    #[command(after_help = "Example:\n  posthaste destinations show 17")]
    Show(DestinationArgs),
    /// Hold all events of a destination; requests in flight finish
    #[command(after_help = "Examples:\n  posthaste destinations pause 17 --reason 'new disks'\n  \
                            posthaste destinations pause 17 --seconds 3600")]
    Pause(PauseArgs),
    /// End pauses and close the circuit of a destination, so that its due events are sent now
    #[command(after_help = "Example:\n  posthaste destinations resume 17")]
    Resume(DestinationArgs),
    /// Send one request to a destination with an open circuit now, and let its result decide
    #[command(after_help = "Example:\n  posthaste destinations probe 17")]
    Probe(DestinationArgs),
    /// Print the secrets that sign the events of a URL, or give the URL a secret of its own
    ///
    /// Opens the database, as `posthaste secret` does. Without secrets of its own, a URL has those of the instance.
    #[command(
        after_help = "Examples:\n  posthaste destinations secret https://shop.example/hooks --rotate\n  \
                      posthaste destinations secret https://shop.example/hooks --rotate --ed25519",
        mut_args(show_only_store_settings)
    )]
    Secret(DestinationSecretArgs),
}

/// Accepts the name of a destination's state.
fn destination_states() -> PossibleValuesParser {
    PossibleValuesParser::new(DestinationState::ALL.iter().map(|state| state.as_str()))
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DestinationsListArgs {
    /// List only destinations in this state
    #[arg(long, value_parser = destination_states())]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DestinationArgs {
    /// Id of the destination, from `posthaste destinations list`
    #[arg(value_name = "ID")]
    pub(crate) destination_id: String,
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PauseArgs {
    /// How long to pause [default: until the destination is resumed]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// Reason, recorded in the audit log
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) destination: DestinationArgs,
}
