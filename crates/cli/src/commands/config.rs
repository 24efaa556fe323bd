//! `posthaste config`: prints every setting with its value and its source.

use std::process::ExitCode;

use posthaste_config::EffectiveSetting;

use crate::cli::ConfigArgs;
use crate::commands::ConfigSources;
use crate::terminal::{self, Color, Column, OutputStyle, RenderedTable, Table};

const COLUMNS: &[Column] =
    &[Column::new("setting", 0), Column::new("value", 0).text(24, 60), Column::new("from", 1)];

pub(crate) fn run(
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
    Ok(ExitCode::SUCCESS)
}
