//! `posthaste migrate`: creates or upgrades the schema.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use posthaste::MigrationReport;
use posthaste_config::Config;

use crate::commands::open;
use crate::commands::spinner::with_spinner;
use crate::terminal;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let url = open::database_name(&config);
    let database = open::database(&config)?;
    let report = with_spinner("migrating the schema", database.migrate()).await;
    let MigrationReport { from, to, problems } = report.with_context(|| format!("cannot migrate {url}"))?;
    if !problems.is_empty() {
        bail!(
            "the schema has version {to}, but it is not what it should be ({url}):\n  {}\nrestore what is missing, or \
             restore a backup; `posthaste doctor` tries every write",
            problems.join("\n  ")
        );
    }
    let result = match from {
        0 => format!("created the schema, version {to}"),
        _ if from == to => format!("nothing to do: the schema is at version {to}"),
        _ => format!("upgraded the schema from version {from} to version {to}"),
    };
    terminal::print(&format!("{result} ({url})"))?;
    Ok(ExitCode::SUCCESS)
}
