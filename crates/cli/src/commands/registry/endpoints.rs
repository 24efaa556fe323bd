//! `posthaste endpoints`: the endpoints of an application.

mod background;
mod change;
mod secret;
mod state;

use std::process::ExitCode;

use posthaste_domain::Timestamp;
use serde_json::{Value, json};

use super::fields::{at, card, metadata, throttle};
use super::{confirm_deletion, print_result};
use crate::cli::{EndpointArgs, EndpointDeleteArgs, EndpointsCommand, SendExampleArgs};
use crate::client::{ApiClient, ApiResponse, EndpointItem, MessageItem, RegistryClient};
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, escape_line, time};
use state::{EndpointPage, describe};

const COLUMNS: &[Column] = &[
    Column::new("ID", 0),
    Column::new("STATE", 0).text(12, 30),
    Column::new("URL", 1).url(18, 32),
    Column::new("TYPES", 3).text(10, 24),
    Column::extra("UID", 0).text(10, 20),
    Column::extra("CHANNELS", 1).text(10, 20),
    Column::extra("THROTTLE", 2).align_right(),
    Column::extra("ORDER", 3),
    Column::extra("DESCRIPTION", 4).text(12, 30),
    Column::extra("CREATED", 5),
];

pub(crate) async fn run(
    command: &EndpointsCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let registry = RegistryClient(client);
    match command {
        EndpointsCommand::List(args) => {
            let list: ListCommand<'_, EndpointPage> = ListCommand {
                path: &["app", &args.app, "endpoint"],
                filters: Vec::new(),
                table,
                empty: "The application has no endpoints.",
                items: "endpoints",
            };
            list.show(&args.list, client, style).await?;
        }
        EndpointsCommand::Add(args) => change::add(args, &registry).await?,
        EndpointsCommand::Show(args) => show(args, &registry, style).await?,
        EndpointsCommand::Update(args) => change::update(args, &registry).await?,
        EndpointsCommand::Disable(args) => set_disabled(args, true, &registry).await?,
        EndpointsCommand::Enable(args) => set_disabled(args, false, &registry).await?,
        EndpointsCommand::Delete(args) => delete(args, &registry).await?,
        EndpointsCommand::Secret(args) => secret::print(args, &registry).await?,
        EndpointsCommand::Rotate(args) => secret::rotate(args, &registry).await?,
        EndpointsCommand::Stats(args) => stats(args, &registry, style).await?,
        EndpointsCommand::SendExample(args) => send_example(args, &registry).await?,
        EndpointsCommand::Recover(args) => background::start("recover", args, &registry).await?,
        EndpointsCommand::ReplayMissing(args) => background::start("replay-missing", args, &registry).await?,
        EndpointsCommand::Operation(args) => background::show(args, &registry, style).await?,
    }
    Ok(ExitCode::SUCCESS)
}

impl EndpointArgs {
    /// Returns the path of the endpoint, with these further segments.
    fn path<'a>(&'a self, further: &[&'a str]) -> Vec<&'a str> {
        ["app", &self.app, "endpoint", &self.endpoint].into_iter().chain(further.iter().copied()).collect()
    }
}

fn table(endpoints: &[EndpointItem], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for endpoint in endpoints {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        let (state, color) = describe(endpoint, now);
        table.push(vec![
            plain(&endpoint.id),
            (state, color),
            plain(&endpoint.url),
            plain(&names(endpoint.event_types.as_deref())),
            plain(endpoint.uid.as_deref().unwrap_or_default()),
            plain(&endpoint.channels.as_ref().map(|channels| channels.join(",")).unwrap_or_default()),
            plain(&throttle(endpoint.throttle_rate).unwrap_or_default()),
            plain(&endpoint.ordering),
            plain(&endpoint.description),
            plain(&time::format_age(endpoint.created_at.as_deref(), now)),
        ]);
    }
    table
}

fn names(names: Option<&[String]>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| names.join(","))
}

async fn show(args: &EndpointArgs, registry: &RegistryClient<'_>, style: OutputStyle) -> anyhow::Result<()> {
    let response = registry.get(&args.path(&[]), &[]).await?;
    if args.item.json {
        return terminal::print_response(response.as_bytes());
    }
    let mut endpoint: EndpointItem = response.parse()?;
    state::load(std::slice::from_mut(&mut endpoint), registry.0).await;
    terminal::print(&render(&endpoint, time::now(), style))
}

