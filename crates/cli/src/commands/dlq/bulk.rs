//! Bulk operations from the command line: count, confirm, start, follow the progress; list, show and stop.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use posthaste_domain::Timestamp;
use serde_json::{Value, json};

use crate::cli::{BulkArgs, BulkCommand, BulkIdArgs, FilterArgs};
use crate::client::{ApiClient, ApiResponse, BulkCount, BulkOperation, BulkPage, ClientError};
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, escape_line, pluralize, time};
use crate::timers::sleep;

/// Time between two looks at the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

const COLUMNS: &[Column] = &[
    Column::new("ID", 0),
    Column::new("ACTION", 0),
    Column::new("STATE", 0),
    Column::new("DONE", 1).align_right(),
    Column::new("SELECTED", 1).align_right(),
    Column::new("FILTER", 2).text(14, 48),
    Column::extra("RATE", 0).align_right(),
    Column::extra("STARTED", 1),
    Column::extra("BY", 2).text(10, 24),
];

/// What a bulk operation does, in words.
pub(super) struct BulkVerb {
    /// The name of the action in the API.
    pub(super) action: &'static str,
    /// The action at the start of a question.
    pub(super) question: &'static str,
    /// What an event is after the action.
    pub(super) done: &'static str,
}

pub(super) const REQUEUE: BulkVerb = BulkVerb { action: "requeue", question: "Requeue", done: "requeued" };
pub(super) const CANCEL: BulkVerb = BulkVerb { action: "cancel", question: "Cancel", done: "cancelled" };
pub(super) const DISCARD: BulkVerb = BulkVerb { action: "discard", question: "Discard", done: "discarded" };

/// Counts the selected dead letters, asks, starts the operation, and waits until it has ended.
pub(super) async fn start(
    verb: &BulkVerb,
    reason: Option<&str>,
    args: &BulkArgs,
    client: &ApiClient,
) -> anyhow::Result<ExitCode> {
    let mut body = json!({ "action": verb.action, "filter": args.filter.to_json(), "dry_run": true });
    let counted = client.post(&["bulk"], Some(body.to_string().into_bytes())).await;
    let count: BulkCount = counted.map_err(ClientError::blame_arguments)?.parse()?;
    if count.matched_count == 0 {
        terminal::note(&describe_none(&args.filter));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !confirm(verb, &count)? {
        terminal::note(&format!("Nothing was {}.", verb.done));
        return Ok(ExitCode::FAILURE);
    }
    body["dry_run"] = json!(false);
    body["rate_per_second"] = json!(args.rate);
    body["reason"] = json!(reason);
    remove_nulls(&mut body);
    let started = client.act(&["bulk"], Some(body.to_string().into_bytes())).await;
    let response = started.map_err(ClientError::blame_arguments)?;
    let operation: BulkOperation = response.parse()?;
    if args.no_wait {
        return finish(verb, &response, &operation, args.json);
    }
    terminal::note(&format!(
        "{} runs in the workers, also without this command; `posthaste dlq bulk stop {0}` stops it.",
        escape_line(&operation.operation_id)
    ));
    let (response, operation) = follow(verb, operation, client).await?;
    finish(verb, &response, &operation, args.json)
}

fn remove_nulls(body: &mut Value) {
    if let Value::Object(fields) = body {
        fields.retain(|_, value| !value.is_null());
    }
}

fn describe_none(filter: &FilterArgs) -> String {
    let cancelled = if filter.omits_cancelled() { "; --kind cancelled selects cancelled events" } else { "" };
    format!("No dead letter is selected{cancelled}.")
}

/// Asks the user for confirmation and returns whether the user agreed. Without a terminal on standard input, returns an
/// error that advises `--yes`.
fn confirm(verb: &BulkVerb, count: &BulkCount) -> anyhow::Result<bool> {
    let more = if count.is_exact { "" } else { "more than " };
    let events = pluralize(count.matched_count, "event");
    if !io::stdin().is_terminal() {
        return Err(
            BadUsage(format!("add --yes to {} {more}{events} without confirmation", verb.action)).into()
        );
    }
    terminal::note(&format!("{} {more}{events}? [y/N]", verb.question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Shows the progress on a terminal until the operation has ended.
async fn follow(
    verb: &BulkVerb,
    operation: BulkOperation,
    client: &ApiClient,
) -> anyhow::Result<(ApiResponse, BulkOperation)> {
    let template = format!("{{bar:30}} {{pos}} of {{len}} {}, {{eta}} to go", verb.done);
    let style = ProgressStyle::with_template(&template);
    let bar = ProgressBar::new(operation.matched_count)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let id = operation.operation_id;
    loop {
        let response = client.get(&["bulk", &id], &[]).await.with_context(|| {
            format!("the operation goes on in the workers; `posthaste dlq bulk show {id}` shows its progress")
        })?;
        let operation: BulkOperation = response.parse()?;
        bar.set_position(operation.done_count);
        if operation.state != "running" {
            bar.finish_and_clear();
            return Ok((response, operation));
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn finish(
    verb: &BulkVerb,
    response: &ApiResponse,
    operation: &BulkOperation,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print_response(response.as_bytes())?;
    } else {
        let (id, done) = (escape_line(&operation.operation_id), operation.done_count);
        terminal::print(&match operation.state.as_str() {
            "finished" => format!("{done} {}", verb.done),
            "stopped" => format!(
                "{done} {}; {} stopped {id}",
                verb.done,
                escape_line(operation.stopped_by.as_deref().unwrap_or("an operator"))
            ),
            _ => format!("{id} is running; `posthaste dlq bulk show {id}` shows its progress"),
        })?;
    }
    Ok(if operation.state == "stopped" { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) async fn run(
    command: &BulkCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    match command {
        BulkCommand::List(args) => {
            let list: ListCommand<'_, BulkPage> = ListCommand {
                path: &["bulk"],
                filters: args.running.then_some(("state", "running")).into_iter().collect(),
                table,
                empty: "There are no such operations.",
                items: "operations",
            };
            list.show(&args.list, client, style).await?;
        }
        BulkCommand::Show(args) => {
            let response = client.get(&["bulk", &args.operation], &[]).await;
            show(args, response, style)?;
        }
        BulkCommand::Stop(args) => {
            let response = client.act(&["bulk", &args.operation, "stop"], None).await;
            show(args, response, style)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(
    args: &BulkIdArgs,
    response: Result<ApiResponse, ClientError>,
    style: OutputStyle,
) -> anyhow::Result<()> {
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    let operation: BulkOperation = response.parse()?;
    terminal::print(&table(&[operation], time::now()).render(style.widened(true)).text)
}

fn table(operations: &[BulkOperation], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for operation in operations {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        let more = if operation.is_exact { "" } else { ">" };
        table.push(vec![
            plain(&operation.operation_id),
            plain(&operation.action),
            plain(&operation.state),
            plain(&operation.done_count.to_string()),
            plain(&format!("{more}{}", operation.matched_count)),
            plain(&describe_filter(&operation.filter)),
            plain(&format!("{}/s", operation.rate_per_second)),
            plain(&time::format_age(operation.created_at.as_deref(), now)),
            plain(&operation.actor),
        ]);
    }
    table
}

/// Returns the conditions of a filter as `name=value`, without the end, which every operation has.
fn describe_filter(filter: &Value) -> String {
    let fields = filter.as_object().into_iter().flatten().filter(|(name, _)| *name != "until");
    let given = fields.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    let given: Vec<String> = given.collect();
    if given.is_empty() { "all".to_owned() } else { given.join(" ") }
}
