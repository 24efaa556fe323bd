//! `guardrails tests`: reads the test log and the list of requirements, prints the findings of the check, and exits.
//!
//! Exit codes: 0 without findings; 1 with findings, one line each on stderr; 2 when the check could not run.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

use posthaste_guardrails::{Report, check, parse_log, parse_requirements};
use thiserror::Error;

const USAGE: &str = "usage: guardrails tests --log FILE --requirements FILE
  checks that every guarded test ran and passed, and that the list of requirements is complete
  example: guardrails tests --log target/test.log --requirements docs/requirements.md";

/// Why the check could not run.
#[derive(Debug, Error)]
enum CommandError {
    #[error("{0}\n{USAGE}")]
    Usage(String),
    #[error("cannot read {}: {source}; `make test` writes the log and reads the list", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// The paths of the two files that the command compares.
struct InputFiles {
    log: PathBuf,
    requirements: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse_arguments(arguments).and_then(|files| check_files(&files)) {
        Ok(report) => print_report(&report),
        Err(error) => {
            eprintln!("guardrails: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse_arguments(arguments: Vec<OsString>) -> Result<InputFiles, CommandError> {
    let mut arguments = arguments.into_iter();
    match arguments.next() {
        Some(command) if command == "tests" => {}
        Some(command) => {
            return Err(CommandError::Usage(format!("unknown command {}", command.to_string_lossy())));
        }
        None => return Err(CommandError::Usage("a command is missing".to_owned())),
    }
    let (mut log, mut requirements) = (None, None);
    while let Some(option) = arguments.next() {
        let file = match option.to_str() {
            Some("--log") => &mut log,
            Some("--requirements") => &mut requirements,
            _ => return Err(CommandError::Usage(format!("unknown option {}", option.to_string_lossy()))),
        };
        *file = arguments.next().map(PathBuf::from);
    }
    let required = |file: Option<PathBuf>, option: &str| {
        file.ok_or_else(|| CommandError::Usage(format!("{option} FILE is missing")))
    };
    Ok(InputFiles { log: required(log, "--log")?, requirements: required(requirements, "--requirements")? })
}

fn check_files(files: &InputFiles) -> Result<Report, CommandError> {
    let read = |path: &PathBuf| {
        // Child processes of tests may print invalid UTF-8 into the log. Names of tests are always valid UTF-8.
        let bytes = fs::read(path).map_err(|source| CommandError::Read { path: path.clone(), source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(check(&parse_log(&read(&files.log)?), &parse_requirements(&read(&files.requirements)?)))
}

/// Prints the findings and the totals, and returns the exit code.
fn print_report(report: &Report) -> ExitCode {
    for finding in &report.findings {
        eprintln!("guardrails: {finding}");
    }
    let Report { findings, covered } = report;
    println!("guardrails: findings: {}; criteria covered: {covered}", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
