//! `posthaste secret`: prints the signing secrets, with which receivers check signatures.

use std::process::ExitCode;

use posthaste::OsRandom;
use posthaste::domain::signature::Secret;
use posthaste_config::Config;

use crate::commands::open;
use crate::terminal;

/// Prints the secrets to standard output, one per line, the newest first, and their source to standard error: the process
/// that delivers may have another configuration, and so other secrets.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    if let Some(keys) = &config.signing_secret {
        terminal::note("posthaste: from signing_secret in this configuration");
        return print(keys.secrets().iter().map(Secret::reveal));
    }
    // Create and migrate nothing: this command may run with another configuration than the instance.
    let opened = open::open_existing_store(&config).await?;
    let secrets = opened.store().signing_secrets(&OsRandom::new()?.secret()).await?;
    terminal::note(&format!("posthaste: from {}", open::masked_url(&config)));
    print(secrets.iter().map(Secret::reveal))
}

fn print<S: AsRef<str>>(secrets: impl Iterator<Item = S>) -> anyhow::Result<ExitCode> {
    for secret in secrets {
        terminal::print(secret.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}
