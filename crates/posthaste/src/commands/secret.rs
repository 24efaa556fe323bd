//! `posthaste secret`: what receivers check signatures with.

use std::process::ExitCode;

use anyhow::Context as _;
use posthaste::config::Config;
use posthaste::domain::signature::Secret;
use posthaste::service::chance::OsChance;

use crate::commands::running;
use crate::terminal;

/// One per line, the newest first. Where they come from is told beside them: signed is with those of the process that
/// delivers, whose configuration may be another.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let place = running::place(&config);
    if !config.signing_secrets.is_empty() {
        terminal::note("posthaste: from signing_secret, as configured here");
        return print(config.signing_secrets.iter().map(Secret::reveal));
    }
    // Nothing of the instance is changed: this may run under another configuration than its processes.
    let opened =
        running::database(&config)?.attach().await.with_context(|| format!("cannot read {place}"))?;
    let secrets = opened.store().signing_secrets(&OsChance::new()?.secret()).await?;
    terminal::note(&format!("posthaste: kept in {place}"));
    print(secrets.iter().map(Secret::reveal))
}

fn print<S: AsRef<str>>(secrets: impl Iterator<Item = S>) -> anyhow::Result<ExitCode> {
    for secret in secrets {
        terminal::print(secret.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}
