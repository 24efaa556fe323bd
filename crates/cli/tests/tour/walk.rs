//! README's tour and its repair by hand, run as they are written.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::document::{read, section};
use crate::stage::{Stage, Step, steps};

#[test]
fn the_tour_runs_as_it_is_written() {
    let tour = section(&read("README.md"), "A tour in five minutes");
    let mut stage = Stage::empty();
    for step in steps(&tour) {
        stage.take(&step);
    }
    for url in spans_of_the_server(&tour) {
        let answer = get(&stage.here(&url));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{url}: {answer}");
    }
}

/// The tour cannot lose what it is for.
#[test]
fn the_tour_shows_a_delivery_a_retry_a_dead_letter_and_its_repair() {
    let steps = steps(&section(&read("README.md"), "A tour in five minutes"));
    let shown = |terminal: u8, what: &str| {
        steps.iter().any(|step| step.terminal == terminal && step.shown.contains(what))
    };
    let run = |what: &str| steps.iter().any(|step| step.commands.contains(what));
    for command in [
        "posthaste serve",
        "posthaste listen",
        "posthaste send",
        "--fail",
        "posthaste dlq list",
        "posthaste dlq requeue",
    ] {
        assert!(run(command), "{command}");
    }
    for (terminal, what) in [
        (2, "verified · invoice.paid"),
        (3, "delivered after 1 attempt"),
        (2, "attempt 2 · answered 500"),
        (3, "failed after 2 attempts"),
        (3, "exhausted"),
        (2, "attempt 1 · answered 200"),
        (3, "Delivered at"),
    ] {
        assert!(shown(terminal, what), "terminal {terminal}: {what}");
    }
}

#[test]
fn s2_fr006_ac2_readme_shows_the_manual_workflow_as_it_works() {
    let repair = section(&read("README.md"), "Repair by hand");
    let mut stage = Stage::empty();
    stage.start(1, "posthaste serve --max-retry-attempts 0");
    stage.start(2, "posthaste listen --port 8700 --status 503");
    for id in ["invoice-18", "invoice-19"] {
        let send = "posthaste send --url http://127.0.0.1:8700/ --type invoice.paid --data '{}' --wait";
        stage.ask(&stage.here(&format!("{send} --event-id {id} || true")), "failed after 1 attempt");
    }
    let steps = steps(&repair);
    for step in &steps {
        stage.take(step);
    }
    let run: String = steps.iter().map(|step: &Step| step.commands.as_str()).collect();
    for command in
        ["posthaste dlq list", "posthaste events show", "posthaste dlq requeue", "posthaste events cancel"]
    {
        assert!(run.contains(command), "{command} is not shown");
    }
    for note in [
        "webhook_outbox_event_not_requeueable",
        "webhook_outbox_event_not_cancellable",
        "`POST /v1/webhook-outbox/dlq/{event_id}/requeue`",
        "`POST /v1/webhook-outbox/events/{event_id}/cancel`",
        "manual_cancelled: refunded by hand",
        "1 to 200",
    ] {
        assert!(repair.contains(note), "{note} is not told");
    }
}

/// Pages of the service that a text sends its reader to.
fn spans_of_the_server(text: &str) -> Vec<String> {
    let urls = text.split("<http://127.0.0.1:8600").skip(1).filter_map(|rest| rest.split('>').next());
    let urls: Vec<_> = urls.map(|path| format!("http://127.0.0.1:8600{path}")).collect();
    assert!(!urls.is_empty(), "the tour sends its reader to the page");
    urls
}

fn get(url: &str) -> String {
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
