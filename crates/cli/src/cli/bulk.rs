//! Arguments that select dead letters in bulk, and those of `dlq bulk`.

use std::time::Duration;

use clap::{Args, Subcommand};
use posthaste_domain::{FailureKind, Timestamp};
use serde_json::{Map, Value, json};

use super::ServerArgs;
use super::operate::{ListArgs, failure_kinds};
use crate::terminal::time;

/// The help heading of the conditions.
const SELECTION: &str = "Selection";

/// Conditions that dead letters must meet, all of them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FilterArgs {
    /// The whole dead-letter queue, except events that an operator cancelled
    #[arg(long, group = "which", help_heading = SELECTION)]
    pub(crate) all: bool,
    /// Events to this URL, or of this endpoint
    #[arg(long, value_name = "URL|ENDPOINT", group = "which", help_heading = SELECTION)]
    destination: Option<String>,
    /// Events of this application
    #[arg(long, value_name = "ID|UID", group = "which", help_heading = SELECTION)]
    app: Option<String>,
    /// Events of this type
    #[arg(long = "type", value_name = "TYPE", group = "which", help_heading = SELECTION)]
    event_type: Option<String>,
    /// Events of this failure kind; only `cancelled` selects what an operator cancelled
    #[arg(long, group = "which", help_heading = SELECTION, value_parser = failure_kinds())]
    kind: Option<String>,
    /// Events with this last error: timeout, connect, dns, http_503, http_5xx, …
    #[arg(long, value_name = "CLASS", group = "which", help_heading = SELECTION)]
    error: Option<String>,
    /// Events that failed since then: 2h, 3d, or a time such as 2026-01-31T11:29:00Z
    #[arg(long, value_name = "TIME", group = "which", help_heading = SELECTION, value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Events that failed until then
    #[arg(long, value_name = "TIME", group = "which", help_heading = SELECTION, value_parser = parse_time)]
    until: Option<Timestamp>,
}

impl FilterArgs {
    /// Returns the filter as the API takes it.
    pub(crate) fn to_json(&self) -> Value {
        let time = |at: &Option<Timestamp>| at.map(time::format_rfc3339);
        let fields = [
            ("destination", self.destination.clone()),
            ("app", self.app.clone()),
            ("event_type", self.event_type.clone()),
            ("failure_kind", self.kind.clone()),
            ("error_class", self.error.clone()),
            ("since", time(&self.since)),
            ("until", time(&self.until)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        Value::Object(given.collect::<Map<_, _>>())
    }

    /// Returns whether any condition is given.
    pub(crate) fn is_given(&self) -> bool {
        self.all || self.to_json() != json!({})
    }

    /// Returns whether cancelled events are left alone.
    pub(crate) fn omits_cancelled(&self) -> bool {
        self.kind.as_deref() != Some(FailureKind::Cancelled.as_str())
    }
}

/// Parses a time, or a period before now.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_time_at(text, time::now())
}

fn parse_time_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let period = || {
        let seconds_per_unit = match text.chars().last()? {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        let count: u64 = text[..text.len() - 1].parse().ok()?;
        Some(now.before(Duration::from_secs(count.checked_mul(seconds_per_unit)?)))
    };
    period().or_else(|| time::parse(text)).ok_or_else(|| {
        "give a period such as 30m, 2h or 3d, or a time with an offset such as 2026-01-31T11:29:00Z"
            .to_owned()
    })
}

/// How a bulk operation runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct BulkArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Events per second [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: Option<u32>,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
    /// Start the operation and do not wait for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print the server's JSON responses unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BulkCommand {
    /// List bulk operations, newest first, with their progress
    #[command(after_help = "Example:\n  posthaste dlq bulk list")]
    List(BulkListArgs),
    /// Show one bulk operation
    #[command(after_help = "Example:\n  posthaste dlq bulk show bulk_0000000000000001")]
    Show(BulkIdArgs),
    /// Stop a running bulk operation; what it has done stays done
    #[command(after_help = "Example:\n  posthaste dlq bulk stop bulk_0000000000000001")]
    Stop(BulkIdArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BulkListArgs {
    /// Only operations that are running
    #[arg(long)]
    pub(crate) running: bool,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BulkIdArgs {
    /// Id of the operation
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: String,
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_period_before_now_or_rfc_3339() {
        let now = time::parse("2026-01-31T12:00:00Z").unwrap();
        let parse = |text: &str| parse_time_at(text, now);
        assert_eq!(parse("2h").unwrap(), time::parse("2026-01-31T10:00:00Z").unwrap());
        assert_eq!(parse("3d").unwrap(), time::parse("2026-01-28T12:00:00Z").unwrap());
        assert_eq!(parse("2026-01-31T11:29:00Z").unwrap(), time::parse("2026-01-31T11:29:00Z").unwrap());
        for invalid in ["", "h", "-1h", "yesterday", "5", "99999999999999999999d", "2026-01-31", "1ü"] {
            assert!(parse(invalid).unwrap_err().contains("2h"), "{invalid}");
        }
    }
}
