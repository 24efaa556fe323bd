//! `posthaste config`: what holds, and where it comes from.

use std::process::ExitCode;

use posthaste_config::Effective;

use crate::cli::ConfigArgs;
use crate::commands::Given;
use crate::terminal::{self, Column, Laid, Listing, Look, Paint};

const COLUMNS: &[Column] =
    &[Column::new("setting", 0), Column::new("value", 0).shrinking_to(24), Column::new("from", 1)];

pub(crate) fn run(args: &ConfigArgs, given: &Given, look: Look) -> anyhow::Result<ExitCode> {
    let config = given.judge()?;
    if args.json {
        terminal::print(&format!("{:#}", config.to_json()))?;
    } else {
        let mut listing = Listing::of(COLUMNS);
        for [name, value, source] in config.settings.iter().map(Effective::row) {
            listing.push(vec![(name, Paint::Bold), (value, Paint::Plain), (source, Paint::Dim)]);
        }
        let Laid { text, left_out } = listing.lay_out(look);
        terminal::print(&text)?;
        terminal::note_left_out(&left_out);
    }
    for warning in &config.warnings {
        terminal::note(&format!("posthaste: warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}
