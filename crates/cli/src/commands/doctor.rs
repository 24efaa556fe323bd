//! `posthaste doctor`: checks everything that a start needs and reports what to fix. Changes nothing.

mod checks;
mod disk;
mod finding;
mod store;

use std::process::ExitCode;

use serde_json::json;

use crate::cli::DoctorArgs;
use crate::commands::ConfigSources;
use crate::commands::spinner::with_spinner;
use crate::terminal::{self, Color, Column, OutputStyle, Table};

use finding::{Finding, Verdict};

const COLUMNS: &[Column] = &[Column::new("", 0), Column::new("check", 0), Column::new("finding", 0)];

pub(crate) async fn run(
    args: &DoctorArgs,
    sources: &ConfigSources,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    // Parsed without files: the check that needs a file reports what is wrong with it, beside all other findings.
    let parsed = sources.try_parse();
    let is_valid = parsed.is_ok();
    let findings = match parsed {
        Ok(config) => with_spinner("checking", checks::run_all(&config)).await,
        Err(errors) => errors
            .iter()
            .map(|error| Finding::new("configuration", Verdict::Broken, error.to_string()))
            .collect(),
    };
    if args.json {
        let findings: Vec<_> = findings.iter().map(Finding::to_json).collect();
        terminal::print(&format!("{:#}", json!({ "findings": findings })))?;
    } else {
        terminal::print(&render(&findings, style))?;
    }
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    Ok(match (is_valid, broken) {
        (false, _) => ExitCode::from(terminal::EXIT_USAGE),
        (true, true) => ExitCode::FAILURE,
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Renders the findings, one per row, without a limit of width: the terminal wraps long rows, so that none is truncated.
fn render(findings: &[Finding], style: OutputStyle) -> String {
    let unlimited = style.widened(true);
    let mut table = Table::new(COLUMNS);
    for finding in findings {
        let color = finding.verdict.color();
        table.push(vec![
            (finding.verdict.as_str().to_owned(), color),
            (finding.check.to_owned(), Color::Bold),
            (finding.text.clone(), Color::Plain),
        ]);
    }
    table.render(unlimited).text
}
