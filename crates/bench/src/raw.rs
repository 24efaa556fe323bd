//! The raw client: hyper-util's pooled client that signs and sends, in a process of its own.
//!
//! It has no store, no deadline, no guard and no limits, so its rate is an upper bound for this machine and this sink.
//! Ratios to it depend less on the machine than rates do.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{EventId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::clock::{now, unix_micros};
use crate::payload::{PAYLOAD_BYTES, payload};
use crate::process;
use crate::rate;

/// Name of the hidden subcommand that runs the raw client.
pub(crate) const SUBCOMMAND: &str = "raw";

const IN_FLIGHT: usize = 256;
/// Requests that open the connections and are not measured.
const WARM_UP: usize = 20_000;

/// The result of one run of the raw client.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RawRun {
    pub(crate) rate: f64,
    pub(crate) cpu_micros: f64,
}

/// Sends `requests` requests to the URLs in turn, in a new process.
pub(crate) fn measure(urls: &[String], requests: usize) -> RawRun {
    let program = std::env::current_exe().expect("this program has a path");
    let mut process = Command::new(program)
        .args([SUBCOMMAND, &requests.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let mut stdin = process.stdin.take().expect("stdin is piped");
    stdin.write_all(urls.join("\n").as_bytes()).expect("the raw client reads its URLs");
    drop(stdin);
    let output = process.wait_with_output().expect("the raw client ends");
    assert!(output.status.success(), "the raw client failed");
    serde_json::from_slice(&output.stdout).expect("the raw client prints its result")
}

/// Runs the raw client with the URLs on standard input, and prints the result.
pub(crate) fn run(requests: usize) {
    let mut urls = String::new();
    std::io::stdin().read_to_string(&mut urls).expect("the benchmark writes the URLs");
    let urls: Vec<Uri> = urls.lines().map(|url| url.parse().expect("the URLs are valid")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    let result = runtime.block_on(send_all(urls, requests));
    println!("{}", serde_json::to_string(&result).expect("a result is valid JSON"));
}

/// What all tasks of the client share.
struct RawClient {
    client: Client<HttpConnector, Full<Bytes>>,
    keys: SigningKeys,
    payload: Bytes,
    urls: Vec<Uri>,
}

async fn send_all(urls: Vec<Uri>, requests: usize) -> RawRun {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(IN_FLIGHT).build(connector);
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("the secret is valid");
    let keys = SigningKeys::new(vec![secret]).expect("there is one secret");
    let payload = Bytes::from(payload(0, PAYLOAD_BYTES));
    let raw = Arc::new(RawClient { client, keys, payload, urls });
    send_concurrently(&raw, WARM_UP).await;
    let cpu = || process::process_time(std::process::id()).unwrap_or_default();
    let (started, cpu_before) = (now(), cpu());
    send_concurrently(&raw, requests).await;
    RawRun {
        rate: rate(requests, now() - started),
        cpu_micros: (cpu() - cpu_before).as_secs_f64() * 1e6 / requests as f64,
    }
}

async fn send_concurrently(raw: &Arc<RawClient>, requests: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (raw, next) = (Arc::clone(raw), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return;
                }
                raw.send(number).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the sink accepts every request");
    }
}

impl RawClient {
    /// Sends one request with the headers that the product sends.
    async fn send(&self, number: usize) {
        let event_id = EventId::new(format!("msg_{number:032x}")).expect("the id is valid");
        let now = Timestamp::from_micros(i64::try_from(unix_micros()).unwrap_or(i64::MAX));
        let request = Request::post(self.urls[number % self.urls.len()].clone())
            .header("content-type", "application/json")
            .header("user-agent", "raw")
            .header("webhook-id", event_id.as_str())
            .header("webhook-timestamp", now.as_secs())
            .header("webhook-signature", self.keys.sign(&event_id, now, &self.payload))
            .header("idempotency-key", event_id.as_str())
            .header("posthaste-event-type", "invoice.paid")
            .header("posthaste-attempt", 1)
            .body(Full::new(self.payload.clone()))
            .expect("the headers are valid");
        let response = self.client.request(request).await.expect("the sink responds");
        assert!(response.status().is_success(), "the sink accepts every request");
        response.into_body().collect().await.expect("the sink completes its response");
    }
}
