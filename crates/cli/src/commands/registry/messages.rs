//! `posthaste messages`: publishes, lists and shows the messages of an application, and sends them again.

use std::process::ExitCode;

use posthaste_domain::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::fields::{at, card};
use super::{print_result, read_input};
use crate::cli::{MessageArgs, MessagesCommand, MessagesListArgs, PublishArgs, ResendArgs};
use crate::client::{
    ApiClient, EndpointItem, ListPage as _, MessageAttempt, MessageItem, RegistryClient, RegistryPage,
};
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, RenderedTable, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("ID", 0).id(),
    Column::new("TYPE", 1).text(10, 28),
    Column::new("PUBLISHED", 2),
    Column::new("UID", 3).text(10, 24),
    Column::extra("CHANNELS", 0).text(10, 20),
    Column::extra("TAGS", 1).text(10, 20),
    Column::extra("DELIVER AT", 2),
];

const ENDPOINT_COLUMNS: &[Column] = &[
    Column::new("ENDPOINT", 0),
    Column::new("STATUS", 0),
    Column::new("URL", 1).url(18, 32),
    Column::new("NEXT ATTEMPT", 2),
];

const ATTEMPT_COLUMNS: &[Column] = &[
    Column::new("ATTEMPT AT", 0),
    Column::new("ENDPOINT", 0),
    Column::new("STATUS", 0),
    Column::new("HTTP", 0).align_right(),
    Column::new("TOOK", 2).align_right(),
    Column::new("RESPONSE", 1).text(14, 40),
    Column::extra("ATTEMPT ID", 0),
];

/// The body of a publish. The payload stays raw text, because exactly these bytes are signed and delivered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMessage<'a> {
    event_type: &'a str,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    channels: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<&'a str>,
}

pub(crate) async fn run(
    command: &MessagesCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let registry = RegistryClient(client);
    match command {
        MessagesCommand::List(args) => list(args, client, style).await?,
        MessagesCommand::Publish(args) => publish(args, &registry).await?,
        MessagesCommand::Show(args) => show(args, &registry, style).await?,
        MessagesCommand::Resend(args) => resend(args, &registry).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &MessagesListArgs, client: &ApiClient, style: OutputStyle) -> anyhow::Result<()> {
    let event_type = args.event_type.as_deref().map(|name| ("event_types", name));
    let channel = args.channel.as_deref().map(|name| ("channel", name));
    let list: ListCommand<'_, RegistryPage<MessageItem>> = ListCommand {
        path: &["app", &args.app, "msg"],
        filters: event_type.into_iter().chain(channel).collect(),
        table,
        empty: "No messages match.",
        items: "messages",
    };
    list.show(&args.list, client, style).await
}

fn table(messages: &[MessageItem], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for message in messages {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        let joined =
            |names: &Option<Vec<String>>| names.as_ref().map(|names| names.join(",")).unwrap_or_default();
        table.push(vec![
            plain(&message.id),
            plain(&message.event_type),
            plain(&time::format_age(message.timestamp.as_deref(), now)),
            plain(message.event_id.as_deref().unwrap_or_default()),
            plain(&joined(&message.channels)),
            plain(&joined(&message.tags)),
            plain(&time::format_age(message.deliver_at.as_deref(), now)),
        ]);
    }
    table
}

