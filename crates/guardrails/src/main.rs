//! `guardrails tests`: reads the two files, prints what the check finds, and turns it into an exit code.
//!
//! 0: every promise is kept. 1: there are findings, one line each on stderr. 2: the check could not run.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

use posthaste_guardrails::{Report, check, parse_log, parse_requirements};
use thiserror::Error;

const USAGE: &str = "usage: guardrails tests --log FILE --requirements FILE
  checks that every guarded test ran and passed, and that the list of requirements is whole
  example: guardrails tests --log target/test.log --requirements docs/requirements.md";

#[derive(Debug, Error)]
enum CannotCheck {
    #[error("{0}\n{USAGE}")]
    Usage(String),
    #[error("cannot read {}: {source}; `make test` writes the log and expects the list there", path.display())]
    Read { path: PathBuf, source: io::Error },
}

struct Files {
    log: PathBuf,
    requirements: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse_arguments(arguments).and_then(|files| compare(&files)) {
        Ok(report) => print(&report),
        Err(error) => {
            eprintln!("guardrails: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse_arguments(arguments: Vec<OsString>) -> Result<Files, CannotCheck> {
    let mut arguments = arguments.into_iter();
    match arguments.next() {
        Some(command) if command == "tests" => {}
        Some(command) => {
            return Err(CannotCheck::Usage(format!("unknown command {}", command.to_string_lossy())));
        }
        None => return Err(CannotCheck::Usage("a command is missing".to_owned())),
    }
    let (mut log, mut requirements) = (None, None);
    while let Some(option) = arguments.next() {
        let file = match option.to_str() {
            Some("--log") => &mut log,
            Some("--requirements") => &mut requirements,
            _ => return Err(CannotCheck::Usage(format!("unknown option {}", option.to_string_lossy()))),
        };
        *file = arguments.next().map(PathBuf::from);
    }
    let needed = |file: Option<PathBuf>, option: &str| {
        file.ok_or_else(|| CannotCheck::Usage(format!("{option} FILE is missing")))
    };
    Ok(Files { log: needed(log, "--log")?, requirements: needed(requirements, "--requirements")? })
}

fn compare(files: &Files) -> Result<Report, CannotCheck> {
    let read = |path: &PathBuf| {
        // What a test's child process printed may be any bytes; a test's name is not.
        let bytes = fs::read(path).map_err(|source| CannotCheck::Read { path: path.clone(), source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(check(&parse_log(&read(&files.log)?), &parse_requirements(&read(&files.requirements)?)))
}

fn print(report: &Report) -> ExitCode {
    for finding in &report.findings {
        eprintln!("guardrails: {finding}");
    }
    let Report { findings, covered } = report;
    println!("guardrails: findings: {}; criteria covered: {covered}", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
