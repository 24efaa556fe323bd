//! The baseline: hyper-util's pooled client, with a signature and nothing else.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{Lease, Timestamp};
use posthaste_engine::host_time;

/// A pooled client without deadline, guard or limits.
pub(crate) struct BareClient {
    client: Client<HttpConnector, Full<Bytes>>,
    keys: SigningKeys,
}

impl BareClient {
    pub(crate) fn new(keys: SigningKeys, in_flight: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(in_flight).build(connector);
        Self { client, keys }
    }

    /// Sends one request. Returns whether it was delivered.
    pub(crate) async fn send(&self, lease: &Lease) -> bool {
        let now: Timestamp = host_time();
        let request = Request::post(lease.destination_url.as_str())
            .header("content-type", &lease.content_type)
            .header("user-agent", "bare")
            .header("webhook-id", lease.event_id.as_str())
            .header("webhook-timestamp", now.as_secs())
            .header("webhook-signature", self.keys.sign(&lease.event_id, now, lease.payload.expect_loaded()))
            .header("idempotency-key", lease.event_id.as_str())
            .header("posthaste-event-type", &lease.event_type)
            .header("posthaste-attempt", lease.attempt())
            .body(Full::new(lease.payload.expect_loaded().clone()))
            .expect("the headers are valid");
        let Ok(response) = self.client.request(request).await else { return false };
        let delivered = response.status().is_success();
        delivered && response.into_body().collect().await.is_ok()
    }
}
