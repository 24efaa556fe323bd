//! What a process prints, line by line, and what it must never print.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;

use super::watched::Watched;

/// In every payload that a test sends.
pub(crate) const PAYLOAD_MARK: &str = "payload-that-nobody-may-print";
/// In every address of a database.
pub(crate) const DATABASE_PASSWORD: &str = "database-password-that-nobody-may-print";
/// How a signing secret begins, whoever made it, and what it has at least after that.
const SECRET_START: &str = "whsec_";
const SECRET_CHARS_MIN: usize = 32;
/// In every API key.
pub(crate) const KEY_MARK: &str = "key-that-nobody-may-print";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipe {
    Stdout,
    Stderr,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) pipe: Pipe,
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Output {
    pub(crate) lines: Vec<Line>,
    /// Pipes that have been read to their end.
    pub(crate) ended: usize,
}

/// Both pipes.
pub(crate) const PIPES: usize = 2;

impl Output {
    pub(crate) fn of(&self, pipe: Pipe) -> String {
        self.lines.iter().filter(|line| line.pipe == pipe).map(|line| line.text.clone() + "\n").collect()
    }

    /// Log lines with this message, as JSON.
    pub(crate) fn logged(&self, message: &str) -> Vec<Value> {
        let logged = self.lines.iter().filter(|line| line.pipe == Pipe::Stderr);
        let parsed = logged.filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        parsed.filter(|line| line["message"] == message).collect()
    }

    /// The first line that shows what nobody may see.
    pub(crate) fn indiscretion(&self) -> Option<&Line> {
        let marks = [PAYLOAD_MARK, DATABASE_PASSWORD, KEY_MARK];
        let is_marked = |text: &str| marks.iter().any(|mark| text.contains(mark));
        self.lines.iter().find(|line| is_marked(&line.text) || has_secret(&line.text))
    }
}

/// Text about secrets is not a secret.
fn has_secret(text: &str) -> bool {
    let is_base64 = |c: &char| c.is_ascii_alphanumeric() || "+/=".contains(*c);
    text.split(SECRET_START)
        .skip(1)
        .any(|rest| rest.chars().take_while(is_base64).count() >= SECRET_CHARS_MIN)
}

#[test]
fn what_may_not_be_printed_is_noticed() {
    let printed = |text: &str| {
        let lines = vec![Line { pipe: Pipe::Stderr, text: text.to_owned() }];
        Output { lines, ended: 0 }.indiscretion().is_some()
    };
    let secret = crate::stage::SECRET;
    for text in [
        secret,
        &format!("\"secret\":\"{secret}\""),
        &format!("x{PAYLOAD_MARK}"),
        DATABASE_PASSWORD,
        KEY_MARK,
    ] {
        assert!(printed(text), "{text}");
    }
    for text in ["a secret is whsec_ and base64", "whsec_REPLACE_ME", ""] {
        assert!(!printed(text), "{text}");
    }
}

/// Reads a pipe to its end.
pub(crate) fn read(
    pipe: Pipe,
    from: impl Read + Send + 'static,
    into: Arc<Watched<Output>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for bytes in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            into.change(|output| output.lines.push(Line { pipe, text }));
        }
        into.change(|output| output.ended += 1);
    })
}
