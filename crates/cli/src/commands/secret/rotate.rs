//! `posthaste secret rotate`: adds a new signing secret, beside which the one before it stays valid for a grace period.
//!
//! The command prints the new secret only after the time within which all running workers have learned it. A receiver
//! that switches to it as soon as it is printed therefore refuses no delivery.

use std::process::ExitCode;

use anyhow::anyhow;
use posthaste::engine::SECRETS_LEARNED_WITHIN;
use posthaste::store::RotateRequest;
use posthaste::{GracePeriod, OsRandom, StoreError, StoredSecret};
use posthaste_config::Config;
use serde_json::json;

use super::shorten;
use crate::cli::SecretRotateArgs;
use crate::commands::open;
use crate::commands::spinner::with_spinner;
use crate::terminal::{self, BadUsage, time};
use crate::timers;

pub(super) async fn run(args: &SecretRotateArgs, config: &Config) -> anyhow::Result<ExitCode> {
    if config.signing_secret.is_some() {
        return Err(BadUsage(configured_advice(config)).into());
    }
    // Create and migrate nothing: this command may run with another configuration than the instance.
    let opened = open::open_existing_store(config).await?;
    let grace = args.grace.unwrap_or(GracePeriod::DEFAULT);
    let (secret, actor) = (OsRandom::new()?.secret(), operator());
    let request = RotateRequest { secret: &secret, grace, actor: &actor };
    let rotated = opened.store().rotate_secret(request).await;
    opened.close().await;
    let valid = rotated.map_err(explain)?;
    let waiting = format!(
        "waiting {} s, until every worker signs with the new secret as well",
        SECRETS_LEARNED_WITHIN.as_secs()
    );
    with_spinner(&waiting, timers::sleep(SECRETS_LEARNED_WITHIN)).await;
    report(&valid, args.json, &open::database_name(config))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the new secret to standard output, and what to do with it to standard error.
fn report(valid: &[StoredSecret], json: bool, source: &str) -> anyhow::Result<()> {
    let [newest, older @ ..] = valid else { return Err(anyhow!("the store returned no secret")) };
    let replaced = older.first();
    let secret = newest.secret.reveal();
    if json {
        let document = json!({
            "secret": secret.as_str(),
            "created_at": time::format_rfc3339(newest.created_at),
            "created_by": newest.created_by,
            "source": source,
            "retiring": older.iter().map(|stored| json!({
                "secret": shorten(&stored.secret),
                "retires_at": stored.retires_at.map(time::format_rfc3339),
            })).collect::<Vec<_>>(),
        });
        return terminal::print(&format!("{document:#}"));
    }
    let advice = match replaced.and_then(|stored| Some((stored, stored.retires_at?))) {
        Some((stored, retires_at)) => format!(
            "every worker signs with this secret beside the older ones; {} retires at {}: give the new secret to every \
             receiver before",
            shorten(&stored.secret),
            time::format_utc(retires_at)
        ),
        None => "this is the first secret; there is none that retires".to_owned(),
    };
    terminal::note(&format!("posthaste: {source}: {advice}"));
    terminal::print(&secret)
}

/// Returns what to do if the configuration sets the secrets: this command changes only those of the database.
fn configured_advice(config: &Config) -> String {
    let source = config.setting("signing_secret").map_or_else(String::new, |found| found.source.to_string());
    format!(
        "signing_secret is set ({source}), so the secrets of the database sign nothing. To rotate, set signing_secret to \
         NEW,OLD on every process and restart each, give the new secret to every receiver, then remove the old one. \
         `printf 'whsec_%s\\n' \"$(openssl rand -base64 32)\"` generates a secret"
    )
}

/// Adds the time at which another rotation is possible.
fn explain(error: StoreError) -> anyhow::Error {
    match &error {
        StoreError::TooManySecrets { next_retires_at: Some(at) } => {
            anyhow!("{error}: the next one retires at {}", time::format_utc(*at))
        }
        _ => error.into(),
    }
}

/// Returns the user and the host that run this command, for the log of the workers and for `secret list`.
pub(in crate::commands) fn operator() -> String {
    let host = gethostname::gethostname();
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    let name = format!("{user}@{}", host.to_string_lossy());
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}
