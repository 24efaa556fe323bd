//! `posthaste destinations`: lists destinations, shows one, pauses, resumes and probes it, and gives it secrets.

mod secret;

use std::process::ExitCode;
use std::time::Duration;

use posthaste_config::Config;
use posthaste_domain::Timestamp;
use serde_json::json;

use crate::cli::{
    DestinationArgs, DestinationsCommand, DestinationsListArgs, PauseArgs, ServerArgs, SettingFlags,
};
use crate::client::{ApiClient, ApiResponse, ClientError, Destination, DestinationPage, ProbeResult};
use crate::commands::events;
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, escape_line, render_fields, time};

const COLUMNS: &[Column] = &[
    Column::new("ID", 0).align_right(),
    Column::new("STATE", 0),
    Column::extra("SINCE", 0),
    Column::new("PENDING", 0).align_right(),
    Column::new("URL", 1).url(18, 28),
    Column::extra("NEXT PROBE", 1),
    Column::new("LAST ERROR", 2).text(14, 28),
    Column::extra("OLDEST", 2),
    Column::extra("REASON", 3).text(16, 40),
    Column::extra("ENDPOINT", 4),
    Column::extra("APPLICATION", 5),
];

/// Runs the command. `client` makes a client of the server, and `config` loads the configuration of the database.
pub(crate) async fn run(
    command: &DestinationsCommand,
    client: impl FnOnce(&ServerArgs) -> anyhow::Result<ApiClient>,
    config: impl FnOnce(&SettingFlags) -> Result<Config, BadUsage>,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    match command {
        DestinationsCommand::List(args) => list(args, &client(&args.server)?, style).await?,
        DestinationsCommand::Show(args) => show(args, &client(&args.server)?, style).await?,
        DestinationsCommand::Pause(args) => pause(args, &client(&args.destination.server)?).await?,
        DestinationsCommand::Resume(args) => resume(args, &client(&args.server)?).await?,
        DestinationsCommand::Probe(args) => return probe(args, &client(&args.server)?).await,
        DestinationsCommand::Secret(args) => return secret::run(args, config(&args.settings)?).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &DestinationsListArgs, client: &ApiClient, style: OutputStyle) -> anyhow::Result<()> {
    let list: ListCommand<'_, DestinationPage> = ListCommand {
        path: &["destinations"],
        filters: args.state.as_deref().map(|state| ("state", state)).into_iter().collect(),
        table,
        empty: match args.state {
            None => "There are no destinations yet.",
            Some(_) => "No destination is in this state.",
        },
        items: "destinations",
    };
    list.show(&args.list, client, style).await
}

