//! `posthaste events`: lists events, shows one with its explanation or its content, cancels one, and replays one.

mod card;
mod content;

use std::process::ExitCode;

use posthaste_domain::Timestamp;
use serde_json::json;

use crate::cli::{CancelArgs, EventsCommand, EventsListArgs, ReplayArgs, ServerArgs, ShowArgs, Status};
use crate::client::{ActionResult, ApiClient, ClientError, Event, EventPage};
use crate::commands::dlq::describe_hold;
use crate::commands::pages::ListCommand;
use crate::commands::send;
use crate::terminal::{self, Color, Column, OutputStyle, RenderedTable, Table, time};

pub(in crate::commands) use card::render_audit_entry;

const COLUMNS: &[Column] = &[
    Column::new("EVENT ID", 0).id(),
    Column::new("STATUS", 0),
    Column::extra("ATTEMPTS", 0).align_right(),
    Column::new("NEXT", 4),
    Column::new("TYPE", 3).text(10, 20),
    Column::extra("CREATED", 1),
    Column::new("DESTINATION", 2).url(16, 28),
    Column::new("LAST ERROR", 1).text(14, 28),
    Column::extra("CREATED (UTC)", 2),
];

impl EventsCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Show(args) => &args.server,
            Self::Content(args) => &args.server,
            Self::Replay(args) => &args.server,
            Self::Cancel(args) => &args.server,
        }
    }
}

pub(crate) async fn run(
    command: &EventsCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    match command {
        EventsCommand::List(args) => list(args, client, style).await?,
        EventsCommand::Show(args) => show(args, client, style).await?,
        EventsCommand::Content(args) => content::show(args, client).await?,
        EventsCommand::Replay(args) => return replay(args, client).await,
        EventsCommand::Cancel(args) => cancel(args, client).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &EventsListArgs, client: &ApiClient, style: OutputStyle) -> anyhow::Result<()> {
    let own = [
        ("status", args.status.map(Status::as_str)),
        ("failure_kind", args.kind.as_deref()),
        ("endpoint_id", args.endpoint.as_deref()),
        ("payment_request_id", args.payment_request_id.as_deref()),
        ("session_id", args.session_id.as_deref()),
        ("webhook_id", args.webhook_id.as_deref()),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let shared = args.conditions.to_query();
    let list: ListCommand<'_, EventPage> = ListCommand {
        path: &["events"],
        filters: own.chain(shared.iter().map(|(name, value)| (*name, value.as_str()))).collect(),
        table,
        empty: "No events match.",
        items: "events",
    };
    list.show(&args.list, client, style).await
}

fn table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for event in events {
        let created = event.created_at.as_deref();
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&event.event_id),
            (event.status().to_owned(), Color::for_status(event.status())),
            plain(&event.attempt_count()),
            plain(&next_attempt(event, now)),
            plain(&event.event_type),
            plain(&time::format_age(created, now)),
            plain(&event.destination_url),
            plain(event.last_error.as_deref().unwrap_or_default()),
            (created.and_then(time::parse).map(time::format_utc).unwrap_or_default(), Color::Dim),
        ]);
    }
    table
}

/// Formats the time of the next attempt relative to now, or as `due` if it has passed. Empty if the event is not
/// pending.
fn next_attempt(event: &Event, now: Timestamp) -> String {
    match event.next_attempt_at.as_deref().filter(|_| event.status() == "pending") {
        Some(text) if time::parse(text).is_some_and(|at| at <= now) => "due".to_owned(),
        text => time::format_age(text, now),
    }
}

async fn show(args: &ShowArgs, client: &ApiClient, style: OutputStyle) -> anyhow::Result<()> {
    let response =
        client.get(&["events", &args.event_id], &[]).await.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    let style = style.widened(args.wide);
    let RenderedTable { text, omissions } = card::render(&response.parse()?, time::now(), style);
    terminal::print(&text)?;
    terminal::note_omissions(&omissions, "--wide");
    Ok(())
}

async fn cancel(args: &CancelArgs, client: &ApiClient) -> anyhow::Result<()> {
    let body = args.reason.as_ref().map(|reason| json!({ "reason": reason }).to_string().into_bytes());
    let response = client.act(&["events", &args.event_id, "cancel"], body).await;
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    let ActionResult { event_id, delivery_status, .. } = response.parse()?;
    let status = delivery_status.unwrap_or_else(|| "failed".to_owned());
    let (event_id, status) = (terminal::escape_line(&event_id), terminal::escape_line(&status));
    terminal::print(&format!("{event_id} is cancelled: {status}"))?;
    terminal::note(&format!("`posthaste dlq requeue {event_id}` makes it pending again."));
    Ok(())
}

async fn replay(args: &ReplayArgs, client: &ApiClient) -> anyhow::Result<ExitCode> {
    let response = client.act(&["events", &args.event_id, "replay"], None).await;
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        terminal::print_response(response.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let ActionResult { event_id, held, .. } = response.parse()?;
    // A closed standard output must not end --wait: its exit code is a result too.
    terminal::print_unless_closed(&terminal::escape_line(&event_id))?;
    if let Some(held) = &held {
        terminal::note(&describe_hold(held));
    }
    if args.wait {
        return send::wait_for_result(client, &event_id, args.timeout, false).await;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        let event = |id: &str, status: &str| Event {
            event_id: id.into(),
            event_type: "invoice.paid".into(),
            delivery_status: Some(status.into()),
            destination_url: "https://shop.example/hooks".into(),
            attempts: 1,
            max_attempts: 6,
            next_attempt_at: Some("2026-01-31T16:31:44Z".into()),
            created_at: Some("2026-01-31T16:28:02Z".into()),
            last_error: Some("HTTP 503: try later".into()),
            ..Event::default()
        };
        vec![
            event("msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5", "pending"),
            Event { last_error: None, ..event("order-17", "delivered") },
            Event { next_attempt_at: Some("2026-01-31T16:31:00Z".into()), ..event("order-18", "pending") },
        ]
    }

    fn shown(width: Option<u16>) -> String {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        table(&events(), now).render(OutputStyle { color: false, width }).text
    }

    #[test]
    fn eighty_columns_show_status_type_destination_and_error_with_shortened_ids() {
        let expected = "\
EVENT ID          STATUS     TYPE          DESTINATION         LAST ERROR
msg_0199a…b0c4d5  pending    invoice.paid  shop.example/hooks  HTTP 503: try la…
order-17          delivered  invoice.paid  shop.example/hooks
order-18          pending    invoice.paid  shop.example/hooks  HTTP 503: try la…";
        assert_eq!(shown(Some(80)), expected);
    }

    #[test]
    fn eighty_columns_have_room_for_more_if_no_event_failed() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let events: Vec<_> = events().into_iter().map(|event| Event { last_error: None, ..event }).collect();
        let shown = table(&events, now).render(OutputStyle { color: false, width: Some(80) }).text;
        let expected = "msg_0199a…b0c4d5  pending    in 42 s  invoice.paid  https://shop.example/hooks";
        assert_eq!(shown.lines().nth(1), Some(expected), "{shown}");
    }

    #[test]
    fn a_pipe_gets_every_column() {
        let expected = "\
msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5  pending         1/6  in 42 s  invoice.paid  3 min ago  \
https://shop.example/hooks  HTTP 503: try later  2026-01-31 16:28:02Z";
        assert_eq!(shown(None).lines().nth(1), Some(expected));
    }
}
