//! `posthaste doctor`: checks everything that a process needs and reports what to fix. Changes nothing.
//!
//! It prints the checks that a running server makes of itself, if one answers at the configured address: the environment of
//! a shell may differ from the server's. Otherwise it checks with the configuration of this shell.

mod checks;
mod disk;
mod running_server;
mod self_checks;
mod store;

use std::process::ExitCode;

use posthaste_api::{Finding, Verdict};
use posthaste_config::{Config, ConfigError};
use serde_json::{Value, json};

use crate::cli::DoctorArgs;
use crate::commands::ConfigSources;
use crate::commands::spinner::with_spinner;
use crate::terminal::{self, Color, Column, OutputStyle, Table};

use running_server::ServerDiagnosis;

pub(crate) use running_server::{Probed, probe};
pub(crate) use self_checks::ProcessChecks;

const COLUMNS: &[Column] = &[Column::new("", 0), Column::new("check", 0), Column::new("finding", 0)];

pub(crate) async fn run(
    args: &DoctorArgs,
    sources: &ConfigSources,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    // Parsed without files: the check that needs a file reports what is wrong with it, beside all other findings.
    let parsed = sources.try_parse();
    if let Some(diagnosis) = ask_server(args, parsed.as_ref().ok()).await? {
        terminal::note(&format!("posthaste: the server at {} has checked itself", diagnosis.describe()));
        let ServerDiagnosis { url, version, worker_id, process_id, findings } = diagnosis;
        let subject = json!({
            "subject": "server", "server": url, "version": version, "worker_id": worker_id, "process_id": process_id,
        });
        print(&findings, subject, args.json, style)?;
        return Ok(exit_code(true, &findings));
    }
    let is_valid = parsed.is_ok();
    let findings = check_here(parsed).await;
    print(&findings, json!({ "subject": "local" }), args.json, style)?;
    Ok(exit_code(is_valid, &findings))
}

/// Returns the diagnosis of a server: of the one that the command line names, or else of one at the configured address.
/// None if this shell's configuration is to be checked.
async fn ask_server(args: &DoctorArgs, config: Option<&Config>) -> anyhow::Result<Option<ServerDiagnosis>> {
    if args.asks_for_server() {
        let request = ServerDiagnosis::request(args, config);
        return Ok(Some(with_spinner("asking the server", request).await?));
    }
    let Some(config) = config.filter(|_| !args.local) else { return Ok(None) };
    match with_spinner("asking the server", probe(config, args.key().as_deref())).await {
        Probed::Server(diagnosis) => Ok(Some(diagnosis)),
        Probed::Refused { url, reason } => {
            terminal::note(&format!(
                "posthaste: a server answers at {url}, but not with its own checks: {reason}. These are the checks of this \
                 shell's configuration:"
            ));
            Ok(None)
        }
        Probed::None => Ok(None),
    }
}

/// Checks with the configuration of this shell.
async fn check_here(parsed: Result<Config, Vec<ConfigError>>) -> Vec<Finding> {
    match parsed {
        Ok(config) => with_spinner("checking", checks::run_all(&config)).await,
        Err(errors) => errors
            .iter()
            .map(|error| Finding::new("configuration", Verdict::Broken, error.to_string()))
            .collect(),
    }
}

fn exit_code(is_valid: bool, findings: &[Finding]) -> ExitCode {
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    match (is_valid, broken) {
        (false, _) => ExitCode::from(terminal::EXIT_USAGE),
        (true, true) => ExitCode::FAILURE,
        (true, false) => ExitCode::SUCCESS,
    }
}

/// Prints the findings. `subject` are the fields of the JSON document that say what was checked.
fn print(findings: &[Finding], mut subject: Value, as_json: bool, style: OutputStyle) -> anyhow::Result<()> {
    if !as_json {
        return terminal::print(&render(findings, style));
    }
    subject["findings"] = json!(findings);
    terminal::print(&format!("{subject:#}"))
}

/// Renders the findings, one per row, without a limit of width: the terminal wraps long rows, so that none is truncated.
fn render(findings: &[Finding], style: OutputStyle) -> String {
    let unlimited = OutputStyle { width: None, ..style };
    let mut table = Table::new(COLUMNS);
    for finding in findings {
        let color = match finding.verdict {
            Verdict::Ok => Color::Good,
            Verdict::Careful => Color::Waiting,
            Verdict::Broken => Color::Bad,
        };
        table.push(vec![
            (finding.verdict.as_str().to_owned(), color),
            (finding.check.clone(), Color::Bold),
            (finding.text.clone(), Color::Plain),
        ]);
    }
    table.render(unlimited).text
}
