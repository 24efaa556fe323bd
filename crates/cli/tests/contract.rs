//! The OpenAPI document against the running server: requests that it allows and requests that it forbids, thousands of
//! them. No answer may be a 5xx, have a status that the document does not name, or break the document's own schema.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::{Service, posthaste};

const PRODUCER: &str = "producer-key-of-the-contract";
const OPERATOR: &str = "operator-key-of-the-contract";

fn service() -> Service {
    let keys = format!("p:producer:{PRODUCER},o:operator:{OPERATOR}");
    Service::start(&["serve", "--no-worker"], &[("POSTHASTE_API_KEYS", &keys)])
}

/// The event that the document's examples speak of.
fn enqueue_the_example(service: &Service) {
    let sent =
        posthaste(&["send", "--server", &service.url, "--key", PRODUCER, "--event-id", "order-17-created"])
            .args(["--url", "https://receiver.example/hook", "--type", "invoice.paid", "--data", "{}"])
            .output()
            .unwrap();
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

/// The stream never ends, so it is left to tests of its own. That a value is refused which the document's schema cannot
/// tell from a good one, such as a cursor that was made up, is right.
fn hold_to_the_document(key: &str) {
    let service = service();
    enqueue_the_example(&service);
    let output = Command::new(schemathesis())
        .args(["run", &format!("{}openapi.json", service.url), "--checks", "all"])
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--exclude-path", "/v1/webhook-outbox/stream", "--seed", "1", "--max-examples", "60"])
        .args(["--request-timeout", "30", "--no-color", "--continue-on-failure"])
        .args(["--header", &format!("Authorization:Bearer {key}")])
        .current_dir(service.directory())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    println!(
        "{}",
        said.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn what_a_producer_may_do_is_as_documented() {
    hold_to_the_document(PRODUCER);
}

#[test]
fn what_an_operator_may_do_is_as_documented() {
    hold_to_the_document(OPERATOR);
}
