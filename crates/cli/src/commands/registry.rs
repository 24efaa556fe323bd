//! The commands of the registry: `apps`, `endpoints`, `event-types` and `messages`. They call the server's API.

pub(crate) mod apps;
pub(crate) mod endpoints;
pub(crate) mod event_types;
mod fields;
pub(crate) mod messages;
mod registration;

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read};
use std::path::Path;

use anyhow::Context as _;

use crate::client::ApiResponse;
use crate::terminal::{self, BadUsage, escape_line};

pub(in crate::commands) use registration::Registration;

/// Maximum number of bytes read from a file or standard input, which may be endless. More than any server accepts.
const INPUT_BYTES_MAX: u64 = 32 * 1_024 * 1_024;

/// Prints a response as JSON, or one line about it.
fn print_result(
    response: &ApiResponse,
    json: bool,
    line: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    if json {
        return terminal::print_response(response.as_bytes());
    }
    terminal::print(&escape_line(&line()?))
}

/// Asks whether to delete something, unless `yes` is set. Without a terminal on standard input, returns an error that advises
/// `--yes`.
fn confirm_deletion(what: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(BadUsage(format!("add --yes to delete {what}, without confirmation")).into());
    }
    terminal::note(&format!("Delete {what}? Its pending messages are cancelled. [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Reads a file, or standard input if the path is `-`.
fn read_input(path: &Path, flag: &str) -> Result<String, BadUsage> {
    let mut text = String::new();
    let (name, read) = if path.as_os_str() == "-" {
        ("standard input".to_owned(), io::stdin().lock().take(INPUT_BYTES_MAX).read_to_string(&mut text))
    } else {
        let read = File::open(path).and_then(|file| file.take(INPUT_BYTES_MAX).read_to_string(&mut text));
        (path.display().to_string(), read)
    };
    read.map_err(|error| BadUsage(format!("{flag}: cannot read {name}: {error}")))?;
    Ok(text)
}

/// Reads the one secret of a file. The error shows no part of it.
fn read_secret(path: &Path) -> Result<String, BadUsage> {
    let text = read_input(path, "--secret-file")?;
    match text.trim() {
        "" => Err(BadUsage("--secret-file: the file is empty".to_owned())),
        secret => Ok(secret.to_owned()),
    }
}
