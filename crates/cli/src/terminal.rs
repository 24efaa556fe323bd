//! What people see: output that may be piped, colours only where they show, errors that say what to do.
//!
//! Data goes to standard output, everything else to standard error. Who reads our output may stop reading at any
//! time: that ends a command quietly.

mod json;
mod look;
mod table;
mod text;
pub(crate) mod time;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

pub(crate) use json::indented;
pub(crate) use look::{Look, Paint, log_is_coloured};
pub(crate) use table::{Column, Laid, Listing, fields};
pub(crate) use text::{counted, harmless, harmless_line, quoted};

use crate::client::ClientError;

/// Bad usage or configuration, by the contract of the command line.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Nobody reads our output any more.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct OutputClosed;

/// What was asked for cannot be done however the server fares: the command line or the configuration must change.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Writes to standard output, a line at least, at once.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(stdout, "{text}{end}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    })
}

/// As [`print`], of work that was asked for and goes on although nobody reads of it any more.
pub(crate) fn print_if_read(text: &str) -> anyhow::Result<()> {
    match print(text) {
        Err(error) if error.is::<OutputClosed>() => Ok(()),
        printed => printed,
    }
}

/// Writes bytes that are meant for a program to standard output, as they are, with a newline behind them.
pub(crate) fn print_answer(answer: &[u8]) -> anyhow::Result<()> {
    print(&String::from_utf8_lossy(answer))
}

/// Tells a person that a table has no room for these columns. Programs read JSON, and get no notes about tables.
pub(crate) fn note_left_out(columns: &[&str]) {
    if !columns.is_empty() && io::stderr().is_terminal() {
        note(&format!("Too narrow to show {}: --json has all.", columns.join(", ")));
    }
}

/// Tells people something on standard error. Nobody there to be told is no error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Shows why a command failed, and decides how it exits.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<OutputClosed>() {
        return ExitCode::SUCCESS;
    }
    note(&format!("posthaste: {}", harmless(&message(error))));
    if is_usage(error) { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}

fn is_usage(error: &anyhow::Error) -> bool {
    let by_client = |cause: &ClientError| cause.is_usage();
    error.chain().any(|cause| cause.is::<BadUsage>() || cause.downcast_ref().is_some_and(by_client))
}

/// An error and its causes, without those that an outer message already tells.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Shows help, the version or what is wrong with the command line.
pub(crate) fn usage(shown: &clap::Error) -> ExitCode {
    // Help that nobody reads to its end was still given.
    let _ = shown.print();
    if shown.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_is_already_told_is_not_told_again() {
        let error =
            anyhow!("connection refused").context("nothing answers: connection refused").context("outer");
        assert_eq!(message(&error), "outer: nothing answers: connection refused");
    }

    #[test]
    fn bad_usage_is_known_under_any_context() {
        let error = anyhow::Error::new(BadUsage("no such file".into())).context("cannot send");
        assert!(is_usage(&error));
        assert!(!is_usage(&anyhow!("no such file")));
    }
}
