//! Commands of operators: the operator API in a terminal.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::ServerArgs;

/// What the API gives in one page.
const LIMIT: std::ops::RangeInclusive<i64> = 1..=200;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  posthaste overview\n  posthaste overview --json | jq .failed_count")]
pub(crate) struct OverviewArgs {
    /// Print the server's answer as it came
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DlqCommand {
    /// List events that could not be delivered, the latest first
    #[command(after_help = "Examples:\n  posthaste dlq list --limit 20\n  \
                            posthaste dlq list --all --json | jq -r '.events[].event_id'")]
    List(DlqListArgs),
    /// Put events back in line, with their attempts to make again
    #[command(after_help = "Examples:\n  posthaste dlq requeue msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5\n  \
                            posthaste dlq requeue --all --yes")]
    Requeue(RequeueArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// How many to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(LIMIT))]
    pub(crate) limit: u32,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR", conflicts_with = "all")]
    pub(crate) cursor: Option<String>,
    /// List all there are, page by page
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Print the server's answers as they came, one per page
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DlqListArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct RequeueArgs {
    /// The events to requeue
    #[arg(value_name = "ID", group = "which")]
    pub(crate) event_ids: Vec<String>,
    /// Requeue the whole dead-letter queue
    #[arg(long, group = "which")]
    pub(crate) all: bool,
    /// Do not ask before requeueing all
    #[arg(long, requires = "all")]
    pub(crate) yes: bool,
    /// Print the server's answers as they came, one per event
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EventsCommand {
    /// List events, the latest first
    #[command(after_help = "Examples:\n  posthaste events list --status pending\n  \
                            posthaste events list --destination https://shop.example/hooks --all")]
    List(EventsListArgs),
    /// Say in words why an event is where it is, then show its fields and its attempts
    #[command(after_help = "Example:\n  posthaste events show msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5")]
    Show(ShowArgs),
    /// End a pending or failed event: it is in the dead-letter queue then, and attempted no more unless requeued
    #[command(after_help = "Example:\n  posthaste events cancel msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5 \
                            --reason 'refunded by hand'")]
    Cancel(CancelArgs),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Pending,
    Delivered,
    Failed,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventsListArgs {
    /// Only events in this state
    #[arg(long, value_enum)]
    pub(crate) status: Option<Status>,
    /// Only events to this URL
    #[arg(long, value_name = "URL")]
    pub(crate) destination: Option<String>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// The event
    #[arg(value_name = "ID")]
    pub(crate) event_id: String,
    /// Print the server's answer as it came
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CancelArgs {
    /// The event
    #[arg(value_name = "ID")]
    pub(crate) event_id: String,
    /// Why, for whoever looks at the event later
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Print the server's answer as it came
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
