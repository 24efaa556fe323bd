//! `posthaste dlq requeue` and `dlq discard`: act on dead-lettered events with one request each, a few requests at a time.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_domain::FailureKind;
use serde_json::json;

use crate::cli::{NOT_CANCELLED, SelectionArgs};
use crate::client::{ActionResult, ApiClient, ApiResponse, ClientError, EventPage, Hold, Overview};
use crate::commands::pages::Pages;
use crate::terminal::{self, BadUsage, escape_line, pluralize, time};

/// Number of concurrent requests: enough to share commits in the store, few enough not to delay deliveries.
const CONCURRENCY: usize = 8;

/// What the command does to dead letters.
pub(super) struct Action {
    /// The last segment of the path.
    path: &'static str,
    /// The name of the action at the start of a question.
    verb: &'static str,
    /// What an event is after the action.
    done: &'static str,
    /// The action without a kind leaves cancelled events out, because they do not wait for a repair.
    omits_cancelled: bool,
    body: Option<Vec<u8>>,
}

impl Action {
    pub(super) const fn requeue() -> Self {
        Self { path: "requeue", verb: "Requeue", done: "requeued", omits_cancelled: true, body: None }
    }

    pub(super) fn discard(reason: Option<&str>) -> Self {
        let body = reason.map(|reason| json!({ "reason": reason }).to_string().into_bytes());
        Self { path: "discard", verb: "Discard", done: "discarded", omits_cancelled: false, body }
    }
}

