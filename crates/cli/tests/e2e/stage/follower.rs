//! A client of the stream of notices.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::output::PAYLOAD_MARK;
use super::watched::PATIENCE;

pub(crate) struct Follower {
    lines: BufReader<TcpStream>,
    /// The id of what was told last.
    pub(crate) last_event_id: Option<String>,
}

impl Follower {
    /// HTTP/1.0, so that the body comes as it is and ends with the connection.
    #[track_caller]
    pub(super) fn connect(address: SocketAddr, last_event_id: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let resume = last_event_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /v1/webhook-outbox/stream HTTP/1.0\r\nhost: {address}\r\n{resume}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut follower =
            Self { lines: BufReader::new(stream), last_event_id: last_event_id.map(str::to_owned) };
        let head = follower.block().expect("an answer");
        assert!(head[0].contains(" 200 "), "{head:?}");
        // The first thing that is said; from then on nothing is missed.
        follower.block().expect("a stream begins at once");
        follower
    }

    /// The lines up to an empty one; none at the end.
    fn block(&mut self) -> Option<Vec<String>> {
        let mut block = vec![];
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end() {
                "" => return Some(block),
                line => block.push(line.to_owned()),
            }
        }
    }

    /// The next notice; comments are passed over.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let block = self.block().expect("the stream goes on");
            let field = |name: &str| {
                let found = block.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                found.map(|value| value.trim_start().to_owned())
            };
            let Some(data) = field("data") else { continue };
            assert!(!data.contains(PAYLOAD_MARK), "a notice carries a payload: {data}");
            let notice: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(notice["type"], field("event").unwrap().as_str());
            self.last_event_id = field("id");
            return notice;
        }
    }

    /// The ids of the events of the next notices, with what became of them.
    #[track_caller]
    pub(crate) fn next_ids(&mut self, count: usize) -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (0..count)
            .map(|_| self.next())
            .map(|notice| (word(&notice["webhook_delivery_id"]), word(&notice["type"])))
            .collect()
    }

    /// Reads on until the server ends the stream.
    pub(crate) fn finish(mut self) {
        while self.block().is_some() {}
    }
}
