//! Output to the terminal: data on standard output, notes and errors on standard error.
//!
//! The reader of standard output may close it at any time, as `head` does. That ends a command without an error.

mod json;
mod layout;
mod shorten;
mod style;
mod table;
mod text;
pub(crate) mod time;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

pub(crate) use json::indent_json;
pub(crate) use style::{Color, OutputStyle, log_uses_color};
pub(crate) use table::{Column, Omissions, RenderedTable, Table, render_fields};
pub(crate) use text::{escape_line, escape_text, pluralize, shell_quote};

use crate::client::ClientError;

/// The exit code of bad usage and of an invalid configuration.
pub(crate) const EXIT_USAGE: u8 = 2;

/// The error of a write to standard output after its reader has closed it. It ends a command successfully.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct OutputClosed;

/// An error in the command line or the configuration. The message says what to change; the exit code is [`EXIT_USAGE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Writes text to standard output and flushes it. Adds a line break if the text does not end with one.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(stdout, "{text}{end}").and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    })
}

/// As [`print`], but succeeds if standard output is closed: the command's work continues without a reader.
pub(crate) fn print_unless_closed(text: &str) -> anyhow::Result<()> {
    match print(text) {
        Err(error) if error.is::<OutputClosed>() => Ok(()),
        printed => printed,
    }
}

/// Writes the JSON body of a response to standard output as the server formatted it, for programs. Ends it with a line
/// break.
pub(crate) fn print_response(body: &[u8]) -> anyhow::Result<()> {
    print(&String::from_utf8_lossy(body))
}

/// Says on standard error what a table does not show, and which flag shows it. Writes nothing if standard error is not a
/// terminal.
pub(crate) fn note_omissions(omissions: &Omissions, flag: &str) {
    if io::stderr().is_terminal()
        && let Some(text) = describe_omissions(omissions, flag)
    {
        note(&text);
    }
}

fn describe_omissions(omissions: &Omissions, flag: &str) -> Option<String> {
    let columns = omissions.columns.join(", ");
    let omitted = match (omissions.has_short_ids, omissions.columns.is_empty()) {
        (false, true) => return None,
        (false, false) => columns,
        (true, true) => "whole ids".to_owned(),
        (true, false) => format!("whole ids, {columns}"),
    };
    Some(format!("Too narrow to show {omitted}; {flag} shows everything."))
}

/// Writes a line for people to standard error. A closed standard error is ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints why a command failed and returns its exit code.
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    if error.is::<OutputClosed>() {
        return ExitCode::SUCCESS;
    }
    note(&format!("posthaste: {}", escape_text(&message(error))));
    if is_usage(error) { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}

fn is_usage(error: &anyhow::Error) -> bool {
    let in_client = |cause: &ClientError| cause.is_usage_error();
    error.chain().any(|cause| cause.is::<BadUsage>() || cause.downcast_ref().is_some_and(in_client))
}

/// Joins an error and its causes, without causes that an outer message already contains.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Prints help, the version or an error in the command line, and returns the exit code.
pub(crate) fn print_usage(message: &clap::Error) -> ExitCode {
    // A reader that closes the output early is no error.
    let _ = message.print();
    if message.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_an_outer_message_contains_is_not_repeated() {
        let error = anyhow!("connection refused")
            .context("the server is unreachable: connection refused")
            .context("outer");
        assert_eq!(message(&error), "outer: the server is unreachable: connection refused");
    }

    #[test]
    fn bad_usage_is_recognised_under_any_context() {
        let error = anyhow::Error::new(BadUsage("no such file".into())).context("cannot send");
        assert!(is_usage(&error));
        assert!(!is_usage(&anyhow!("no such file")));
    }
}
