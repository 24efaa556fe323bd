//! One event for people: its explanation, its fields, operators' actions, then its attempts.

use std::time::Duration;

use posthaste_domain::Timestamp;

use crate::client::{Attempt, AuditEntry, Event};
use crate::terminal::{
    Color, Column, Omissions, OutputStyle, RenderedTable, Table, escape_line, escape_text, render_fields,
    time,
};

const ATTEMPT_COLUMNS: &[Column] = &[
    Column::new("ATTEMPT", 0).align_right(),
    Column::new("STARTED (UTC)", 2),
    Column::extra("AGE", 0),
    Column::new("TOOK", 1).align_right(),
    Column::new("RESULT", 0),
    Column::extra("WORKER", 1).text(12, 28),
    Column::new("EXCERPT", 3).text(12, 28),
];

/// Renders an event. The omissions in the result are those of its table of attempts.
pub(super) fn render(event: &Event, now: Timestamp, style: OutputStyle) -> RenderedTable {
    let mut omissions = Omissions::default();
    let mut card = String::new();
    if let Some(explanation) = &event.explanation {
        card.push_str(&Color::for_status(event.status()).paint(&escape_text(explanation), style));
        card.push_str("\n\n");
    }
    card.push_str(&render_fields(&fields(event, now), style));
    for entry in &event.audit {
        card.push_str(&render_audit_entry(entry, now));
    }
    if !event.history.is_empty() {
        card.push('\n');
        let attempts = attempts_table(&event.history, now).render(style);
        card.push_str(&attempts.text);
        omissions = attempts.omissions;
    }
    RenderedTable { text: card, omissions }
}

pub(in crate::commands) fn render_audit_entry(entry: &AuditEntry, now: Timestamp) -> String {
    let AuditEntry { action, actor, at, reason } = entry;
    let reason = reason.as_deref().map(|reason| format!(": {}", escape_line(reason))).unwrap_or_default();
    format!("\n{} by {}, {}{reason}\n", escape_line(action), escape_line(actor), time::format_full(at, now))
}

