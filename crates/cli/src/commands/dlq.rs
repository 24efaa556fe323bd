//! `posthaste dlq`: lists dead-lettered events, requeues, cancels and discards them, one by one or in bulk.

mod act;
mod bulk;

use std::process::ExitCode;

use posthaste_domain::Timestamp;

use act::Action;
pub(super) use act::describe_hold;

use crate::cli::{BulkCommand, DlqCommand, ServerArgs};
use crate::client::{ApiClient, Event, EventPage};
use crate::commands::pages::ListCommand;
use crate::terminal::{Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("EVENT ID", 0).id(),
    Column::new("FAILED", 4),
    Column::extra("WHY", 0),
    Column::extra("ATTEMPTS", 1).align_right(),
    Column::new("TYPE", 3).text(10, 20),
    Column::new("LAST ERROR", 1).text(14, 28),
    Column::new("DESTINATION", 2).url(16, 28),
    Column::extra("FAILED (UTC)", 2),
];

impl DlqCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Requeue(args) => &args.bulk.server,
            Self::Cancel(args) => &args.bulk.server,
            Self::Discard(args) => &args.bulk.server,
            Self::Bulk(BulkCommand::List(args)) => &args.server,
            Self::Bulk(BulkCommand::Show(args) | BulkCommand::Stop(args)) => &args.server,
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
            let kind = args.kind.as_deref().map(|kind| ("failure_kind", kind));
            let shared = args.conditions.to_query();
            let shared = shared.iter().map(|(name, value)| (*name, value.as_str()));
            let filters: Vec<_> = kind.into_iter().chain(shared).collect();
            let list: ListCommand<'_, EventPage> = ListCommand {
                path: &["dlq"],
                empty: match &filters[..] {
                    [] => "The dead-letter queue is empty.",
                    [("failure_kind", _)] => "The dead-letter queue has no events of this kind.",
                    _ => "The dead-letter queue has no events that match.",
                },
                filters,
                table,
                items: "events",
            };
            list.show(&args.list, client, style).await?;
            Ok(ExitCode::SUCCESS)
        }
        DlqCommand::Requeue(args) if args.event_ids.is_empty() => {
            bulk::start(&bulk::REQUEUE, None, &args.bulk, client).await
        }
        DlqCommand::Requeue(args) => act::run(&Action::requeue(), &args.event_ids, &args.bulk, client).await,
        DlqCommand::Cancel(args) => {
            bulk::start(&bulk::CANCEL, args.reason.as_deref(), &args.bulk, client).await
        }
        DlqCommand::Discard(args) if args.event_ids.is_empty() => {
            bulk::start(&bulk::DISCARD, args.reason.as_deref(), &args.bulk, client).await
        }
        DlqCommand::Discard(args) => {
            let action = Action::discard(args.reason.as_deref());
            act::run(&action, &args.event_ids, &args.bulk, client).await
        }
        DlqCommand::Bulk(command) => bulk::run(command, client, style).await,
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
    use crate::terminal::Omissions;

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
EVENT ID          FAILED   TYPE          LAST ERROR           DESTINATION
msg_0199a…b0c4d5  2 h ago  invoice.paid  HTTP 503: try later  shop.example/hooks";
        assert_eq!(shown(Some(80)).text, eighty);
        let omissions = shown(Some(80)).omissions;
        assert_eq!(omissions.columns, ["WHY", "ATTEMPTS", "FAILED (UTC)"]);
        assert!(omissions.has_short_ids);
        let omissions = shown(Some(120)).omissions;
        assert_eq!((omissions.columns, omissions.has_short_ids), (vec!["ATTEMPTS", "FAILED (UTC)"], false));
        assert_eq!(shown(Some(200)).omissions, Omissions::default());
        let sixty = shown(Some(60));
        assert_eq!(sixty.omissions.columns, ["FAILED", "WHY", "ATTEMPTS", "TYPE", "FAILED (UTC)"]);
        assert!(sixty.text.contains("shop.example/hooks") && sixty.text.contains("HTTP 503: try later"));
    }
}
