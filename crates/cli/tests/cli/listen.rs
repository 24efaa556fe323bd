//! `posthaste listen`: signed deliveries, forged ones, and failures on purpose.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use posthaste_domain::EventId;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_sender::{SystemClock, WallClock as _};
use serde_json::Value;

use crate::command::{posthaste, run};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

struct Listener {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    address: String,
    /// What it said about itself at the start.
    introduction: Vec<String>,
}

impl Listener {
    fn start(arguments: &[&str]) -> Self {
        Self::run(&mut posthaste(&[&["listen", "--port", "0"], arguments].concat()))
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let introduction: Vec<_> = stderr.by_ref().take(3).map(Result::unwrap).collect();
        let (_, rest) = introduction[0].split_once("http://").unwrap();
        let address = rest.split('/').next().unwrap().to_owned();
        Self { child, stdout, stderr, address, introduction }
    }

    fn next_line(&mut self) -> String {
        self.stdout.next().unwrap().unwrap()
    }

    fn next_object(&mut self) -> Value {
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// Posts a body with these headers, and returns the status.
    fn post(&self, headers: &str, body: &str) -> u16 {
        let request = format!(
            "POST /hook HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Delivers as Posthaste does.
    fn deliver(&self, id: &str, attempt: u32, secret: &str, body: &str) -> u16 {
        let keys = SigningKeys::new(vec![Secret::parse(secret).unwrap()]).unwrap();
        let now = SystemClock.now();
        let signature = keys.sign(&EventId::new(id).unwrap(), now, body.as_bytes());
        let headers = format!(
            "content-type: application/json\r\nwebhook-id: {id}\r\nwebhook-timestamp: {}\r\n\
             webhook-signature: {signature}\r\nposthaste-event-type: invoice.paid\r\nposthaste-attempt: {attempt}\r\n",
            now.as_secs()
        );
        self.post(&headers, body)
    }

    /// As Ctrl-C does; returns what it says last.
    fn interrupt(mut self) -> String {
        let signalled = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.stderr.by_ref().map(Result::unwrap).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_listens_and_what_to_try() {
    let listener = Listener::start(&["--secret", SECRET]);
    let url = format!("http://{}/", listener.address);
    assert!(listener.address.starts_with("127.0.0.1:") && !listener.address.ends_with(":8700"));
    assert_eq!(listener.introduction[1], "Signatures are checked.");
    let tried = format!(r#"Try: posthaste send --url {url} --type test.ping --data '{{"hello": "world"}}'"#);
    assert_eq!(listener.introduction[2], tried);
    assert!(listener.interrupt().starts_with("Nothing was delivered in "));
}

#[test]
fn a_signed_delivery_is_verified_and_shown() {
    let mut listener = Listener::start(&["--secret", SECRET]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, r#"{"invoice":17,"amount":1.50}"#), 200);
    let facts = listener.next_line();
    let expected = " · verified · invoice.paid · msg_1 · attempt 1 · answered 200 · 28 bytes";
    assert!(facts.ends_with(expected), "{facts}");
    let shown: Vec<_> = (0..4).map(|_| listener.next_line()).collect();
    assert_eq!(shown, ["{", "  \"invoice\": 17,", "  \"amount\": 1.50", "}"]);
    let summary = listener.interrupt();
    assert!(
        summary.starts_with("1 request for 1 event in ") && summary.ends_with("; answered 200: 1."),
        "{summary}"
    );
}

#[test]
fn a_delivery_under_another_secret_is_refused_with_why() {
    let mut listener = Listener::start(&["--secret", SECRET]);
    assert_eq!(listener.deliver("msg_1", 1, OTHER_SECRET, "{}"), 401);
    assert!(listener.next_line().contains(" · NOT verified: no signature matches: wrong secret"));
    assert_eq!(listener.next_line(), "{}");
    assert_eq!(listener.post("", "a=1"), 401);
    let facts = listener.next_line();
    assert!(facts.contains("NOT verified: the header webhook-id is missing · no event type"), "{facts}");
    assert_eq!(listener.next_line(), "a=1");
    assert!(listener.interrupt().ends_with("; answered 401: 2; 2 NOT verified."));
}

#[test]
fn several_secrets_are_valid_while_they_are_rotated() {
    let mut listener = Listener::start(&["--json", "--secret", &format!("{OTHER_SECRET},{SECRET}")]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert_eq!(listener.deliver("msg_2", 1, OTHER_SECRET, "{}"), 200);
    assert_eq!(
        [listener.next_object(), listener.next_object()].map(|line| line["verified"] == true),
        [true; 2]
    );
}

#[test]
fn the_secret_may_come_from_the_environment() {
    let mut command = posthaste(&["listen", "--port", "0"]);
    let listener =
        Listener::run(command.env("POSTHASTE_SIGNING_SECRET", format!("{OTHER_SECRET}, {SECRET}")));
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert_eq!(listener.post("", "{}"), 401);
}

#[test]
fn without_a_secret_nothing_is_checked_and_it_says_so() {
    let mut listener = Listener::start(&[]);
    assert!(
        listener.introduction[1].contains("not checked")
            && listener.introduction[1].contains("posthaste secret")
    );
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert!(listener.next_line().contains(" · unchecked · "));
}

#[test]
fn the_first_deliveries_of_each_event_fail_on_demand() {
    let mut listener = Listener::start(&["--secret", SECRET, "--fail", "2", "--json"]);
    let answers = [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
        .map(|(id, attempt)| listener.deliver(id, attempt, SECRET, "{}"));
    assert_eq!(answers, [500, 500, 500, 200]);
    let lines: Vec<_> = (0..4).map(|_| listener.next_object()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (line["attempt"].as_u64(), line["status"].as_u64())).collect();
    assert_eq!(
        seen,
        [(Some(1), Some(500)), (Some(2), Some(500)), (Some(1), Some(500)), (Some(3), Some(200))]
    );
    assert!(lines[0]["since_last_ms"].is_null() && lines[1]["since_last_ms"].is_u64(), "{lines:?}");
    assert!(listener.interrupt().starts_with("4 requests for 2 events in "));
}

#[test]
fn every_delivery_gets_the_status_that_is_asked_for() {
    let listener = Listener::start(&["--status", "410", "--delay", "1"]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 410);
}

#[test]
fn a_delivery_as_json_is_one_line_with_its_payload_as_it_was_spelled() {
    let mut listener = Listener::start(&["--secret", SECRET, "--json"]);
    assert_eq!(listener.deliver("msg_1", 2, SECRET, "{\n  \"amount\": 1.50\n}"), 200);
    let line = listener.next_line();
    assert!(line.contains(r#""payload":{   "amount": 1.50 }"#), "{line}");
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&object["event_id"], &object["event_type"]), (&"msg_1".into(), &"invoice.paid".into()));
    assert_eq!((&object["path"], &object["bytes"]), (&"/hook".into(), &20.into()));
}

#[test]
fn what_is_no_delivery_is_refused_and_not_shown() {
    let mut listener = Listener::start(&["--json"]);
    let mut stream = TcpStream::connect(&listener.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: POST"), "{answer}");
    let mut stream = TcpStream::connect(&listener.address).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 16777217\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!(listener.post("", "{}"), 200);
    assert_eq!(listener.next_object()["bytes"], 2);
}

#[test]
fn a_secret_that_is_none_is_bad_usage() {
    run(&["listen", "--port", "0", "--secret", "hunter2"]).refused(2, &["whsec_", "posthaste secret"]);
}

/// As `--secret "$(posthaste secret)"` gives it when that fails: nothing may go unchecked then.
#[test]
fn a_secret_that_is_empty_is_bad_usage() {
    for empty in ["", " \n", ","] {
        run(&["listen", "--port", "0", "--secret", empty]).refused(2, &["--secret", "`posthaste secret`"]);
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_the_way_out() {
    let listener = Listener::start(&[]);
    let port = listener.address.rsplit(':').next().unwrap();
    run(&["listen", "--port", port]).refused(1, &["--port 0", port]);
}
