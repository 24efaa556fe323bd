//! Waiting for an event to settle, by asking: soon at first, every second later.

use std::time::Duration;

use anyhow::Context as _;
use posthaste_domain::Timestamp;

use crate::client::{Answer, Client, ClientError, Event, pause, within};
use crate::commands::working::Spinner;
use crate::terminal::{self, harmless_line, time};

const ASK_AGAIN_FIRST: Duration = Duration::from_millis(50);
const ASK_AGAIN_LAST: Duration = Duration::from_secs(1);
/// A server may be restarted while somebody waits. Silence longer than this is told as an error.
const UNANSWERED_MAX: u32 = 15;

/// An event as it was last seen.
pub(super) struct Watched {
    pub(super) answer: Answer,
    pub(super) event: Event,
}

/// Returns what was last seen when it has settled, or when the time is up.
pub(super) async fn until_settled(
    client: &Client,
    event_id: &str,
    timeout: Option<Duration>,
) -> anyhow::Result<Watched> {
    let mut watch = Watch { client, event_id, progress: Progress::start(), last: None };
    let settled = match timeout {
        Some(limit) => within(limit, watch.settle()).await.transpose(),
        None => watch.settle().await.map(Some),
    };
    settled.with_context(|| format!("{event_id} was accepted, but cannot be watched"))?;
    watch.last.with_context(|| {
        format!("{event_id} was accepted, and not heard of in time: `posthaste events show {event_id}` looks again")
    })
}

struct Watch<'a> {
    client: &'a Client,
    event_id: &'a str,
    progress: Progress,
    last: Option<Watched>,
}

impl Watch<'_> {
    async fn settle(&mut self) -> Result<(), ClientError> {
        let mut ask_again = ASK_AGAIN_FIRST;
        let mut unanswered = 0;
        loop {
            match self.look().await {
                Ok(watched) => {
                    unanswered = 0;
                    self.progress.show(&watched.event, time::now());
                    let settled = watched.event.status() != "pending";
                    self.last = Some(watched);
                    if settled {
                        return Ok(());
                    }
                }
                Err(error) if error.may_pass() && unanswered < UNANSWERED_MAX => unanswered += 1,
                Err(error) => return Err(error),
            }
            pause(ask_again).await;
            ask_again = (ask_again * 2).min(ASK_AGAIN_LAST);
        }
    }

    async fn look(&self) -> Result<Watched, ClientError> {
        let answer = self.client.get(&["events", self.event_id], &[]).await?;
        let event = answer.read()?;
        Ok(Watched { answer, event })
    }
}

/// A spinner on a terminal; elsewhere a line for each failed attempt.
struct Progress {
    spinner: Spinner,
    attempts: u32,
}

impl Progress {
    fn start() -> Self {
        Self { spinner: Spinner::start("accepted".to_owned()), attempts: 0 }
    }

    fn show(&mut self, event: &Event, now: Timestamp) {
        let standing = standing(event, now);
        if !self.spinner.is_seen() && event.attempts > self.attempts && event.status() == "pending" {
            terminal::note(&standing);
        }
        self.attempts = event.attempts;
        self.spinner.say(standing);
    }
}

/// `pending, attempt 2 of 6 in 42 s, last error: 503 …`.
fn standing(event: &Event, now: Timestamp) -> String {
    let next = event.next_attempt_at.as_deref().and_then(time::parse);
    let when = match next {
        Some(at) if at > now => format!(" {}", time::relative(at, now)),
        _ => " now".to_owned(),
    };
    let attempt = format!("attempt {} of {}{when}", event.attempts.saturating_add(1), event.max_attempts);
    let error = match &event.last_error {
        Some(error) => format!(", last error: {}", harmless_line(error)),
        None => String::new(),
    };
    format!("{}, {attempt}{error}", event.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_event_is_told_with_its_next_attempt_and_what_went_wrong() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let mut event = Event {
            delivery_status: Some("pending".into()),
            max_attempts: 6,
            next_attempt_at: Some("2026-01-31T16:31:01Z".into()),
            ..Event::default()
        };
        assert_eq!(standing(&event, now), "pending, attempt 1 of 6 now");
        event.attempts = 1;
        event.next_attempt_at = Some("2026-01-31T16:31:44Z".into());
        event.last_error = Some("503 busy\u{1b}".into());
        assert_eq!(standing(&event, now), r"pending, attempt 2 of 6 in 42 s, last error: 503 busy\u{1b}");
    }
}
