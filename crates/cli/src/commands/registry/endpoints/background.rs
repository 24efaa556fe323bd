//! Starts background operations of an endpoint and shows their progress.

use super::super::fields::{Fields, at, card};
use super::super::print_result;
use crate::cli::{OperationArgs, PeriodArgs};
use crate::client::{OperationItem, RegistryClient};
use crate::terminal::{self, OutputStyle, time};

pub(super) async fn start(
    operation: &str,
    args: &PeriodArgs,
    registry: &RegistryClient<'_>,
) -> anyhow::Result<()> {
    let body = Fields::default()
        .set("since", Some(args.since.as_str()))
        .set("until", args.until.as_deref())
        .into_body();
    let response = registry.post(&args.endpoint.path(&[operation]), &body).await?;
    let id = terminal::escape_line(&response.parse::<OperationItem>()?.id);
    print_result(&response, args.endpoint.item.json, || Ok(id.clone()))?;
    terminal::note(&format!("`posthaste endpoints operation {id}` shows its progress."));
    Ok(())
}

pub(super) async fn show(
    args: &OperationArgs,
    registry: &RegistryClient<'_>,
    style: OutputStyle,
) -> anyhow::Result<()> {
    let response = registry.get(&["background-task", &args.operation], &[]).await?;
    if args.item.json {
        return terminal::print_response(response.as_bytes());
    }
    let OperationItem { id, status, task, data } = response.parse()?;
    let now = time::now();
    let fields = vec![
        ("id", Some(id)),
        ("task", Some(task)),
        ("state", Some(if data.state.is_empty() { status } else { data.state })),
        ("endpoint", Some(data.endpoint_id)),
        ("since", at(data.since.as_ref(), now)),
        ("until", at(data.until.as_ref(), now)),
        ("examined", Some(data.examined.to_string())),
        ("sent again", Some(data.sent.to_string())),
        ("rate", Some(format!("{}/s at most", data.rate_per_second))),
    ];
    terminal::print(&card(fields, style))
}