fn render(endpoint: &EndpointItem, now: Timestamp, style: OutputStyle) -> String {
    let (state, color) = describe(endpoint, now);
    let destination = endpoint.destination.as_ref();
    let fields = vec![
        ("id", Some(endpoint.id.clone())),
        ("uid", endpoint.uid.clone()),
        ("url", Some(endpoint.url.clone())),
        ("state", Some(color.paint(&escape_line(&state), style))),
        ("disabled at", at(endpoint.disabled_at.as_ref(), now)),
        ("reason", destination.and_then(|destination| destination.reason.clone())),
        ("failing since", at(destination.and_then(|destination| destination.failing_since.as_ref()), now)),
        ("paused until", at(destination.and_then(|destination| destination.paused_until.as_ref()), now)),
        ("next probe", at(destination.and_then(|destination| destination.next_probe_at.as_ref()), now)),
        ("last error", destination.and_then(|destination| destination.last_error.clone())),
        ("description", Some(endpoint.description.clone())),
        ("event types", Some(names(endpoint.event_types.as_deref()))),
        ("channels", Some(names(endpoint.channels.as_deref()))),
        ("throttle", throttle(endpoint.throttle_rate)),
        ("ordering", Some(endpoint.ordering.clone())),
        ("metadata", metadata(&endpoint.metadata)),
        ("created", at(endpoint.created_at.as_ref(), now)),
        ("updated", at(endpoint.updated_at.as_ref(), now)),
    ];
    card(fields, style)
}

async fn set_disabled(
    args: &EndpointArgs,
    disabled: bool,
    registry: &RegistryClient<'_>,
) -> anyhow::Result<()> {
    let response = registry.patch(&args.path(&[]), &json!({ "disabled": disabled })).await?;
    print_result(&response, args.item.json, || {
        let EndpointItem { id, .. } = response.parse()?;
        Ok(match disabled {
            true => format!("{id} is disabled: its messages are held until it is enabled"),
            false => format!("{id} is enabled: the messages that it held are sent now"),
        })
    })
}

async fn delete(args: &EndpointDeleteArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let endpoint = &args.endpoint.endpoint;
    if !confirm_deletion(&format!("the endpoint {endpoint}"), args.yes)? {
        return Ok(());
    }
    let response = registry.delete(&args.endpoint.path(&[])).await?;
    print_result(&response, args.endpoint.item.json, || Ok(format!("{endpoint} is deleted")))
}

async fn stats(args: &EndpointArgs, registry: &RegistryClient<'_>, style: OutputStyle) -> anyhow::Result<()> {
    let response = registry.get(&args.path(&["stats"]), &[]).await?;
    if args.item.json {
        return terminal::print_response(response.as_bytes());
    }
    let counts: Value = response.parse()?;
    let count = |name: &str| Some(counts[name].as_u64().unwrap_or_default().to_string());
    let fields = vec![
        ("delivered", count("success")),
        ("pending", count("pending")),
        ("retrying", count("sending")),
        ("failed", count("fail")),
    ];
    terminal::print(&card(fields, style))
}

async fn send_example(args: &SendExampleArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let payload: Option<Value> = match &args.data {
        None => None,
        Some(text) => Some(
            serde_json::from_str(text).map_err(|error| BadUsage(format!("--data is not JSON: {error}")))?,
        ),
    };
    let body = super::fields::Fields::default()
        .set("eventType", Some(args.event_type.as_str()))
        .set("payload", payload);
    let response: ApiResponse =
        registry.post(&args.endpoint.path(&["send-example"]), &body.into_body()).await?;
    print_result(&response, args.endpoint.item.json, || Ok(response.parse::<MessageItem>()?.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> EndpointItem {
        EndpointItem {
            id: "ep_0000000000000011".into(),
            url: "https://shop.example/hooks".into(),
            event_types: Some(vec!["invoice.paid".into(), "invoice.sent".into()]),
            disabled: true,
            disabled_reason: Some("gone".into()),
            ordering: "fifo".into(),
            ..EndpointItem::default()
        }
    }

    #[test]
    fn eighty_columns_show_state_url_and_types() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let shown = table(&[endpoint()], now).render(OutputStyle { color: false, width: Some(80) });
        for text in ["ep_0000000000000011", "disabled (gone)", "shop.example/hooks", "invoice.paid"] {
            assert!(shown.text.contains(text), "{text}: {}", shown.text);
        }
        assert!(shown.text.lines().all(|line| line.chars().count() <= 80), "{}", shown.text);
    }

    #[test]
    fn a_card_says_why_the_endpoint_is_disabled() {
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let shown = render(&endpoint(), now, OutputStyle::PLAIN);
        for text in ["disabled (gone)", "invoice.paid,invoice.sent", "channels     all", "fifo"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("uid"), "{shown}");
    }
}
