//! Traces of the built command: from the producer, through the queue, to the receiver and the collector.
#![expect(clippy::unwrap_used, reason = "an error fails its test")]

#[path = "traces/process.rs"]
mod process;
#[path = "traces/server.rs"]
mod server;
#[path = "traces/spans.rs"]
mod spans;

use std::net::SocketAddr;

use process::Process;
use server::Server;
use spans::{ExportedSpan, exported_spans, parse_spans, parse_traceparent};
use tokio::net::TcpSocket;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PRODUCER_SPAN_ID: &str = "00f067aa0ba902b7";
/// The log message about a failing collector.
const EXPORT_FAILED: &str = "traces cannot be exported";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE_ID}-{PRODUCER_SPAN_ID}-{flags}")
}

#[test]
fn producers_trace_continues_in_the_span_and_in_the_delivery() {
    let (collector, receiver) = (Server::responding(200), Server::responding(204));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    let delivery = receiver.next_request();
    process.stop();

    let [span] = exported_spans(&collector).try_into().unwrap();
    let sent = parse_traceparent(delivery.header("traceparent").unwrap());
    assert_eq!((span.trace_id.as_str(), span.parent_id.as_str()), (TRACE_ID, PRODUCER_SPAN_ID));
    assert_eq!((sent.trace_id, sent.parent_id, sent.flags), (TRACE_ID, span.span_id.as_str(), "01"));
    assert_eq!(span.attribute("posthaste.event_id"), delivery.header("webhook-id").unwrap());
    assert!(!span.failed);
}

