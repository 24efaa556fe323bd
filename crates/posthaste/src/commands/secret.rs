//! `posthaste secret`: what receivers check signatures with.

use std::process::ExitCode;

use anyhow::bail;
use posthaste::config::Config;
use posthaste::domain::signature::Secret;

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
    if running::database(&config)?.examine().await?.is_none() {
        bail!(
            "there is no database at {place} yet, and so no secret; start `posthaste serve`, or name its --database-url"
        );
    }
    let posthaste = running::open(running::options(&config)?, &config).await?;
    terminal::note(&format!("posthaste: kept in {place}"));
    print(posthaste.signing_keys().secrets().iter().map(Secret::reveal))
}

fn print<S: AsRef<str>>(secrets: impl Iterator<Item = S>) -> anyhow::Result<ExitCode> {
    for secret in secrets {
        terminal::print(secret.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}
