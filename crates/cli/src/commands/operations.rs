//! `posthaste operations`: lists and stops the background operations of the database.

use std::process::ExitCode;

use posthaste::domain::{OperationId, Timestamp};
use posthaste::store::{ListFrom, ListLimit, ListRequest, Operation, OperationState};
use posthaste_config::Config;
use serde_json::{Value, json};

use crate::cli::{OperationStopArgs, OperationsCommand, OperationsListArgs};
use crate::commands::open;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("ID", 0),
    Column::new("KIND", 0),
    Column::new("STATE", 0),
    Column::new("ENDPOINT", 0),
    Column::new("SENT", 1).align_right(),
    Column::new("EXAMINED", 2).align_right(),
    Column::extra("RATE", 0).align_right(),
    Column::extra("STARTED", 1),
    Column::extra("BY", 2).text(10, 24),
];

pub(crate) async fn run(
    command: &OperationsCommand,
    config: Config,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    match command {
        OperationsCommand::List(args) => list(args, &config, style).await?,
        OperationsCommand::Stop(args) => stop(args, &config).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the newest operations. Those that matter to an operator, the running ones, are few.
async fn list(args: &OperationsListArgs, config: &Config, style: OutputStyle) -> anyhow::Result<()> {
    let opened = open::open_existing_store(config).await?;
    let state = args.running.then_some(OperationState::Running);
    let limit = ListLimit::new(250)?;
    let request = ListRequest { from: ListFrom::Start, limit };
    let listed = opened.store().operations().list(state, &request).await?;
    if args.json {
        let operations: Vec<_> = listed.items.iter().map(to_json).collect();
        return terminal::print(&format!("{:#}", json!({ "operations": operations })));
    }
    if listed.items.is_empty() {
        terminal::note("There are no such operations.");
        return Ok(());
    }
    terminal::print(&table(&listed.items, time::now()).render(style).text)
}

fn table(operations: &[Operation], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for operation in operations {
        let plain = |text: String| (text, Color::Plain);
        table.push(vec![
            plain(operation.id.to_string()),
            plain(operation.kind.as_str().to_owned()),
            plain(operation.state.as_str().to_owned()),
            plain(operation.endpoint.to_string()),
            plain(operation.done_count.to_string()),
            plain(operation.examined_count.to_string()),
            plain(format!("{}/s", operation.rate.per_second())),
            plain(time::format_relative(operation.created_at, now)),
            plain(operation.actor.clone()),
        ]);
    }
    table
}

fn to_json(operation: &Operation) -> Value {
    json!({
        "id": operation.id.to_string(),
        "kind": operation.kind.as_str(),
        "state": operation.state.as_str(),
        "app_id": operation.app.to_string(),
        "endpoint_id": operation.endpoint.to_string(),
        "since": time::format_rfc3339(operation.since),
        "until": time::format_rfc3339(operation.until),
        "rate_per_second": operation.rate.per_second(),
        "examined_count": operation.examined_count,
        "done_count": operation.done_count,
        "actor": operation.actor,
        "created_at": time::format_rfc3339(operation.created_at),
        "updated_at": time::format_rfc3339(operation.updated_at),
    })
}

async fn stop(args: &OperationStopArgs, config: &Config) -> anyhow::Result<()> {
    let id = OperationId::parse(&args.operation).ok_or_else(|| {
        BadUsage(format!("{:?} is not the id of an operation; it begins with qtask_", args.operation))
    })?;
    let opened = open::open_existing_store(config).await?;
    let operation = opened.store().operations().stop(id).await?;
    if args.json {
        return terminal::print(&format!("{:#}", to_json(&operation)));
    }
    terminal::print(&format!(
        "{id} is {}; it has sent {} of the {} that it examined",
        operation.state.as_str(),
        operation.done_count,
        operation.examined_count
    ))
}
