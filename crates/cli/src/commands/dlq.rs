//! `posthaste dlq`: lists dead-lettered events, requeues and discards them.

mod act;

use std::process::ExitCode;

use posthaste_domain::Timestamp;

use act::Action;

use crate::cli::{DlqCommand, ServerArgs};
use crate::client::{ApiClient, Event, EventPage};
use crate::commands::pages::ListCommand;
use crate::terminal::{Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("EVENT ID", 0),
    Column::new("FAILED", 0),
    Column::new("WHY", 2),
    Column::new("ATTEMPTS", 4).align_right(),
    Column::new("TYPE", 5).min_width(12),
    Column::new("LAST ERROR", 1).min_width(16),
    Column::new("DESTINATION", 3).min_width(20),
    Column::new("FAILED (UTC)", 6),
];

impl DlqCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Requeue(args) => &args.selection.server,
            Self::Discard(args) => &args.selection.server,
        }
    }
}

pub(crate) async fn run(
    command: &DlqCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    match command {
        DlqCommand::List(args) => {
            let list: ListCommand<'_, EventPage> = ListCommand {
                path: "dlq",
                filters: args.kind.as_deref().map(|kind| ("failure_kind", kind)).into_iter().collect(),
                table,
                empty: match args.kind {
                    None => "The dead-letter queue is empty.",
                    Some(_) => "The dead-letter queue has no events of this kind.",
                },
                items: "events",
            };
            list.show(&args.list, client, style).await?;
            Ok(ExitCode::SUCCESS)
        }
        DlqCommand::Requeue(args) => {
            act::run(Action::requeue(), &args.event_ids, args.all, &args.selection, client).await
        }
        DlqCommand::Discard(args) => {
            let action = Action::discard(args.reason.as_deref());
            act::run(action, &args.event_ids, args.all, &args.selection, client).await
        }
    }
}

fn table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for event in events {
        let failed = event.updated_at.as_deref();
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&event.event_id),
            plain(&time::format_age(failed, now)),
            (event.failure_kind.clone().unwrap_or_default(), Color::Bad),
            plain(&event.attempt_count()),
            plain(&event.event_type),
            plain(event.last_error.as_deref().unwrap_or_default()),
            plain(&event.destination_url),
            (failed.and_then(time::parse).map(time::format_utc).unwrap_or_default(), Color::Dim),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_one_line_with_time_and_cause_of_its_failure() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let event = Event {
            event_id: "msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5".into(),
            event_type: "invoice.paid".into(),
            destination_url: "https://shop.example/hooks".into(),
            attempts: 6,
            max_attempts: 6,
            failure_kind: Some("exhausted".into()),
            last_error: Some("HTTP 503: try later".into()),
            updated_at: Some("2026-01-31T14:31:02Z".into()),
            ..Event::default()
        };
        let shown =
            |width| table(std::slice::from_ref(&event), now).render(OutputStyle { color: false, width });
        let everything = "\
EVENT ID                              FAILED   WHY        ATTEMPTS  TYPE          LAST ERROR           \
DESTINATION                 FAILED (UTC)
msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5  2 h ago  exhausted       6/6  invoice.paid  HTTP 503: try later  \
https://shop.example/hooks  2026-01-31 14:31:02Z";
        assert_eq!(shown(None).text, everything);
        let eighty = "\
EVENT ID                              FAILED   WHY        LAST ERROR
msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5  2 h ago  exhausted  HTTP 503: try later";
        assert_eq!(shown(Some(80)).text, eighty);
        assert_eq!(shown(Some(80)).omitted_columns, ["ATTEMPTS", "TYPE", "DESTINATION", "FAILED (UTC)"]);
        assert_eq!(shown(Some(104)).omitted_columns, ["ATTEMPTS", "TYPE", "FAILED (UTC)"]);
    }
}
