//! Traces, from the producer through the queue to the receiver, as a collector gets them from the built command.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[path = "traces/process.rs"]
mod process;
#[path = "traces/server.rs"]
mod server;
#[path = "traces/spans.rs"]
mod spans;

use std::net::SocketAddr;

use process::Process;
use server::Server;
use spans::{Exported, exported, parts};
use tokio::net::TcpSocket;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PRODUCER: &str = "00f067aa0ba902b7";
/// What the log says of a collector that does not take spans.
const COMPLAINT: &str = "traces cannot be exported";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PRODUCER}-{flags}")
}

#[test]
fn a_producers_trace_goes_on_in_the_span_and_in_the_delivery() {
    let (collector, receiver) = (Server::answering(200), Server::answering(204));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    let delivery = receiver.asked();
    process.stop();

    let [span] = exported(&collector).try_into().unwrap();
    let sent = parts(delivery.header("traceparent").unwrap());
    assert_eq!((span.trace_id.as_str(), span.parent_id.as_str()), (TRACE, PRODUCER));
    assert_eq!((sent.trace_id, sent.parent_id, sent.flags), (TRACE, span.span_id.as_str(), "01"));
    assert_eq!(span.attribute("posthaste.event_id"), delivery.header("webhook-id").unwrap());
    assert!(!span.failed);
}

