//! `posthaste destinations secret`: the secrets that sign the events of one URL.

use std::process::ExitCode;

use anyhow::Context as _;
use posthaste::OsRandom;
use posthaste::domain::DestinationUrl;
use posthaste::domain::seal::{MasterKeys, NONCE_BYTES, SealedId};
use posthaste::domain::signature::{Ed25519Key, EndpointSecret};
use posthaste::store::{DestinationKey, KeyGrace, NewKey, RotateKey};
use posthaste_config::Config;
use serde_json::json;

use crate::cli::DestinationSecretArgs;
use crate::commands::open;
use crate::commands::secret::operator;
use crate::terminal::{self, BadUsage, time};

/// Prints the valid secrets of the URL, the newest first, after it has added one with `--rotate`.
pub(crate) async fn run(args: &DestinationSecretArgs, config: Config) -> anyhow::Result<ExitCode> {
    let url = DestinationUrl::parse(&args.url).map_err(|error| BadUsage(error.to_string()))?;
    let opened = open::open_existing_store(&config).await?;
    let store = opened.store();
    let endpoints = store.endpoints();
    let destination = endpoints.url_destination(&url).await?;
    let master_keys = config.master_keys.clone().unwrap_or_default();
    let keys = if args.rotate {
        let secret = generate(args.ed25519, &OsRandom::new()?);
        let key = seal(&secret, &master_keys, &OsRandom::new()?);
        let grace = args.grace.unwrap_or(KeyGrace::DEFAULT);
        let request = RotateKey { key, grace, actor: &operator() };
        endpoints.rotate_key(destination, &request, None).await?
    } else {
        endpoints.keys(destination).await?
    };
    report(&keys, &master_keys, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn generate(ed25519: bool, random: &OsRandom) -> EndpointSecret {
    if !ed25519 {
        return EndpointSecret::Hmac(random.secret());
    }
    let mut seed = [0; 32];
    random.fill(&mut seed);
    EndpointSecret::Ed25519(Ed25519Key::from_seed(seed))
}

fn seal(secret: &EndpointSecret, master_keys: &MasterKeys, random: &OsRandom) -> NewKey {
    let (mut id, mut nonce) = ([0; 16], [0; NONCE_BYTES]);
    random.fill(&mut id);
    random.fill(&mut nonce);
    let sealed = master_keys.seal(SealedId::random(id), secret.reveal().as_bytes(), nonce);
    NewKey { kind: secret.kind(), sealed }
}

fn report(keys: &[DestinationKey], master_keys: &MasterKeys, as_json: bool) -> anyhow::Result<()> {
    let opened = keys.iter().map(|key| open_key(key, master_keys)).collect::<anyhow::Result<Vec<_>>>()?;
    if as_json {
        let secrets: Vec<_> = keys
            .iter()
            .zip(&opened)
            .map(|(key, secret)| {
                json!({
                    "secret": secret.receiver_key().as_str(),
                    "created_at": time::format_rfc3339(key.created_at),
                    "created_by": key.created_by,
                    "retires_at": key.retires_at.map(time::format_rfc3339),
                })
            })
            .collect();
        return terminal::print(&format!("{:#}", json!({ "secrets": secrets })));
    }
    if keys.is_empty() {
        terminal::note(
            "posthaste: this URL has no secret of its own: those of the instance sign its events. --rotate gives it one",
        );
    }
    for (key, secret) in keys.iter().zip(&opened) {
        if let Some(at) = key.retires_at {
            terminal::note(&format!("posthaste: the next secret retires at {}", time::format_utc(at)));
        }
        terminal::print(&secret.receiver_key())?;
    }
    Ok(())
}

fn open_key(key: &DestinationKey, master_keys: &MasterKeys) -> anyhow::Result<EndpointSecret> {
    let text = master_keys.open(&key.sealed).context("add the key that sealed this secret to master_keys")?;
    let text = std::str::from_utf8(&text).context("the stored secret is not text")?;
    EndpointSecret::parse(text).context("the stored secret is damaged")
}
