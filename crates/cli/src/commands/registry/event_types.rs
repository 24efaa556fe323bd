//! `posthaste event-types`: the registered types of messages.

use std::process::ExitCode;

use posthaste_domain::Timestamp;
use serde_json::Value;

use super::fields::{Fields, at, card};
use super::{print_result, read_input};
use crate::cli::{EventTypeAddArgs, EventTypesCommand};
use crate::client::{ApiClient, EventTypeItem, RegistryClient, RegistryPage};
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("NAME", 0),
    Column::new("STATE", 1),
    Column::new("DESCRIPTION", 2).text(14, 40),
    Column::extra("GROUP", 0).text(10, 20),
    Column::extra("CREATED", 1),
];

pub(crate) async fn run(
    command: &EventTypesCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let registry = RegistryClient(client);
    match command {
        EventTypesCommand::List(args) => {
            let list: ListCommand<'_, RegistryPage<EventTypeItem>> = ListCommand {
                path: &["event-type"],
                filters: args.archived.then_some(("include_archived", "true")).into_iter().collect(),
                table,
                empty: "No event type is registered. Messages of any type are accepted all the same.",
                items: "event types",
            };
            list.show(&args.list, client, style).await?;
        }
        EventTypesCommand::Add(args) => add(args, &registry).await?,
        EventTypesCommand::Show(args) => {
            let response = registry.get(&["event-type", &args.name], &[]).await?;
            if args.item.json {
                terminal::print_response(response.as_bytes())?;
            } else {
                terminal::print(&render(&response.parse()?, time::now(), style))?;
            }
        }
        EventTypesCommand::Update(args) => update(args, &registry).await?,
        EventTypesCommand::Archive(args) => {
            let response = registry.delete(&["event-type", &args.name]).await?;
            print_result(&response, args.item.json, || Ok(format!("{} is archived", args.name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(event_types: &[EventTypeItem], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for event_type in event_types {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&event_type.name),
            plain(state(event_type)),
            plain(&event_type.description),
            plain(event_type.group_name.as_deref().unwrap_or_default()),
            plain(&time::format_age(event_type.created_at.as_deref(), now)),
        ]);
    }
    table
}

fn state(event_type: &EventTypeItem) -> &'static str {
    match (event_type.archived, event_type.deprecated) {
        (true, _) => "archived",
        (false, true) => "deprecated",
        (false, false) => "live",
    }
}

fn render(event_type: &EventTypeItem, now: Timestamp, style: OutputStyle) -> String {
    let fields = vec![
        ("name", Some(event_type.name.clone())),
        ("state", Some(state(event_type).to_owned())),
        ("description", Some(event_type.description.clone())),
        ("group", event_type.group_name.clone()),
        ("created", at(event_type.created_at.as_ref(), now)),
        ("updated", at(event_type.updated_at.as_ref(), now)),
    ];
    card(fields, style)
}

async fn add(args: &EventTypeAddArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let name = &args.event_type.name;
    let body = fields(args)?
        .set("name", Some(name.as_str()))
        .set("description", Some(args.description.as_deref().unwrap_or_default()));
    let response = registry.post(&["event-type"], &body.into_body()).await?;
    print_result(&response, args.event_type.item.json, || Ok(format!("{name} is registered")))
}

async fn update(args: &EventTypeAddArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let name = &args.event_type.name;
    let body = fields(args)?.set("description", args.description.as_deref());
    if body.is_empty() {
        return Err(BadUsage("name a field to change, as in --description 'Paid in full'".to_owned()).into());
    }
    let response = registry.patch(&["event-type", name], &body.into_body()).await?;
    print_result(&response, args.event_type.item.json, || Ok(format!("{name} is changed")))
}

fn fields(args: &EventTypeAddArgs) -> Result<Fields, BadUsage> {
    let schemas: Option<Value> = match &args.schema_file {
        None => None,
        Some(path) => {
            let text = read_input(path, "--schema-file")?;
            let parsed = serde_json::from_str(&text);
            Some(parsed.map_err(|error| BadUsage(format!("--schema-file: {error}: write a JSON object")))?)
        }
    };
    Ok(Fields::default()
        .set("groupName", args.group.as_deref())
        .set("deprecated", args.deprecated.then_some(true))
        .set("schemas", schemas))
}
