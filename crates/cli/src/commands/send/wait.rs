//! Waits until an event is settled by polling its state, at first after 50 ms, later every second.

use std::time::Duration;

use anyhow::Context as _;
use posthaste_domain::Timestamp;

use crate::client::{ApiClient, ApiResponse, ClientError, Event};
use crate::commands::spinner::Spinner;
use crate::terminal::{self, escape_line, pluralize, time};
use crate::timers::{sleep, with_timeout};

const POLL_INTERVAL_FIRST: Duration = Duration::from_millis(50);
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failed polls, high enough for the wait to survive a restart of the server.
const FAILED_POLLS_MAX: u32 = 15;

/// The state of an event in the latest poll.
pub(super) struct PolledEvent {
    pub(super) response: ApiResponse,
    pub(super) event: Event,
}

/// Polls until the event is delivered or failed, or until the timeout. Returns the latest state.
pub(super) async fn wait_until_settled(
    client: &ApiClient,
    event_id: &str,
    timeout: Option<Duration>,
) -> anyhow::Result<PolledEvent> {
    let mut poller = EventPoller { client, event_id, progress: Progress::start(), latest: None };
    let settled = match timeout {
        Some(limit) => with_timeout(limit, poller.poll_until_settled()).await.transpose(),
        None => poller.poll_until_settled().await.map(Some),
    };
    settled.with_context(|| format!("{event_id} was accepted, but its state cannot be read"))?;
    poller.latest.with_context(|| {
        format!(
            "{event_id} was accepted, but its state was not read within the timeout: run `posthaste events show \
             {event_id}`"
        )
    })
}

struct EventPoller<'a> {
    client: &'a ApiClient,
    event_id: &'a str,
    progress: Progress,
    latest: Option<PolledEvent>,
}

impl EventPoller<'_> {
    async fn poll_until_settled(&mut self) -> Result<(), ClientError> {
        let mut interval = POLL_INTERVAL_FIRST;
        let mut failed_polls = 0;
        loop {
            match self.poll().await {
                Ok(polled) => {
                    failed_polls = 0;
                    self.progress.show(&polled.event, time::now());
                    let settled = polled.event.status() != "pending";
                    self.latest = Some(polled);
                    if settled {
                        return Ok(());
                    }
                }
                Err(error) if error.is_transient() && failed_polls < FAILED_POLLS_MAX => failed_polls += 1,
                Err(error) => return Err(error),
            }
            sleep(interval).await;
            interval = (interval * 2).min(POLL_INTERVAL_MAX);
        }
    }

    async fn poll(&self) -> Result<PolledEvent, ClientError> {
        let response = self.client.get(&["events", self.event_id], &[]).await?;
        let event = response.parse()?;
        Ok(PolledEvent { response, event })
    }
}

/// The progress display: a spinner on a terminal, otherwise a line per failed attempt.
struct Progress {
    spinner: Spinner,
    /// Number of attempts of the event when progress was last shown.
    attempts: u32,
}

impl Progress {
    fn start() -> Self {
        Self { spinner: Spinner::start("accepted".to_owned()), attempts: 0 }
    }

    fn show(&mut self, event: &Event, now: Timestamp) {
        let progress = describe_progress(event, now);
        if !self.spinner.is_visible() && event.attempts > self.attempts && event.status() == "pending" {
            terminal::note(&progress);
        }
        self.attempts = event.attempts;
        self.spinner.set_message(progress);
    }
}

/// Describes the state of an event: `pending, attempt 2 of 6 in 42 s, last error: 503 …`, or `failed after 2 of 2 attempts`
/// once it is settled.
fn describe_progress(event: &Event, now: Timestamp) -> String {
    let Event { attempts, max_attempts, .. } = event;
    let state = match event.status() {
        "pending" => {
            let next = event.next_attempt_at.as_deref().and_then(time::parse);
            let when = next
                .filter(|at| *at > now)
                .map_or_else(|| "now".to_owned(), |at| time::format_relative(at, now));
            format!("pending, attempt {} of {max_attempts} {when}", attempts.saturating_add(1))
        }
        "delivered" => format!("delivered after {}", pluralize(u64::from(*attempts), "attempt")),
        settled => {
            format!("{settled} after {attempts} of {}", pluralize(u64::from(*max_attempts), "attempt"))
        }
    };
    let error = event.last_error.as_ref().filter(|_| event.status() != "delivered");
    let error = error.map(|error| format!(", last error: {}", escape_line(error))).unwrap_or_default();
    format!("{state}{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_a_pending_event_names_its_next_attempt_and_last_error() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let mut event = Event {
            delivery_status: Some("pending".into()),
            max_attempts: 6,
            next_attempt_at: Some("2026-01-31T16:31:01Z".into()),
            ..Event::default()
        };
        assert_eq!(describe_progress(&event, now), "pending, attempt 1 of 6 now");
        event.attempts = 1;
        event.next_attempt_at = Some("2026-01-31T16:31:44Z".into());
        event.last_error = Some("503 busy\u{1b}".into());
        assert_eq!(
            describe_progress(&event, now),
            r"pending, attempt 2 of 6 in 42 s, last error: 503 busy\u{1b}"
        );
    }
    #[test]
    fn progress_of_a_settled_event_names_no_further_attempt() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let failed = Event {
            delivery_status: Some("failed".into()),
            attempts: 2,
            max_attempts: 2,
            last_error: Some("HTTP 503".into()),
            ..Event::default()
        };
        assert_eq!(describe_progress(&failed, now), "failed after 2 of 2 attempts, last error: HTTP 503");
        let delivered = Event { delivery_status: Some("delivered".into()), attempts: 1, ..failed };
        assert_eq!(describe_progress(&delivered, now), "delivered after 1 attempt");
    }
}
