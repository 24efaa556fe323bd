//! `posthaste secrets reseal`: seals the secrets of endpoints again, under the first of the master keys.

use std::process::ExitCode;

use anyhow::Context as _;
use posthaste::OsRandom;
use posthaste::domain::seal::{MasterKeys, NONCE_BYTES, SealedId, SealedValue};
use posthaste::store::{Endpoints, Reseal};
use posthaste_config::Config;
use serde_json::json;

use crate::cli::ResealArgs;
use crate::commands::open;
use crate::terminal::{self, BadUsage, pluralize};

/// Values read and replaced in one step.
const BATCH: usize = 200;

pub(crate) async fn reseal(args: &ResealArgs, config: Config) -> anyhow::Result<ExitCode> {
    let Some(keys) = &config.master_keys else {
        let advice = "master_keys is not set: set it to id:base64 of 32 bytes (`openssl rand -base64 32`), on every process, \
                      and restart each before this command";
        return Err(BadUsage(advice.to_owned()).into());
    };
    let opened = open::open_existing_store(&config).await?;
    let (examined, resealed) = reseal_all(opened.store().endpoints(), keys, &OsRandom::new()?).await?;
    if args.json {
        terminal::print(&json!({ "examined": examined, "resealed": resealed }).to_string())?;
    } else {
        let source = open::database_name(&config);
        terminal::print(&format!(
            "{source}: {resealed} of {} sealed again under the first master key",
            pluralize(examined, "secret")
        ))?;
        terminal::note(
            "Remove the other master keys from every process after a day. Until then they open answers that are kept for repeated \
             requests.",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Seals every value again that the first key has not sealed. Returns how many values there are and how many were replaced. A
/// value that changes meanwhile was written by a running server, under its own first key, and is examined again by the next run.
async fn reseal_all(
    endpoints: &dyn Endpoints,
    keys: &MasterKeys,
    random: &OsRandom,
) -> anyhow::Result<(u64, u64)> {
    let (mut examined, mut resealed) = (0, 0);
    let mut after: Option<SealedId> = None;
    loop {
        let values = endpoints.sealed_values(after, BATCH).await?;
        let Some(last) = values.last() else { return Ok((examined, resealed)) };
        after = Some(last.id);
        examined += values.len() as u64;
        let old = values.into_iter().filter(|value| !keys.is_current(value));
        let changes = old.map(|old| seal_again(old, keys, random)).collect::<anyhow::Result<Vec<_>>>()?;
        resealed += endpoints.reseal(&changes).await? as u64;
    }
}

fn seal_again(old: SealedValue, keys: &MasterKeys, random: &OsRandom) -> anyhow::Result<Reseal> {
    let plaintext = keys.open(&old).with_context(|| {
        format!("the secret {} cannot be opened; add the master key that sealed it", old.id.as_uuid())
    })?;
    let mut nonce = [0; NONCE_BYTES];
    random.fill(&mut nonce);
    let new = keys.seal(old.id, &plaintext, nonce);
    Ok(Reseal { old, new })
}
