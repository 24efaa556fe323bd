//! Putting dead-lettered events back in line, a few at a time, one request each.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::RequeueArgs;
use crate::client::{Answer, Client, ClientError, Overview, SettleResult};
use crate::commands::pages::Pages;
use crate::terminal::{self, BadUsage, counted, harmless_line};

/// Requests at once: enough that they share commits, few enough that deliveries go on.
const CONCURRENCY: usize = 8;

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
        let ended = self.each_page().await;
        self.bar.finish_and_clear();
        ended.with_context(|| format!("stopped after {}", counted(self.done, "event")))?;
        let refused = match self.refused {
            0 => String::new(),
            count => format!(", {count} had left the queue meanwhile"),
        };
        terminal::note(&format!("{} requeued{refused}.", self.done));
        Ok(ExitCode::SUCCESS)
    }

    async fn each_page(&mut self) -> anyhow::Result<()> {
        let mut pages = Pages::all(self.client, "dlq");
        while let Some((_, page)) = pages.next().await? {
            self.each(page.events.into_iter().map(|event| event.event_id).collect(), false).await?;
        }
        Ok(())
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

    /// Neither a refusal of one event nor a reader who has seen enough keeps the others from being requeued.
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
                    let answer = String::from_utf8_lossy(answer.as_bytes());
                    return self.bar.suspend(|| terminal::print_if_read(&answer));
                }
                if named {
                    let SettleResult { event_id, delivery_status } = answer.read()?;
                    let told = format!("{event_id} is requeued: {delivery_status}");
                    return terminal::print_if_read(&harmless_line(&told));
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
