//! `posthaste migrate`: the schema, created or brought up to date.

use std::process::ExitCode;

use anyhow::Context as _;
use posthaste::MigrationReport;
use posthaste_config::Config;

use crate::commands::{opening, working};
use crate::terminal;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let database = opening::database(&config)?;
    let migrating = working::show("bringing the schema up to date", database.migrate());
    let migrated = migrating.await.with_context(|| format!("cannot migrate {}", opening::place(&config)));
    let MigrationReport { from, to } = migrated?;
    let done = match from {
        0 => format!("created the schema, version {to}"),
        _ if from == to => format!("nothing to do: the schema is at version {to}"),
        _ => format!("upgraded the schema from version {from} to version {to}"),
    };
    terminal::print(&format!("{done} ({})", opening::place(&config)))?;
    Ok(ExitCode::SUCCESS)
}
