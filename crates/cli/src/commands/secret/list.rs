//! `posthaste secret list`: the valid secrets, shortened, and how long each is valid.

use std::process::ExitCode;

use posthaste::StoredSecret;
use posthaste::domain::Timestamp;
use posthaste::domain::signature::Secret;
use posthaste_config::Config;
use serde_json::{Value, json};

use super::shorten;
use crate::cli::SecretListArgs;
use crate::commands::open;
use crate::terminal::{self, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("secret", 0),
    Column::new("state", 0),
    Column::new("created", 1),
    Column::new("by", 2),
    Column::new("retires", 0),
];

/// A secret as it is listed.
struct ListedSecret {
    secret: String,
    state: &'static str,
    created_at: Option<Timestamp>,
    created_by: Option<String>,
    retires_at: Option<Timestamp>,
}

pub(super) async fn run(
    args: &SecretListArgs,
    config: &Config,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let (source, secrets) = match &config.signing_secret {
        Some(keys) => {
            let listed = keys.secrets().iter().map(ListedSecret::configured).collect();
            ("signing_secret in this configuration".to_owned(), listed)
        }
        None => (open::database_name(config), stored(config).await?),
    };
    if args.json {
        let secrets: Vec<Value> = secrets.iter().map(ListedSecret::to_json).collect();
        terminal::print(&format!("{:#}", json!({ "source": source, "secrets": secrets })))?;
    } else {
        terminal::note(&format!("posthaste: from {source}"));
        terminal::print(&render(&secrets, style))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn stored(config: &Config) -> anyhow::Result<Vec<ListedSecret>> {
    let opened = open::open_existing_store(config).await?;
    Ok(opened.store().signing_secrets().await?.into_iter().map(ListedSecret::stored).collect())
}

fn render(secrets: &[ListedSecret], style: OutputStyle) -> String {
    let now = time::now();
    let format = |at: Option<Timestamp>| at.map_or_else(String::new, |at| time::format_relative(at, now));
    let mut table = Table::new(COLUMNS);
    for listed in secrets {
        table.push(vec![
            (listed.secret.clone(), Color::Bold),
            (listed.state.to_owned(), Color::Plain),
            (format(listed.created_at), Color::Plain),
            (terminal::escape_line(listed.created_by.as_deref().unwrap_or_default()), Color::Plain),
            (format(listed.retires_at), Color::Plain),
        ]);
    }
    table.render(style).text
}

impl ListedSecret {
    /// A secret of the configuration, which is valid as long as it is configured.
    fn configured(secret: &Secret) -> Self {
        let (created_at, created_by, retires_at) = (None, None, None);
        Self { secret: shorten(secret), state: "configured", created_at, created_by, retires_at }
    }

    fn stored(stored: StoredSecret) -> Self {
        let StoredSecret { secret, created_at, created_by, retires_at } = stored;
        let state = if retires_at.is_some() { "retiring" } else { "current" };
        Self { secret: shorten(&secret), state, created_at: Some(created_at), created_by, retires_at }
    }

    fn to_json(&self) -> Value {
        json!({
            "secret": self.secret,
            "state": self.state,
            "created_at": self.created_at.map(time::format_rfc3339),
            "created_by": self.created_by,
            "retires_at": self.retires_at.map(time::format_rfc3339),
        })
    }
}