#[test]
fn span_names_its_process_and_contains_no_secret() {
    let (collector, receiver) = (Server::responding(200), Server::responding(200));
    let environment =
        [("POSTHASTE_OTLP_ENDPOINT", collector.url.as_str()), ("POSTHASTE_WORKER_ID", "worker-17")];
    let process = Process::serve(&environment);
    process.enqueue(&format!("{}/hook?token=hunter2", receiver.url), None);
    let delivery = receiver.next_request();
    process.stop();

    let export = collector.next_request();
    assert_eq!(export.line, "POST /v1/traces");
    assert_eq!(export.header("content-type"), Some("application/x-protobuf"));
    let bytes = String::from_utf8_lossy(&export.body);
    let [span] = parse_spans(&export).try_into().unwrap();
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
fn failed_attempt_is_an_error_span() {
    let (collector, receiver) = (Server::responding(200), Server::responding(503));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    receiver.next_request();
    process.stop();

    let [span] = exported_spans(&collector).try_into().unwrap();
    assert!(span.failed);
    let keys = ["http.response.status_code", "error.type", "posthaste.verdict"];
    assert_eq!(keys.map(|key| span.attribute(key)), ["503", "503", "retry"]);
}

#[test]
fn invalid_traceparent_starts_a_new_trace_and_the_event_is_delivered() {
    let (collector, receiver) = (Server::responding(200), Server::responding(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    let zeros = format!("00-{}-{PRODUCER_SPAN_ID}-01", "0".repeat(32));
    let mut deliveries = Vec::new();
    for invalid in [Some("not a traceparent"), Some(&zeros), None] {
        process.enqueue(&receiver.url, invalid);
        deliveries.push(receiver.next_request());
    }
    process.stop();

    let spans = exported_spans(&collector);
    assert_eq!(spans.len(), deliveries.len());
    for delivery in &deliveries {
        let sent = parse_traceparent(delivery.header("traceparent").unwrap());
        let is_of_delivery =
            |span: &&ExportedSpan| span.trace_id == sent.trace_id && span.span_id == sent.parent_id;
        let span = spans.iter().find(is_of_delivery).unwrap();
        assert!(span.parent_id.is_empty() && sent.trace_id != TRACE_ID && sent.flags == "01", "{span:?}");
    }
}

#[test]
fn unsampled_traceparent_is_delivered_unchanged_without_a_span() {
    let (collector, receiver) = (Server::responding(200), Server::responding(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("00")));
    assert_eq!(receiver.next_request().header("traceparent"), Some(traceparent("00").as_str()));
    process.stop();
    assert!(exported_spans(&collector).is_empty());
}

#[test]
fn without_a_collector_the_traceparent_is_delivered_unchanged() {
    let receiver = Server::responding(200);
    let process = Process::serve(&[]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    assert_eq!(receiver.next_request().header("traceparent"), Some(traceparent("01").as_str()));
    process.enqueue(&receiver.url, None);
    assert_eq!(receiver.next_request().header("traceparent"), None);
    let log = process.stop();
    assert!(!log.iter().any(|line| line.contains("traces")), "{log:?}");
}

#[test]
fn unreachable_collector_costs_one_warning_and_no_delivery() {
    // Bound but not listening, so that connections are refused and no other process gets the port.
    let unused = TcpSocket::new_v4().unwrap();
    unused.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    let receiver = Server::responding(200);
    let mut process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    assert_eq!(parse_traceparent(receiver.next_request().header("traceparent").unwrap()).trace_id, TRACE_ID);
    let warning = process.wait_for_log(EXPORT_FAILED);
    assert!(warning.contains(r#""level":"WARN""#) && warning.contains("refused"), "{warning}");

    process.enqueue(&receiver.url, Some(&traceparent("01")));
    receiver.next_request();
    let log = process.stop();
    let warnings: Vec<_> = log.iter().filter(|line| line.contains(EXPORT_FAILED)).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn rejecting_collector_is_logged_with_its_status() {
    let (collector, receiver) = (Server::responding(401), Server::responding(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, None);
    receiver.next_request();
    let log = process.stop();
    let warning = log.iter().find(|line| line.contains(EXPORT_FAILED)).unwrap();
    assert!(warning.contains("401") && warning.contains(&collector.url), "{warning}");
}

#[test]
fn silent_collector_does_not_delay_the_end_of_the_process() {
    let (collector, receiver) = (Server::silent(), Server::responding(200));
    let process = Process::serve(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, None);
    receiver.next_request();
    // The process waits a few seconds for the export, less than the timeout of the export itself.
    let log = process.stop();
    let ended = log.iter().find(|line| line.contains("trace export stopped")).unwrap();
    assert!(ended.contains(r#""flushed":false"#), "{ended}");
    assert!(!log.iter().any(|line| line.contains(EXPORT_FAILED)), "{log:?}");
}

#[test]
fn dispatch_once_exports_its_spans_before_it_ends() {
    let (collector, receiver) = (Server::responding(200), Server::responding(200));
    let process = Process::serve_without_worker(&[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    process.enqueue(&receiver.url, Some(&traceparent("01")));
    process.run_command(&["dispatch", "--once"], &[("POSTHASTE_OTLP_ENDPOINT", &collector.url)]);
    let sent = receiver.next_request();
    let [span] = exported_spans(&collector).try_into().unwrap();
    assert_eq!(parse_traceparent(sent.header("traceparent").unwrap()).parent_id, span.span_id);
    process.stop();
}

#[test]
fn collector_is_reached_over_tls_at_the_configured_path() {
    let (collector, certificate) = Server::with_tls();
    let receiver = Server::responding(200);
    let ca_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&ca_file, certificate).unwrap();
    let environment = [
        ("POSTHASTE_OTLP_ENDPOINT", format!("{}/otlp/traces", collector.url)),
        ("SSL_CERT_FILE", ca_file.path().to_str().unwrap().to_owned()),
    ];
    let process = Process::serve(&environment.each_ref().map(|(name, value)| (*name, value.as_str())));
    process.enqueue(&receiver.url, None);
    receiver.next_request();
    process.stop();
    let export = collector.next_request();
    assert_eq!((export.line.as_str(), parse_spans(&export).len()), ("POST /otlp/traces", 1));
}
