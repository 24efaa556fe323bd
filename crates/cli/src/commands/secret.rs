//! `posthaste secret`: what receivers check signatures with.

use std::process::ExitCode;

use posthaste::OsRandom;
use posthaste::domain::signature::Secret;
use posthaste_config::Config;

use crate::commands::opening;
use crate::terminal;

/// One per line, the newest first. Where they come from is told beside them: signed is with those of the process that
/// delivers, whose configuration may be another.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let place = opening::place(&config);
    if !config.signing_secrets.is_empty() {
        terminal::note("posthaste: from signing_secret, as configured here");
        return print(config.signing_secrets.iter().map(Secret::reveal));
    }
    // Nothing of the instance is changed: this may run under another configuration than its processes.
    let opened = opening::attach(&config).await?;
    let secrets = opened.store().signing_secrets(&OsRandom::new()?.secret()).await?;
    terminal::note(&format!("posthaste: kept in {place}"));
    print(secrets.iter().map(Secret::reveal))
}

fn print<S: AsRef<str>>(secrets: impl Iterator<Item = S>) -> anyhow::Result<ExitCode> {
    for secret in secrets {
        terminal::print(secret.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}
