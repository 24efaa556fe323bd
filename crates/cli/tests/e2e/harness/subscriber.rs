//! A client of the notice stream.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::output::PAYLOAD_MARKER;
use super::wait::{RealInstant, TIMEOUT};

pub(crate) struct Subscriber {
    lines: BufReader<TcpStream>,
    /// Id of the last notice that was read, for resuming the stream.
    pub(crate) last_event_id: Option<String>,
}

impl Subscriber {
    /// Opens the stream, after `last_event_id` if there is one, with an API key if there is one. Uses HTTP/1.0, so that the body
    /// is not chunked and ends with the connection.
    #[track_caller]
    pub(super) fn connect(address: SocketAddr, last_event_id: Option<&str>, key: Option<&str>) -> Self {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let resume = last_event_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let request =
            format!("GET /v1/webhook-outbox/stream HTTP/1.0\r\nhost: {address}\r\n{resume}{key}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut subscriber =
            Self { lines: BufReader::new(stream), last_event_id: last_event_id.map(str::to_owned) };
        let head = subscriber.read_block().expect("the service closed the connection without a response");
        assert!(head[0].contains(" 200 "), "{head:?}");
        // The service sends a first comment once the subscription is active. No later notice is missed.
        subscriber.read_block().expect("the stream ended before its first comment");
        subscriber
    }

    /// Reads the lines up to the next empty line; None at the end of the stream.
    #[track_caller]
    fn read_block(&mut self) -> Option<Vec<String>> {
        let mut block = vec![];
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line);
            if length.unwrap_or_else(|error| panic!("no line of the stream within {TIMEOUT:?}: {error}")) == 0
            {
                return None;
            }
            match line.trim_end() {
                "" => return Some(block),
                line => block.push(line.to_owned()),
            }
        }
    }

    /// Reads the next notice and skips comments.
    #[track_caller]
    pub(crate) fn next_notice(&mut self) -> Value {
        let started = RealInstant::now();
        // Keep-alive comments restart the read timeout, so the loop has a limit of its own.
        while started.elapsed() < TIMEOUT {
            let block = self.read_block().expect("the stream ended before the next notice");
            let field = |name: &str| {
                let found = block.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                found.map(|value| value.trim_start().to_owned())
            };
            let Some(data) = field("data") else { continue };
            assert!(!data.contains(PAYLOAD_MARKER), "a notice contains a payload: {data}");
            let notice: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(notice["type"], field("event").unwrap().as_str());
            self.last_event_id = field("id");
            return notice;
        }
        panic!("no notice within {TIMEOUT:?}");
    }

    /// Reads the next notices. Returns the event id and the type of each.
    #[track_caller]
    pub(crate) fn next_notices(&mut self, count: usize) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (0..count)
            .map(|_| self.next_notice())
            .map(|notice| (text(&notice["webhook_delivery_id"]), text(&notice["type"])))
            .collect()
    }

    /// Reads until the service ends the stream.
    #[track_caller]
    pub(crate) fn read_to_end(mut self) {
        let started = RealInstant::now();
        while self.read_block().is_some() {
            assert!(started.elapsed() < TIMEOUT, "the service did not end the stream within {TIMEOUT:?}");
        }
    }
}
