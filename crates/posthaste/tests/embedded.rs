//! The example of a program with Posthaste inside runs, shows what it should, and ends by itself.

use std::process::Command;

#[path = "../examples/embedded.rs"]
mod example;

/// Set in a process that is the example.
const IS_THE_EXAMPLE: &str = "POSTHASTE_TOUR_IS_THE_EXAMPLE";

/// In a process of its own, which is this test once more: only so does its end show.
#[test]
fn the_example_delivers_what_it_commits_and_ends_by_itself() {
    if std::env::var_os(IS_THE_EXAMPLE).is_some() {
        example::main().unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let this = "the_example_delivers_what_it_commits_and_ends_by_itself";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env(IS_THE_EXAMPLE, "yes")
        .env("TMPDIR", directory.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "order 1 is committed, and its webhook with it",
        "an order that fails leaves neither: an order cannot cost -1 cents",
        "received order-1-placed, verified: {\"order\": 1, \"cents\": 4200}",
        "WebhookDeliveredEvent for order-1-placed, attempts: 1",
        "drained, 0 left in flight",
    ] {
        assert!(shown.lines().any(|shown| shown.ends_with(line)), "{line:?} is not in:\n{shown}");
    }
    assert_eq!(shown.matches("received ").count(), 1, "{shown}");
}
