//! Enqueues a backlog that waits until the measured product starts.
//!
//! The events go through the API of a `posthaste serve` whose only slot is held by a receiver that hangs, so that it sends
//! none of them. This works with any build and any schema of the product.

use std::path::Path;
use std::time::Duration;

use crate::clock::{now, sleep};
use crate::database::Database;
use crate::payload::{PAYLOAD_BYTES, enqueue_body, event, payload};
use crate::product::{Api, Product};
use crate::sink::{Behaviour, Sink};

/// Events per request, the most that the API accepts, unless their payloads are large.
const EVENTS_PER_REQUEST: usize = 1_000;
/// Most bytes of payloads in one request.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// Requests at the same time.
const CONCURRENT_REQUESTS: usize = 2;
/// Group of the receiver that holds the slot.
const HOLDER: &str = "holder";
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A product that accepts events and sends none.
struct Loader {
    product: Product,
    holder_id: String,
}

impl Loader {
    async fn start(binary: &Path, database: &Database, sink: &mut Sink) -> Self {
        let settings = ["--concurrency", "1", "--timeout-seconds", "86400", "--shutdown-seconds", "0"];
        let product = Product::start(binary, database.url(), database.directory(), &settings).await;
        let held = sink.count(HOLDER);
        let holder = event(&sink.url(HOLDER, Behaviour::Hang, 0), &payload(0, PAYLOAD_BYTES));
        let response = product.api().enqueue(holder).await;
        let response: serde_json::Value = serde_json::from_slice(&response).expect("the response is JSON");
        let holder_id = response["event_id"].as_str().expect("the response has the id").to_owned();
        let deadline = now() + Duration::from_secs(30);
        while sink.count(HOLDER) == held {
            assert!(now() < deadline, "the receiver that hangs got no request");
            sleep(Duration::from_millis(5)).await;
        }
        Self { product, holder_id }
    }

    fn api(&self) -> &Api {
        self.product.api()
    }

    /// Stops the product. The event that held the slot is cancelled, so that only the backlog is left.
    async fn stop(self) {
        self.product.api().cancel(&self.holder_id).await;
        self.product.stop(STOP_PATIENCE).await;
    }
}

/// Stores a backlog of `count` events, spread evenly over the URLs, in an empty database.
pub(crate) async fn store_backlog(
    binary: &Path,
    database: &Database,
    sink: &mut Sink,
    urls: &[String],
    count: usize,
) {
    sink.reset();
    let loader = Loader::start(binary, database, sink).await;
    enqueue_all(loader.api(), urls, count, PAYLOAD_BYTES).await;
    loader.stop().await;
}

/// Enqueues `count` events, spread evenly over the URLs.
pub(crate) async fn enqueue_all(api: &Api, urls: &[String], count: usize, payload_bytes: usize) {
    let per_request = EVENTS_PER_REQUEST.min(REQUEST_BYTES_MAX / payload_bytes).max(1);
    let payload = payload(0, payload_bytes);
    let requests = count.div_ceil(per_request);
    let client = |first_request: usize| {
        let payload = &payload;
        async move {
            for request in (first_request..requests).step_by(CONCURRENT_REQUESTS) {
                let events = request * per_request..((request + 1) * per_request).min(count);
                let body = enqueue_body(events.map(|n| urls[n % urls.len()].as_str()), payload);
                api.enqueue(body).await;
            }
        }
    };
    tokio::join!(client(0), client(1));
}