pub(super) async fn run(
    action: Action,
    event_ids: &[String],
    all: bool,
    args: &SelectionArgs,
    client: &ApiClient,
) -> anyhow::Result<ExitCode> {
    let mut run = Run {
        action,
        client,
        json: args.json,
        bar: ProgressBar::hidden(),
        done: 0,
        refused: 0,
        held: BTreeMap::new(),
    };
    if all {
        return run.act_on_all(args.kind.as_deref(), args.yes).await;
    }
    if args.kind.is_some() {
        return Err(BadUsage(
            "--kind selects among all events; use it with --all, or name the ids alone".to_owned(),
        )
        .into());
    }
    run.act_on_events(event_ids.to_vec(), true).await?;
    Ok(if run.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A running command, with the numbers of events that the server has changed and refused so far.
struct Run<'a> {
    action: Action,
    client: &'a ApiClient,
    json: bool,
    bar: ProgressBar,
    done: u64,
    refused: u64,
    /// Requeued events that are not sent yet, by destination.
    held: BTreeMap<String, u64>,
}

impl Run<'_> {
    /// Acts on all events of a failure kind; without a kind, on all that the action does not leave out. Terminates even if
    /// requeued events fail again meanwhile: the list starts with the latest failures, so new failures are added before the
    /// pages that are still to come.
    async fn act_on_all(&mut self, kind: Option<&str>, yes: bool) -> anyhow::Result<ExitCode> {
        let overview: Overview = self.client.get(&["overview"], &[]).await?.parse()?;
        let selection = Selection::new(&overview, kind, &self.action);
        if selection.count_max == 0 {
            terminal::note(&selection.describe_empty());
            return Ok(ExitCode::SUCCESS);
        }
        if !yes && !confirm(&selection, &self.action)? {
            terminal::note(&format!("Nothing was {}.", self.action.done));
            return Ok(ExitCode::FAILURE);
        }
        self.bar = progress_bar(selection.count_max, &self.action);
        let default = self.action.omits_cancelled.then_some(NOT_CANCELLED);
        let result = self.act_on_pages(kind.or(default)).await;
        self.bar.finish_and_clear();
        result.with_context(|| format!("stopped after {}", pluralize(self.done, "event")))?;
        let refused = match self.refused {
            0 => String::new(),
            count => format!(", {count} had left the queue meanwhile"),
        };
        let omitted = match selection.omitted {
            0 => String::new(),
            count => format!("; {count} cancelled left out (--kind cancelled requeues them)"),
        };
        terminal::note(&format!("{} {}{refused}{omitted}.", self.done, self.action.done));
        self.note_held_destinations();
        Ok(ExitCode::SUCCESS)
    }

    async fn act_on_pages(&mut self, kind: Option<&str>) -> anyhow::Result<()> {
        let filters = kind.map(|kind| ("failure_kind", kind)).into_iter().collect();
        let mut pages: Pages<'_, EventPage> = Pages::all(self.client, &["dlq"], filters);
        while let Some((_, page)) = pages.next().await? {
            let event_ids = page.events.into_iter().map(|event| event.event_id).collect();
            self.act_on_events(event_ids, false).await?;
        }
        Ok(())
    }

    /// Acts on these events. With `verbose`, prints the result of each.
    async fn act_on_events(&mut self, event_ids: Vec<String>, verbose: bool) -> anyhow::Result<()> {
        let (client, path, body) = (self.client, self.action.path, self.action.body.clone());
        let requests = event_ids.into_iter().map(|event_id| {
            let body = body.clone();
            async move {
                let response = client.act(&["dlq", &event_id, path], body).await;
                (event_id, response)
            }
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
    /// still changed.
    fn record(
        &mut self,
        event_id: &str,
        response: Result<ApiResponse, ClientError>,
        verbose: bool,
    ) -> anyhow::Result<()> {
        match response {
            Ok(response) => {
                self.done += 1;
                if self.json {
                    let body = String::from_utf8_lossy(response.as_bytes());
                    return self.bar.suspend(|| terminal::print_unless_closed(&body));
                }
                let ActionResult { event_id, delivery_status, held } = response.parse()?;
                if verbose {
                    let status = delivery_status.map(|status| format!(": {status}")).unwrap_or_default();
                    let line = format!("{event_id} is {}{status}", self.action.done);
                    terminal::print_unless_closed(&escape_line(&line))?;
                    if let Some(hold) = &held {
                        terminal::note(&describe_hold(hold));
                    }
                } else if let Some(hold) = held {
                    *self.held.entry(hold.destination_id).or_default() += 1;
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

/// Maximum number of destinations with held events that are listed by their ids.
const HELD_DESTINATIONS_SHOWN: usize = 5;

impl Run<'_> {
    /// Names the destinations that hold requeued events, those with the most events first.
    fn note_held_destinations(&self) {
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (id, count) in held.iter().take(HELD_DESTINATIONS_SHOWN) {
            let (id, events) = (escape_line(id), pluralize(**count, "event"));
            terminal::note(&format!(
                "Destination {id} holds {events} back; `posthaste destinations resume {id}` sends them now."
            ));
        }
        if let Some(more @ 1..) = held.len().checked_sub(HELD_DESTINATIONS_SHOWN) {
            let destinations = pluralize(more as u64, "more destination");
            terminal::note(&format!("{destinations} hold events back: `posthaste destinations list`."));
        }
    }
}

/// Says why a requeued event is not sent yet, and how to send it now.
fn describe_hold(hold: &Hold) -> String {
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

/// The dead letters that `--all` selects.
struct Selection<'a> {
    kind: Option<&'a str>,
    /// The number of events, or an upper bound of it: the server counts only cancelled events by kind.
    count_max: u64,
    /// Cancelled events that stay in the queue.
    omitted: u64,
}

impl<'a> Selection<'a> {
    fn new(overview: &Overview, kind: Option<&'a str>, action: &Action) -> Self {
        let waiting = overview.failed_count.saturating_sub(overview.cancelled_count);
        let omitted = if kind.is_none() && action.omits_cancelled { overview.cancelled_count } else { 0 };
        let count_max = match kind {
            None => overview.failed_count.saturating_sub(omitted),
            Some(kind) if kind == FailureKind::Cancelled.as_str() => overview.cancelled_count,
            Some(_) => waiting,
        };
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
fn confirm(selection: &Selection<'_>, action: &Action) -> anyhow::Result<bool> {
    let all = selection.describe();
    if !io::stdin().is_terminal() {
        let advice = format!("add --yes to {} {all}, without confirmation", action.path);
        return Err(BadUsage(advice).into());
    }
    terminal::note(&format!("{} {all}? [y/N]", action.verb));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns a progress bar, which is visible on a terminal only.
fn progress_bar(count: u64, action: &Action) -> ProgressBar {
    let template = format!("{{bar:30}} {{pos}} of {{len}} {}, {{eta}} to go", action.done);
    let style = ProgressStyle::with_template(&template);
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