/// Returns the names and values of the fields that the event has.
fn fields(event: &Event, now: Timestamp) -> Vec<(&'static str, String)> {
    let at = |text: &Option<String>| text.as_deref().map(|text| time::format_full(text, now));
    let fields = [
        ("event id", Some(event.event_id.clone())),
        ("type", Some(event.event_type.clone())),
        ("status", Some(event.status().to_owned())),
        ("failure", event.failure_kind.clone()),
        ("destination", Some(event.destination_url.clone())),
        ("attempts", Some(format!("{} of {}", event.attempts, event.max_attempts))),
        ("last error", event.last_error.clone()),
        ("next attempt", at(&event.next_attempt_at)),
        ("last attempt", at(&event.last_attempted_at)),
        ("delivered", at(&event.delivered_at)),
        ("created", at(&event.created_at)),
        ("updated", at(&event.updated_at)),
        ("webhook id", event.webhook_id.clone()),
        ("payment request", event.payment_request_id.clone()),
        ("session", event.session_id.clone()),
        ("stored by", event.stored_by.clone()),
        ("replay of", event.replay_of.clone()),
    ];
    fields.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

fn attempts_table(history: &[Attempt], now: Timestamp) -> Table {
    let mut table = Table::new(ATTEMPT_COLUMNS);
    for attempt in history {
        let started = attempt.started_at.as_deref();
        let took = attempt.duration_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok());
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&attempt.attempt.to_string()),
            plain(&started.and_then(time::parse).map(time::format_utc).unwrap_or_default()),
            plain(&time::format_age(started, now)),
            plain(&took.map(time::format_duration).unwrap_or_default()),
            result_cell(attempt),
            plain(attempt.worker_id.as_deref().unwrap_or_default()),
            plain(attempt.excerpt.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// Returns the result of an attempt as a cell: its HTTP status, or its error class if there was no response. A result that
/// arrived too late is marked.
fn result_cell(attempt: &Attempt) -> (String, Color) {
    let (result, color) = result_text(attempt);
    if attempt.applied == Some(false) {
        (format!("{result}, not applied"), Color::Waiting)
    } else {
        (result, color)
    }
}

fn result_text(attempt: &Attempt) -> (String, Color) {
    match (attempt.http_status, &attempt.error_class) {
        (Some(status @ 200..=299), _) => (format!("HTTP {status}"), Color::Good),
        (Some(status), _) => (format!("HTTP {status}"), Color::Bad),
        (None, Some(class)) => (class.clone(), Color::Bad),
        (None, None) => ("no result".to_owned(), Color::Waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        let attempt = |number, status, class: Option<&str>, excerpt: &str| Attempt {
            attempt: number,
            started_at: Some(format!("2026-01-31T16:3{number}:02Z")),
            duration_ms: Some(128.0),
            http_status: status,
            error_class: class.map(str::to_owned),
            excerpt: Some(excerpt.to_owned()),
            worker_id: Some("web-1".into()),
            applied: Some(true),
        };
        let action = |action: &str, at: &str, reason: Option<&str>| AuditEntry {
            action: action.into(),
            actor: "ops".into(),
            at: at.into(),
            reason: reason.map(str::to_owned),
        };
        Event {
            event_id: "msg_1".into(),
            event_type: "invoice.paid".into(),
            delivery_status: Some("pending".into()),
            destination_url: "https://shop.example/hooks".into(),
            attempts: 2,
            max_attempts: 6,
            last_error: Some("HTTP 503: try later".into()),
            next_attempt_at: Some("2026-01-31T16:35:44Z".into()),
            created_at: Some("2026-01-31T16:30:00.25Z".into()),
            session_id: Some("s-1".into()),
            stored_by: Some("billing".into()),
            explanation: Some("Retry 2 of 5 is due, after HTTP 503: try later.".into()),
            history: vec![
                attempt(1, None, Some("connect"), "refused"),
                attempt(2, Some(503), None, "try later"),
            ],
            audit: vec![
                action("cancel", "2026-01-31T16:33:00Z", Some("wrong\ncustomer")),
                action("requeue", "2026-01-31T16:35:00Z", None),
            ],
            ..Event::default()
        }
    }

    #[test]
    fn a_card_shows_explanation_fields_actions_and_attempts_in_that_order() {
        let now = time::parse("2026-01-31T16:35:02Z").unwrap();
        let expected = "\
Retry 2 of 5 is due, after HTTP 503: try later.

event id      msg_1
type          invoice.paid
status        pending
destination   https://shop.example/hooks
attempts      2 of 6
last error    HTTP 503: try later
next attempt  2026-01-31 16:35:44Z (in 42 s)
created       2026-01-31 16:30:00Z (5 min ago)
session       s-1
stored by     billing

cancel by ops, 2026-01-31 16:33:00Z (2 min ago): wrong\\ncustomer

requeue by ops, 2026-01-31 16:35:00Z (2 s ago)

ATTEMPT  STARTED (UTC)         AGE          TOOK  RESULT    WORKER  EXCERPT
      1  2026-01-31 16:31:02Z  4 min ago  128 ms  connect   web-1   refused
      2  2026-01-31 16:32:02Z  3 min ago  128 ms  HTTP 503  web-1   try later";
        let shown = render(&event(), now, OutputStyle::PLAIN);
        assert_eq!((shown.text.as_str(), &shown.omissions), (expected, &Omissions::default()));
    }

    #[test]
    fn a_result_that_was_not_applied_is_marked() {
        let attempt = |http_status, applied| Attempt { http_status, applied, ..event().history.remove(1) };
        assert_eq!(
            result_cell(&attempt(Some(200), Some(false))),
            ("HTTP 200, not applied".into(), Color::Waiting)
        );
        assert_eq!(
            result_cell(&attempt(Some(200), None)),
            ("HTTP 200".into(), Color::Good),
            "an older server"
        );
    }

    #[test]
    fn a_narrow_terminal_hides_the_excerpts_of_attempts() {
        let RenderedTable { text: shown, omissions } =
            render(&event(), Timestamp::from_secs(1), OutputStyle { color: false, width: Some(48) });
        assert!(omissions.columns.contains(&"EXCERPT"), "{omissions:?}");
        let titles = shown.lines().find(|line| line.starts_with("ATTEMPT")).unwrap();
        assert!(titles.contains("RESULT") && !titles.contains("EXCERPT"), "{shown}");
    }
}
