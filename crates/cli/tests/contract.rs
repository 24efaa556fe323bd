//! The running server against its OpenAPI document: thousands of valid and invalid requests, generated from the document.
//! No response may be a 5xx, have an undocumented status, or violate the documented schema.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::{TestServer, posthaste, run_within};

/// The limit of one run of schemathesis, which takes about a minute.
const TIMEOUT: Duration = Duration::from_secs(600);

const PRODUCER: &str = "producer-key-of-the-contract";
const OPERATOR: &str = "operator-key-of-the-contract";

fn start_server() -> TestServer {
    let keys = format!("p:producer:{PRODUCER},o:operator:{OPERATOR}");
    TestServer::start(&["serve", "--no-worker"], &[("POSTHASTE_API_KEYS", &keys)])
}

/// Enqueues the event to which the document's examples refer.
fn enqueue_example_event(server: &TestServer) {
    let mut send =
        posthaste(&["send", "--server", &server.url, "--key", PRODUCER, "--event-id", "order-17-created"]);
    send.args(["--url", "https://receiver.example/hook", "--type", "invoice.paid", "--data", "{}"]);
    let sent = run_within(TIMEOUT, &mut send);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}

fn schemathesis() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned();
    let installed = root.join("target/tools/schemathesis/bin/schemathesis");
    assert!(
        installed.exists(),
        "schemathesis is missing: `make need-schemathesis` installs it into target/tools"
    );
    installed
}

/// Runs schemathesis with this key. It excludes the stream, which never ends and has its own tests, and the check
/// `positive_data_acceptance`: the server may refuse a value that matches the schema, such as an invented cursor.
fn assert_document_is_followed(key: &str) {
    let server = start_server();
    enqueue_example_event(&server);
    let mut command = Command::new(schemathesis());
    command
        .args(["run", &format!("{}openapi.json", server.url), "--checks", "all"])
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--exclude-path", "/v1/webhook-outbox/stream", "--seed", "1", "--max-examples", "60"])
        .args(["--request-timeout", "30", "--no-color", "--continue-on-failure"])
        .args(["--header", &format!("Authorization:Bearer {key}")])
        .current_dir(server.directory());
    let output = run_within(TIMEOUT, &mut command);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    println!(
        "{}",
        report.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn responses_to_a_producer_follow_the_document() {
    assert_document_is_followed(PRODUCER);
}

#[test]
fn responses_to_an_operator_follow_the_document() {
    assert_document_is_followed(OPERATOR);
}