fn table(destinations: &[Destination], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for destination in destinations {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&destination.destination_id),
            (state(destination), color(destination)),
            plain(&time::format_age(destination.since.as_deref(), now)),
            plain(&pending(destination)),
            plain(&destination.url),
            plain(&time::format_age(destination.next_probe_at.as_deref(), now)),
            plain(destination.last_error.as_deref().unwrap_or_default()),
            plain(&oldest(destination).unwrap_or_default()),
            plain(destination.reason.as_deref().unwrap_or_default()),
            plain(destination.endpoint_id.as_deref().unwrap_or_default()),
            plain(destination.app_id.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// Formats the state by its name in the API, and why an endpoint is disabled: `disabled (gone)`.
fn state(destination: &Destination) -> String {
    match &destination.disabled {
        Some(disabled) if destination.state == "disabled" => format!("disabled ({})", disabled.reason),
        _ => destination.state.clone(),
    }
}

pub(in crate::commands) fn color(destination: &Destination) -> Color {
    match destination.state.as_str() {
        "ok" => Color::Good,
        "failing" => Color::Waiting,
        _ => Color::Bad,
    }
}

/// Formats the number of pending events; `+` says that there are more than were counted.
fn pending(destination: &Destination) -> String {
    let more = if destination.pending_count_capped { "+" } else { "" };
    format!("{}{more}", destination.pending_count)
}

fn oldest(destination: &Destination) -> Option<String> {
    destination.oldest_pending_age_seconds.map(|age| time::format_duration(Duration::from_secs(age)))
}

async fn show(args: &DestinationArgs, client: &ApiClient, style: OutputStyle) -> anyhow::Result<()> {
    let response = client.get(&["destinations", &args.destination_id], &[]).await;
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    terminal::print(&render(&response.parse()?, time::now(), style))
}

fn render(destination: &Destination, now: Timestamp, style: OutputStyle) -> String {
    let at = |text: &Option<String>| text.as_deref().map(|text| time::format_full(text, now));
    let fields = [
        ("destination id", Some(destination.destination_id.clone())),
        ("url", Some(destination.url.clone())),
        ("endpoint", destination.endpoint_id.clone()),
        ("application", destination.app_id.clone()),
        ("state", Some(color(destination).paint(&escape_line(&state(destination)), style))),
        ("disabled at", destination.disabled.as_ref().and_then(|disabled| at(&disabled.at))),
        ("since", at(&destination.since)),
        ("reason", destination.reason.clone()),
        ("paused until", at(&destination.paused_until)),
        ("next probe", at(&destination.next_probe_at)),
        ("failing since", at(&destination.failing_since)),
        ("in flight", Some(destination.in_flight.to_string())),
        ("window", destination.window.map(|window| window.to_string())),
        ("failed recently", destination.failure_ratio.map(|ratio| format!("{:.1} %", ratio * 100.0))),
        ("latency", destination.latency_ms.map(|ms| format!("{ms:.1} ms"))),
        ("pending", Some(pending(destination))),
        ("oldest pending", oldest(destination)),
        ("last error", destination.last_error.clone()),
    ];
    let fields: Vec<_> =
        fields.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
    let mut card = render_fields(&fields, style);
    for entry in &destination.audit {
        card.push_str(&events::render_audit_entry(entry, now));
    }
    card
}

async fn pause(args: &PauseArgs, client: &ApiClient) -> anyhow::Result<()> {
    let body = json!({ "seconds": args.seconds, "reason": args.reason }).to_string().into_bytes();
    let destination_id = &args.destination.destination_id;
    let response = client.post(&["destinations", destination_id, "pause"], Some(body)).await;
    print_result(&args.destination, response, |destination| {
        let until = match destination.paused_until.as_deref() {
            Some(until) => format!("until {}", time::format_full(until, time::now())),
            None => "until it is resumed".to_owned(),
        };
        format!("destination {} is paused {until}", destination.destination_id)
    })
}

async fn resume(args: &DestinationArgs, client: &ApiClient) -> anyhow::Result<()> {
    let response = client.post(&["destinations", &args.destination_id, "resume"], None).await;
    print_result(args, response, |destination| {
        format!("destination {} is resumed: its due events are sent now", destination.destination_id)
    })
}

/// Asks for a probe. The command fails if none is sent.
async fn probe(args: &DestinationArgs, client: &ApiClient) -> anyhow::Result<ExitCode> {
    let response = client.post(&["destinations", &args.destination_id, "probe"], None).await;
    let response = response.map_err(ClientError::blame_arguments)?;
    let result: ProbeResult = response.parse()?;
    if args.json {
        terminal::print_response(response.as_bytes())?;
    } else {
        let line = match &result.reason {
            None => "is probed: the next request decides whether its circuit closes".to_owned(),
            Some(reason) => format!("is not probed: {reason}"),
        };
        terminal::print(&escape_line(&format!("destination {} {line}", result.destination_id)))?;
    }
    Ok(if result.probed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the response to an action, as JSON or as one line.
fn print_result(
    args: &DestinationArgs,
    response: Result<ApiResponse, ClientError>,
    line: impl FnOnce(&Destination) -> String,
) -> anyhow::Result<()> {
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    terminal::print(&escape_line(&line(&response.parse()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination() -> Destination {
        Destination {
            destination_id: "17".into(),
            url: "https://shop.example/hooks".into(),
            state: "circuit_open".into(),
            since: Some("2026-01-31T15:31:02Z".into()),
            reason: Some("the circuit breaker is open after repeated failures".into()),
            next_probe_at: Some("2026-01-31T16:31:32Z".into()),
            pending_count: 1_000,
            pending_count_capped: true,
            oldest_pending_age_seconds: Some(3_700),
            last_error: Some("HTTP 503: try later".into()),
            ..Destination::default()
        }
    }

    #[test]
    fn eighty_columns_show_state_pending_events_url_and_error() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let shown = table(&[destination()], now).render(OutputStyle { color: false, width: Some(80) });
        let expected = "\
ID  STATE         PENDING  URL                         LAST ERROR
17  circuit_open    1000+  https://shop.example/hooks  HTTP 503: try later";
        assert_eq!(shown.text, expected);
        assert_eq!(shown.omissions.columns, ["SINCE", "NEXT PROBE", "OLDEST", "REASON"]);
    }

    #[test]
    fn a_disabled_endpoint_is_shown_with_its_application_and_reason() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let disabled = r#"{"at":"2026-01-31T16:30:02Z","reason":"gone"}"#;
        let destination = Destination {
            state: "disabled".into(),
            disabled: serde_json::from_str(disabled).unwrap(),
            endpoint_id: Some("ep_0000000000000011".into()),
            app_id: Some("app_0000000000000003".into()),
            ..destination()
        };
        let card = render(&destination, now, OutputStyle::PLAIN);
        let list = table(&[destination], now).render(OutputStyle { color: false, width: None }).text;
        for text in ["disabled (gone)", "ep_0000000000000011", "app_0000000000000003"] {
            assert!(card.contains(text), "{text}: {card}");
            assert!(list.contains(text), "{text}: {list}");
        }
        assert!(card.contains("2026-01-31 16:30:02Z"), "{card}");
    }

    #[test]
    fn card_says_why_nothing_is_sent_and_when_the_next_probe_is() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let shown = render(&destination(), now, OutputStyle::PLAIN);
        for text in ["circuit_open", "open after repeated failures", "in 30 s", "1000+", "HTTP 503"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("paused until"), "{shown}");
    }
}
