//! Output of a process, line by line, and the check that it contains no payload and no secret.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;

use super::wait::SharedState;

/// Text in every payload that a test sends.
pub(crate) const PAYLOAD_MARKER: &str = "payload-that-must-not-be-printed";
/// Password in every PostgreSQL URL.
pub(crate) const DATABASE_PASSWORD: &str = "database-password-that-must-not-be-printed";
/// Text in every API key.
pub(crate) const KEY_MARKER: &str = "key-that-must-not-be-printed";
/// Prefixes of signing secrets and private keys, and of JSON Web Tokens, whose first bytes are `{"`.
const SECRET_PREFIXES: [&str; 3] = ["whsec_", "whsk_", "eyJ"];
/// The least number of base64 characters after the prefix of a secret. The characters of a token include its dots.
const SECRET_CHARS_MIN: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipe {
    Stdout,
    Stderr,
}

/// Number of pipes of a process.
pub(crate) const PIPES: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct OutputLine {
    pub(crate) pipe: Pipe,
    pub(crate) text: String,
}

/// The lines that a process has printed so far.
#[derive(Default)]
pub(crate) struct ProcessOutput {
    pub(crate) lines: Vec<OutputLine>,
    /// Number of pipes that the process has closed.
    pub(crate) closed_pipes: usize,
}

impl ProcessOutput {
    pub(crate) fn text_of(&self, pipe: Pipe) -> String {
        self.lines.iter().filter(|line| line.pipe == pipe).map(|line| line.text.clone() + "\n").collect()
    }

    /// Returns the JSON log lines with this message.
    pub(crate) fn log_lines(&self, message: &str) -> Vec<Value> {
        let stderr = self.lines.iter().filter(|line| line.pipe == Pipe::Stderr);
        let parsed = stderr.filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        parsed.filter(|line| line["message"] == message).collect()
    }

    /// Returns the first line that contains a payload, a password, an API key, a signing secret or a token.
    pub(crate) fn first_leak(&self) -> Option<&OutputLine> {
        let markers = [PAYLOAD_MARKER, DATABASE_PASSWORD, KEY_MARKER];
        let has_marker = |text: &str| markers.iter().any(|marker| text.contains(marker));
        self.lines.iter().find(|line| has_marker(&line.text) || has_secret(&line.text))
    }
}

/// Returns whether a text contains a signing secret, a private key or a token. The prefix alone, or with a placeholder, is not a
/// secret.
fn has_secret(text: &str) -> bool {
    let is_secret = |c: &char| c.is_ascii_alphanumeric() || "+/=-.".contains(*c);
    SECRET_PREFIXES.iter().any(|prefix| {
        text.split(prefix).skip(1).any(|rest| rest.chars().take_while(is_secret).count() >= SECRET_CHARS_MIN)
    })
}

#[test]
fn leaks_of_payloads_and_secrets_are_found() {
    let leaks = |text: &str| {
        let lines = vec![OutputLine { pipe: Pipe::Stderr, text: text.to_owned() }];
        ProcessOutput { lines, closed_pipes: 0 }.first_leak().is_some()
    };
    let secret = crate::harness::SECRET;
    for text in [
        secret,
        &format!("\"secret\":\"{secret}\""),
        "whsk_ZWQyNTUxOS1zZWVkLW9mLXRoZS1jYW5hcnktMzJieXQ=",
        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJvcmdfZGVmYXVsdCJ9.c2lnbmF0dXJl",
        &format!("x{PAYLOAD_MARKER}"),
        DATABASE_PASSWORD,
        KEY_MARKER,
    ] {
        assert!(leaks(text), "{text}");
    }
    for text in
        ["a secret is whsec_ and base64", "whsec_REPLACE_ME", "whpk_1DyFJPcRHOIpv7ZRQRDKYLKTxLKqUoBX", ""]
    {
        assert!(!leaks(text), "{text}");
    }
}

/// Starts a thread that reads a pipe to its end.
pub(crate) fn read_pipe(
    pipe: Pipe,
    from: impl Read + Send + 'static,
    output: Arc<SharedState<ProcessOutput>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for bytes in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            output.update(|output| output.lines.push(OutputLine { pipe, text }));
        }
        output.update(|output| output.closed_pipes += 1);
    })
}