async fn publish(args: &PublishArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let text = match (&args.data, &args.file) {
        (Some(data), _) => data.clone(),
        (None, Some(path)) => read_input(path, "--file")?,
        (None, None) => return Err(BadUsage("add a payload with --data or --file".to_owned()).into()),
    };
    let payload: Box<RawValue> = serde_json::from_str(&text).map_err(|error| {
        BadUsage(format!(r#"the payload is not JSON ({error}): write it as in --data '{{"invoice": 17}}'"#))
    })?;
    let body = serde_json::to_vec(&NewMessage {
        event_type: &args.event_type,
        payload: &payload,
        event_id: args.uid.as_deref(),
        channels: &args.channels,
        tags: &args.tags,
        deliver_at: args.deliver_at.as_deref(),
    })?;
    let response = registry.post_bytes(&["app", &args.app, "msg"], body).await?;
    print_result(&response, args.item.json, || Ok(response.parse::<MessageItem>()?.id))
}

async fn show(args: &MessageArgs, registry: &RegistryClient<'_>, style: OutputStyle) -> anyhow::Result<()> {
    let path = ["app", args.app.as_str(), "msg", args.message.as_str()];
    let response = registry.get(&path, &[]).await?;
    if args.item.json {
        return terminal::print_response(response.as_bytes());
    }
    let endpoints = registry.get(&[&path[..], &["endpoint"]].concat(), &[]).await?;
    let attempts = registry.get(&["app", &args.app, "attempt", "msg", &args.message], &[]).await?;
    let (endpoints, attempts): (RegistryPage<EndpointItem>, RegistryPage<MessageAttempt>) =
        (endpoints.parse()?, attempts.parse()?);
    let now = time::now();
    terminal::print(&render(&response.parse()?, now, style))?;
    let tables = [endpoint_table(endpoints.items(), now), attempt_table(attempts.items(), now)];
    for table in tables.into_iter().flatten() {
        let RenderedTable { text, omissions } = table.render(style);
        terminal::print(&format!("\n{text}"))?;
        terminal::note_omissions(&omissions, "--json");
    }
    Ok(())
}

fn render(message: &MessageItem, now: Timestamp, style: OutputStyle) -> String {
    let joined = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.join(","));
    let fields = vec![
        ("id", Some(message.id.clone())),
        ("uid", message.event_id.clone()),
        ("event type", Some(message.event_type.clone())),
        ("published", at(message.timestamp.as_ref(), now)),
        ("deliver at", at(message.deliver_at.as_ref(), now)),
        ("channels", joined(&message.channels)),
        ("tags", joined(&message.tags)),
    ];
    card(fields, style)
}

/// Returns the table of the endpoints that get a message, or None if there is none.
fn endpoint_table(endpoints: &[EndpointItem], now: Timestamp) -> Option<Table> {
    let mut table = Table::new(ENDPOINT_COLUMNS);
    for endpoint in endpoints {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&endpoint.id),
            (endpoint.status_text.clone(), color(&endpoint.status_text)),
            plain(&endpoint.url),
            plain(&time::format_age(endpoint.next_attempt.as_deref(), now)),
        ]);
    }
    (!endpoints.is_empty()).then_some(table)
}

/// Returns the table of the attempts of a message, or None if there is none.
fn attempt_table(attempts: &[MessageAttempt], now: Timestamp) -> Option<Table> {
    let mut table = Table::new(ATTEMPT_COLUMNS);
    for attempt in attempts {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        let status = match attempt.response_status_code {
            0 => String::new(),
            code => code.to_string(),
        };
        table.push(vec![
            plain(&time::format_age(attempt.timestamp.as_deref(), now)),
            plain(&attempt.endpoint_id),
            (attempt.status_text.clone(), color(&attempt.status_text)),
            plain(&status),
            plain(&format!("{} ms", attempt.response_duration_ms)),
            plain(&attempt.response),
            plain(&attempt.id),
        ]);
    }
    (!attempts.is_empty()).then_some(table)
}

fn color(status: &str) -> Color {
    match status {
        "success" => Color::Good,
        "pending" | "sending" => Color::Waiting,
        _ => Color::Bad,
    }
}

async fn resend(args: &ResendArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let MessageArgs { app, message, item } = &args.message;
    let path = ["app", app, "msg", message, "endpoint", &args.endpoint, "resend"];
    let response = registry.post(&path, &serde_json::json!({})).await?;
    print_result(&response, item.json, || Ok(format!("{message} is sent to {} again", args.endpoint)))
}
