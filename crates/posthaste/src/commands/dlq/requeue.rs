//! Putting dead-lettered events back in line, a few at a time, one request each.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::RequeueArgs;
use crate::client::{Answer, Client, ClientError, Overview, Page, Settled};
use crate::terminal::{self, BadUsage, counted};

/// Requests at once: enough that they share commits, few enough that deliveries go on.
const CONCURRENCY: usize = 8;
const PAGE_MAX: &str = "200";

pub(super) async fn run(args: &RequeueArgs, client: &Client) -> anyhow::Result<ExitCode> {
    let mut requeue = Requeue { client, json: args.json, bar: ProgressBar::hidden(), done: 0, refused: 0 };
    if args.all {
        return requeue.all(args.yes).await;
    }
    requeue.each(args.event_ids.clone(), true).await?;
    Ok(if requeue.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Requeue<'a> {
    client: &'a Client,
    json: bool,
    bar: ProgressBar,
    done: u64,
    refused: u64,
}

impl Requeue<'_> {
    /// Ends although events may fail again meanwhile: those stand before the first page, and pages go on from there.
    async fn all(&mut self, yes: bool) -> anyhow::Result<ExitCode> {
        let overview: Overview = self.client.get(&["overview"], &[]).await?.read()?;
        if overview.failed_count == 0 {
            terminal::note("The dead-letter queue is empty.");
            return Ok(ExitCode::SUCCESS);
        }
        if !yes && !confirmed(overview.failed_count)? {
            terminal::note("Nothing was requeued.");
            return Ok(ExitCode::FAILURE);
        }
        self.bar = bar(overview.failed_count);
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", PAGE_MAX)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: Page = self.client.get(&["dlq"], &query).await?.read()?;
            let event_ids = page.events.into_iter().map(|event| event.event_id).collect();
            self.each(event_ids, false)
                .await
                .with_context(|| format!("stopped after {}", counted(self.done, "event")))?;
            match page.next_cursor {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => break,
            }
        }
        self.bar.finish_and_clear();
        let refused = match self.refused {
            0 => String::new(),
            count => format!(", {count} had left the queue meanwhile"),
        };
        terminal::note(&format!("{} requeued{refused}.", self.done));
        Ok(ExitCode::SUCCESS)
    }

    async fn each(&mut self, event_ids: Vec<String>, named: bool) -> anyhow::Result<()> {
        let client = self.client;
        let requests = event_ids.into_iter().map(|event_id| async move {
            let answer = client.post(&["dlq", &event_id, "requeue"], None).await;
            (event_id, answer)
        });
        // In their order, so that answers can be told apart by it.
        let mut answers = stream::iter(requests).buffered(CONCURRENCY);
        while let Some((event_id, answer)) = answers.next().await {
            self.bar.inc(1);
            self.take(&event_id, answer, named)?;
        }
        Ok(())
    }

    /// A refusal of one event does not keep the others from being requeued.
    fn take(
        &mut self,
        event_id: &str,
        answer: Result<Answer, ClientError>,
        named: bool,
    ) -> anyhow::Result<()> {
        match answer {
            Ok(answer) => {
                self.done += 1;
                if self.json {
                    return self.bar.suspend(|| terminal::print_answer(answer.as_bytes()));
                }
                if named {
                    let Settled { event_id, delivery_status } = answer.read()?;
                    return terminal::print(&format!("{event_id} is requeued: {delivery_status}"));
                }
                Ok(())
            }
            Err(refused) if refused.is_about_the_event() => {
                self.refused += 1;
                if named {
                    terminal::note(&format!("posthaste: {event_id}: {refused}"));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Asks the person, if there is one to ask.
fn confirmed(count: u64) -> anyhow::Result<bool> {
    let all = format!("all of the dead-letter queue, {}", counted(count, "event"));
    if !io::stdin().is_terminal() {
        let advice = format!("add --yes to requeue {all}, without being asked");
        return Err(BadUsage(advice).into());
    }
    terminal::note(&format!("Requeue {all}? [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Shown on a terminal only.
fn bar(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} requeued, {eta} to go");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
