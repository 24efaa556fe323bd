//! `posthaste config`: prints every setting with its value and its source.

use std::process::ExitCode;

use posthaste_config::{Config, EffectiveSetting};

use crate::cli::{ConfigArgs, key_variable};
use crate::commands::ConfigSources;
use crate::commands::doctor::{self, Probed};
use crate::terminal::{self, Color, Column, OutputStyle, RenderedTable, Table};

const COLUMNS: &[Column] =
    &[Column::new("setting", 0), Column::new("value", 0).text(24, 60), Column::new("from", 1)];

pub(crate) async fn run(
    args: &ConfigArgs,
    sources: &ConfigSources,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let config = sources.parse()?;
    if args.json {
        terminal::print(&format!("{:#}", config.to_json()))?;
    } else {
        let mut table = Table::new(COLUMNS);
        for [name, value, source] in config.settings.iter().map(EffectiveSetting::row) {
            table.push(vec![(name, Color::Bold), (value, Color::Plain), (source, Color::Dim)]);
        }
        let RenderedTable { text, omissions } = table.render(style);
        terminal::print(&text)?;
        terminal::note_omissions(&omissions, "--json");
    }
    for warning in &config.warnings {
        terminal::note(&format!("posthaste: warning: {warning}"));
    }
    note_running_server(&config).await;
    Ok(ExitCode::SUCCESS)
}

/// Says that this is the configuration of this shell if a server answers at the configured address, and which server.
async fn note_running_server(config: &Config) {
    let server = match doctor::probe(config, key_variable().as_deref()).await {
        Probed::Server(diagnosis) => diagnosis.describe(),
        Probed::Refused { url, .. } => url,
        Probed::None => return,
    };
    terminal::note(&format!(
        "posthaste: this is the configuration of this shell; the server at {server} may have another: `posthaste doctor` \
         prints its own checks"
    ));
}
