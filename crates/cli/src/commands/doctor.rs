//! `posthaste doctor`: looks at everything that a start would need, and says what to fix. Changes nothing.

mod disk;
mod examine;
mod finding;
mod store;

use std::process::ExitCode;

use serde_json::json;

use crate::cli::DoctorArgs;
use crate::commands::{Given, working};
use crate::terminal::{self, Column, Listing, Look, Paint};

use finding::{Finding, Verdict};

const COLUMNS: &[Column] = &[Column::new("", 0), Column::new("check", 0), Column::new("finding", 0)];

pub(crate) async fn run(args: &DoctorArgs, given: &Given, look: Look) -> anyhow::Result<ExitCode> {
    // What is wrong with a file is found by the check that needs it, and hides nothing else.
    let judged = given.try_judge();
    let readable = judged.is_ok();
    let findings = match judged {
        Ok(config) => working::show("looking", examine::everything(&config)).await,
        Err(errors) => errors
            .iter()
            .map(|error| Finding::new("configuration", Verdict::Broken, error.to_string()))
            .collect(),
    };
    if args.json {
        let findings: Vec<_> = findings.iter().map(Finding::to_json).collect();
        terminal::print(&format!("{:#}", json!({ "findings": findings })))?;
    } else {
        terminal::print(&table(&findings, look))?;
    }
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    Ok(match (readable, broken) {
        (false, _) => ExitCode::from(terminal::EXIT_USAGE),
        (true, true) => ExitCode::FAILURE,
        (true, false) => ExitCode::SUCCESS,
    })
}

/// What is to be done stands on a line of its own, below what was found.
fn table(findings: &[Finding], look: Look) -> String {
    // Findings are sentences: they are wrapped by the terminal rather than cut.
    let look_uncut = Look { width: None, ..look };
    let mut listing = Listing::of(COLUMNS);
    for finding in findings {
        let paint = finding.verdict.paint();
        listing.push(vec![
            (finding.verdict.word().to_owned(), paint),
            (finding.check.to_owned(), Paint::Bold),
            (finding.text.clone(), Paint::Plain),
        ]);
    }
    listing.render(look_uncut)
}
