//! `posthaste secret`: prints, lists and rotates the signing secrets, with which receivers check signatures.

mod list;
mod rotate;

use std::process::ExitCode;

use posthaste::OsRandom;
use posthaste::domain::signature::Secret;
use posthaste_config::Config;

use crate::cli::{SecretArgs, SecretCommand};
use crate::commands::open;
use crate::terminal::{self, OutputStyle};

pub(in crate::commands) use rotate::operator;

pub(crate) async fn run(args: &SecretArgs, config: Config, style: OutputStyle) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => print_secrets(&config).await,
        Some(SecretCommand::List(args)) => list::run(args, &config, style).await,
        Some(SecretCommand::Rotate(args)) => rotate::run(args, &config).await,
    }
}

/// Prints the secrets to standard output, one per line, the newest first, and their source to standard error: the process
/// that delivers may have another configuration, and so other secrets.
async fn print_secrets(config: &Config) -> anyhow::Result<ExitCode> {
    if let Some(keys) = &config.signing_secret {
        terminal::note("posthaste: from signing_secret in this configuration");
        return print(keys.secrets().iter().map(Secret::reveal));
    }
    // Create and migrate nothing: this command may run with another configuration than the instance.
    let opened = open::open_existing_store(config).await?;
    let store = opened.store();
    store.add_first_secret(&OsRandom::new()?.secret()).await?;
    let secrets = store.signing_secrets().await?;
    terminal::note(&format!("posthaste: from {}", open::database_name(config)));
    print(secrets.iter().map(|stored| stored.secret.reveal()))
}

fn print<S: AsRef<str>>(secrets: impl Iterator<Item = S>) -> anyhow::Result<ExitCode> {
    for secret in secrets {
        terminal::print(secret.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the start of a secret, `whsec_MfKQ…`: enough to recognise it, and too little to sign with.
fn shorten(secret: &Secret) -> String {
    let shown: String = secret.reveal().chars().take("whsec_".len() + 4).collect();
    format!("{shown}…")
}
