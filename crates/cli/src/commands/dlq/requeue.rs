//! `posthaste dlq requeue`: requeues dead-lettered events with one request each, a few requests at a time.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_domain::FailureKind;

use crate::cli::{NOT_CANCELLED, RequeueArgs};
use crate::client::{ActionResult, ApiClient, ApiResponse, ClientError, Overview};
use crate::commands::pages::Pages;
use crate::terminal::{self, BadUsage, escape_line, pluralize};

/// Number of concurrent requests: enough to share commits in the store, few enough not to delay deliveries.
const CONCURRENCY: usize = 8;

pub(super) async fn run(args: &RequeueArgs, client: &ApiClient) -> anyhow::Result<ExitCode> {
    let mut requeue =
        Requeue { client, json: args.json, bar: ProgressBar::hidden(), requeued: 0, refused: 0 };
    if args.all {
        return requeue.requeue_all(args.kind.as_deref(), args.yes).await;
    }
    if args.kind.is_some() {
        return Err(BadUsage(
            "--kind selects among all events; use it with --all, or name the ids alone".to_owned(),
        )
        .into());
    }
    requeue.requeue_events(args.event_ids.clone(), true).await?;
    Ok(if requeue.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A running requeue command, with the numbers of events that the server has requeued and refused so far.
struct Requeue<'a> {
    client: &'a ApiClient,
    json: bool,
    bar: ProgressBar,
    requeued: u64,
    refused: u64,
}

impl Requeue<'_> {
    /// Requeues all events of a failure kind; without a kind, all but cancelled ones, because those do not wait for a repair.
    /// Terminates even if requeued events fail again meanwhile: the list starts with the latest
    /// failures, so new failures are added before the pages that are still to come.
    async fn requeue_all(&mut self, kind: Option<&str>, yes: bool) -> anyhow::Result<ExitCode> {
        let overview: Overview = self.client.get(&["overview"], &[]).await?.parse()?;
        let selection = Selection::new(&overview, kind);
        if selection.count_max == 0 {
            terminal::note(&selection.describe_empty());
            return Ok(ExitCode::SUCCESS);
        }
        if !yes && !confirm(&selection)? {
            terminal::note("Nothing was requeued.");
            return Ok(ExitCode::FAILURE);
        }
        self.bar = progress_bar(selection.count_max);
        let result = self.requeue_pages(kind.unwrap_or(NOT_CANCELLED)).await;
        self.bar.finish_and_clear();
        result.with_context(|| format!("stopped after {}", pluralize(self.requeued, "event")))?;
        let refused = match self.refused {
            0 => String::new(),
            count => format!(", {count} had left the queue meanwhile"),
        };
        let omitted = match selection.omitted {
            0 => String::new(),
            count => format!("; {count} cancelled left out (--kind cancelled requeues them)"),
        };
        terminal::note(&format!("{} requeued{refused}{omitted}.", self.requeued));
        Ok(ExitCode::SUCCESS)
    }

    async fn requeue_pages(&mut self, kind: &str) -> anyhow::Result<()> {
        let mut pages = Pages::all(self.client, "dlq", vec![("failure_kind", kind)]);
        while let Some((_, page)) = pages.next().await? {
            let event_ids = page.events.into_iter().map(|event| event.event_id).collect();
            self.requeue_events(event_ids, false).await?;
        }
        Ok(())
    }

    /// Requeues these events. With `verbose`, prints the result of each.
    async fn requeue_events(&mut self, event_ids: Vec<String>, verbose: bool) -> anyhow::Result<()> {
        let client = self.client;
        let requests = event_ids.into_iter().map(|event_id| async move {
            let response = client.post(&["dlq", &event_id, "requeue"], None).await;
            (event_id, response)
        });
        // `buffered` keeps the order: with --json, the n-th line is the response for the n-th id.
        let mut responses = stream::iter(requests).buffered(CONCURRENCY);
        while let Some((event_id, response)) = responses.next().await {
            self.bar.inc(1);
            self.record(&event_id, response, verbose)?;
        }
        Ok(())
    }

    /// Counts and prints one response. A refused event and a closed standard output are no errors: the other events are
    /// still requeued.
    fn record(
        &mut self,
        event_id: &str,
        response: Result<ApiResponse, ClientError>,
        verbose: bool,
    ) -> anyhow::Result<()> {
        match response {
            Ok(response) => {
                self.requeued += 1;
                if self.json {
                    let body = String::from_utf8_lossy(response.as_bytes());
                    return self.bar.suspend(|| terminal::print_unless_closed(&body));
                }
                if verbose {
                    let ActionResult { event_id, delivery_status } = response.parse()?;
                    let line = format!("{event_id} is requeued: {delivery_status}");
                    return terminal::print_unless_closed(&escape_line(&line));
                }
                Ok(())
            }
            Err(refused) if refused.is_event_rejection() => {
                self.refused += 1;
                if verbose {
                    terminal::note(&format!("posthaste: {event_id}: {refused}"));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The dead letters that `--all` requeues.
struct Selection<'a> {
    kind: Option<&'a str>,
    /// The number of events, or an upper bound of it: the server counts only cancelled events by kind.
    count_max: u64,
    /// Cancelled events that stay in the queue.
    omitted: u64,
}

impl<'a> Selection<'a> {
    fn new(overview: &Overview, kind: Option<&'a str>) -> Self {
        let waiting = overview.failed_count.saturating_sub(overview.cancelled_count);
        let is_cancelled = kind == Some(FailureKind::Cancelled.as_str());
        let count_max = if is_cancelled { overview.cancelled_count } else { waiting };
        let omitted = if kind.is_none() { overview.cancelled_count } else { 0 };
        Self { kind, count_max, omitted }
    }

    fn describe(&self) -> String {
        let count = pluralize(self.count_max, "event");
        match self.kind {
            None if self.omitted == 0 => format!("all of the dead-letter queue, {count}"),
            None => format!("all of the dead-letter queue but {} cancelled, {count}", self.omitted),
            Some(kind) if kind == FailureKind::Cancelled.as_str() => format!("all cancelled events, {count}"),
            Some(kind) => format!("all {kind} events, at most {count}"),
        }
    }

    fn describe_empty(&self) -> String {
        match self.omitted {
            0 if self.kind.is_none() => "The dead-letter queue is empty.".to_owned(),
            0 => "The dead-letter queue has no events of this kind.".to_owned(),
            count => format!(
                "All {count} events of the dead-letter queue are cancelled; --kind cancelled requeues them."
            ),
        }
    }
}

/// Asks the user for confirmation and returns whether the user agreed. Without a terminal on standard input, returns an
/// error that advises `--yes`.
fn confirm(selection: &Selection<'_>) -> anyhow::Result<bool> {
    let all = selection.describe();
    if !io::stdin().is_terminal() {
        let advice = format!("add --yes to requeue {all}, without confirmation");
        return Err(BadUsage(advice).into());
    }
    terminal::note(&format!("Requeue {all}? [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns a progress bar, which is visible on a terminal only.
fn progress_bar(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} requeued, {eta} to go");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
