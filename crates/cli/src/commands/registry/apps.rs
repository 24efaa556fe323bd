//! `posthaste apps`: the applications of the server.

use std::process::ExitCode;

use posthaste_domain::Timestamp;

use super::fields::{Fields, at, card, metadata, throttle};
use super::{confirm_deletion, print_result};
use crate::cli::{AppAddArgs, AppDeleteArgs, AppUpdateArgs, AppsCommand};
use crate::client::{ApiClient, ApplicationItem, RegistryClient, RegistryPage};
use crate::commands::pages::ListCommand;
use crate::terminal::{self, BadUsage, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("ID", 0),
    Column::new("UID", 1).text(10, 24),
    Column::new("NAME", 2).text(10, 28),
    Column::extra("THROTTLE", 0).align_right(),
    Column::extra("CREATED", 1),
];

pub(crate) async fn run(
    command: &AppsCommand,
    client: &ApiClient,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let registry = RegistryClient(client);
    match command {
        AppsCommand::List(args) => {
            let list: ListCommand<'_, RegistryPage<ApplicationItem>> = ListCommand {
                path: &["app"],
                filters: Vec::new(),
                table,
                empty: "There are no applications yet.",
                items: "applications",
            };
            list.show(&args.list, client, style).await?;
        }
        AppsCommand::Add(args) => add(args, &registry).await?,
        AppsCommand::Show(args) => {
            let response = registry.get(&["app", &args.app], &[]).await?;
            if args.item.json {
                terminal::print_response(response.as_bytes())?;
            } else {
                terminal::print(&render(&response.parse()?, time::now(), style))?;
            }
        }
        AppsCommand::Update(args) => update(args, &registry).await?,
        AppsCommand::Delete(args) => delete(args, &registry).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(apps: &[ApplicationItem], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for app in apps {
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain(&app.id),
            plain(app.uid.as_deref().unwrap_or_default()),
            plain(&app.name),
            plain(&throttle(app.throttle_rate).unwrap_or_default()),
            plain(&time::format_age(app.created_at.as_deref(), now)),
        ]);
    }
    table
}

fn render(app: &ApplicationItem, now: Timestamp, style: OutputStyle) -> String {
    let fields = vec![
        ("id", Some(app.id.clone())),
        ("uid", app.uid.clone()),
        ("name", Some(app.name.clone())),
        ("throttle", throttle(app.throttle_rate)),
        ("metadata", metadata(&app.metadata)),
        ("created", at(app.created_at.as_ref(), now)),
        ("updated", at(app.updated_at.as_ref(), now)),
    ];
    card(fields, style)
}

async fn add(args: &AppAddArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let body = Fields::default()
        .set("name", Some(args.name.as_str()))
        .set("uid", args.uid.as_deref())
        .set("throttleRate", args.throttle)
        .metadata(&args.metadata);
    let response = registry.post(&["app"], &body.into_body()).await?;
    print_result(&response, args.item.json, || Ok(response.parse::<ApplicationItem>()?.id))
}

async fn update(args: &AppUpdateArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let body = Fields::default()
        .set("name", args.name.as_deref())
        .set("uid", args.uid.as_deref())
        .set("throttleRate", args.throttle)
        .clear("throttleRate", args.no_throttle)
        .metadata(&args.metadata);
    if body.is_empty() {
        return Err(BadUsage("name a field to change, as in --name 'Customer 17'".to_owned()).into());
    }
    let response = registry.patch(&["app", &args.app.app], &body.into_body()).await?;
    print_result(&response, args.app.item.json, || {
        Ok(format!("{} is changed", response.parse::<ApplicationItem>()?.id))
    })
}

async fn delete(args: &AppDeleteArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let app = &args.app.app;
    if !confirm_deletion(&format!("the application {app} with its endpoints"), args.yes)? {
        return Ok(());
    }
    let response = registry.delete(&["app", app]).await?;
    print_result(&response, args.app.item.json, || Ok(format!("{app} is deleted")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_shows_only_fields_that_have_a_value() {
        let app = ApplicationItem {
            id: "app_0000000000000011".into(),
            name: "Customer 17".into(),
            throttle_rate: Some(50),
            metadata: [("plan".to_owned(), "pro".to_owned())].into(),
            ..ApplicationItem::default()
        };
        let now = time::parse("2026-01-31T16:31:02Z").unwrap();
        let expected = "\
id        app_0000000000000011
name      Customer 17
throttle  50/s
metadata  plan=pro
";
        assert_eq!(render(&app, now, OutputStyle::PLAIN), expected);
    }
}