#[test]
fn a_span_names_its_process_and_tells_no_secrets() {
    let (collector, receiver) = (Server::answering(200), Server::answering(200));
    let environment =
        [("POSTHASTE_OTLP_ENDPOINT", collector.url.as_str()), ("POSTHASTE_WORKER_ID", "worker-17")];
    let process = Process::serve(&environment);
    process.enqueue(&format!("{}/hook?token=hunter2", receiver.url), None);
    let delivery = receiver.asked();
    process.stop();

    let export = collector.asked();
    assert_eq!(export.line, "POST /v1/traces");
    assert_eq!(export.header("content-type"), Some("application/x-protobuf"));
    let bytes = String::from_utf8_lossy(&export.body);
    let [span] = spans::read(&export).try_into().unwrap();
    assert!(span.is_client && span.name == "deliver invoice.paid", "{span:?}");
    let resource = [
        ("service.name", "posthaste"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", "worker-17"),
    ];
    for (key, value) in resource {
        assert_eq!(span.resource[key], value, "{key}");
    }
    let attributes = [
        ("server.address", "127.0.0.1"),
        ("posthaste.attempt", "1"),
        ("posthaste.verdict", "delivered"),
        ("http.response.status_code", "200"),
        ("http.request.body.size", &delivery.body.len().to_string()),
    ];
    for (key, value) in attributes {
        assert_eq!(span.attribute(key), value, "{key}");
    }
    let signature = delivery.header("webhook-signature").unwrap();
    for secret in ["hunter2", "in_17", signature] {
        assert!(!bytes.contains(secret), "{secret} was exported");
    }
}

#[test]
fn a_failed_attempt_is_an_error() {
    let (collector, receiver) = (Server::answering(200), Server::answering(503));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    receiver.asked();
    process.stop();

    let [span] = exported(&collector).try_into().unwrap();
    assert!(span.failed);
    let told = ["http.response.status_code", "error.type", "posthaste.verdict"];
    assert_eq!(told.map(|key| span.attribute(key)), ["503", "503", "retry"]);
}

#[test]
fn what_is_no_context_begins_a_trace_and_is_delivered() {
    let (collector, receiver) = (Server::answering(200), Server::answering(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    let zeros = format!("00-{}-{PRODUCER}-01", "0".repeat(32));
    let mut deliveries = Vec::new();
    for invalid in [Some("not a traceparent"), Some(&zeros), None] {
        process.enqueue(&receiver.url, invalid);
        deliveries.push(receiver.asked());
    }
    process.stop();

    let spans = exported(&collector);
    assert_eq!(spans.len(), deliveries.len());
    for delivery in &deliveries {
        let sent = parts(delivery.header("traceparent").unwrap());
        let made = |span: &&Exported| span.trace_id == sent.trace_id && span.span_id == sent.parent_id;
        let span = spans.iter().find(made).unwrap();
        assert!(span.parent_id.is_empty() && sent.trace_id != TRACE && sent.flags == "01", "{span:?}");
    }
}

#[test]
fn a_trace_that_is_not_sampled_passes_through_and_leaves_no_span() {
    let (collector, receiver) = (Server::answering(200), Server::answering(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("00")));
    assert_eq!(receiver.asked().header("traceparent"), Some(traceparent("00").as_str()));
    process.stop();
    assert!(exported(&collector).is_empty());
}

#[test]
fn without_a_collector_the_producers_context_is_delivered_as_it_came() {
    let receiver = Server::answering(200);
    let process = Process::serve(&[]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    assert_eq!(receiver.asked().header("traceparent"), Some(traceparent("01").as_str()));
    process.enqueue(&receiver.url, None);
    assert_eq!(receiver.asked().header("traceparent"), None);
    let log = process.stop();
    assert!(!log.iter().any(|line| line.contains("traces")), "{log:?}");
}

#[test]
fn a_collector_that_is_down_costs_one_warning_and_no_delivery() {
    // Bound, so that nobody else gets the port, but not listening.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    let receiver = Server::answering(200);
    let mut process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    assert_eq!(parts(receiver.asked().header("traceparent").unwrap()).trace_id, TRACE);
    let complaint = process.until_said(COMPLAINT);
    assert!(complaint.contains(r#""level":"WARN""#) && complaint.contains("refused"), "{complaint}");

    process.enqueue(&receiver.url, Some(&traceparent("01")));
    receiver.asked();
    let log = process.stop();
    let complaints: Vec<_> = log.iter().filter(|line| line.contains(COMPLAINT)).collect();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
}

#[test]
fn a_collector_that_refuses_is_named_with_what_it_answered() {
    let (collector, receiver) = (Server::answering(401), Server::answering(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, None);
    receiver.asked();
    let log = process.stop();
    let complaint = log.iter().find(|line| line.contains(COMPLAINT)).unwrap();
    assert!(complaint.contains("401") && complaint.contains(&collector.url), "{complaint}");
}

#[test]
fn a_collector_that_never_answers_does_not_keep_a_process_from_ending() {
    let (collector, receiver) = (Server::silent(), Server::answering(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, None);
    receiver.asked();
    // It is given two seconds at the end, and ten where there is time.
    let log = process.stop();
    let ended = log.iter().find(|line| line.contains("no more traces")).unwrap();
    assert!(ended.contains(r#""flushed":false"#), "{ended}");
    assert!(!log.iter().any(|line| line.contains(COMPLAINT)), "{log:?}");
}

#[test]
fn one_dispatch_exports_before_it_ends() {
    let (collector, receiver) = (Server::answering(200), Server::answering(200));
    let process = Process::serve_without_worker(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    process.run_beside(&["dispatch", "--once"], &[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    let sent = receiver.asked();
    let [span] = exported(&collector).try_into().unwrap();
    assert_eq!(parts(sent.header("traceparent").unwrap()).parent_id, span.span_id);
    process.stop();
}

#[test]
fn a_collector_is_reached_through_tls_at_the_path_that_is_given() {
    let (collector, certificate) = Server::secure();
    let receiver = Server::answering(200);
    let trusted = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&trusted, certificate).unwrap();
    let environment = [
        ("POSTHASTE_OTLP_ENDPOINT", format!("{}/otlp/traces", collector.url)),
        ("SSL_CERT_FILE", trusted.path().to_str().unwrap().to_owned()),
    ];
    let process = Process::serve(&environment.each_ref().map(|(name, value)| (*name, value.as_str())));
    process.enqueue(&receiver.url, None);
    receiver.asked();
    process.stop();
    let export = collector.asked();
    assert_eq!((export.line.as_str(), spans::read(&export).len()), ("POST /otlp/traces", 1));
}
