//! The time from an API call to the arrival at the receiver, at a steady rate.

use std::time::Duration;

use crate::clock::{now, sleep, sleep_until, unix_micros};
use crate::options::StoreKind;
use crate::part::STOP_PATIENCE;
use crate::payload::{PAYLOAD_BYTES, event, payload};
use crate::percentile::Percentiles;
use crate::product::{Api, Product};
use crate::run::Run;
use crate::sink::{Behaviour, Sink};

const DURATION: Duration = Duration::from_secs(20);
/// Time between two events: 50 per second.
const INTERVAL: Duration = Duration::from_millis(20);
const DESTINATIONS: usize = 10;
/// How long after its last event a phase waits for late arrivals.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let database = run.servers.create(kind);
    let product = Product::start(&run.binary, database.url(), database.directory(), &[]).await;
    send_steadily(product.api(), &mut run.sink, "warmup", Duration::from_secs(2)).await;
    let duration = run.scale.duration(DURATION);
    let lags = send_steadily(product.api(), &mut run.sink, "latency", duration).await;
    product.stop(STOP_PATIENCE).await;
    run.record(kind, "latency_p50", lags.p50);
    run.record(kind, "latency_p99", lags.p99);
}

/// Sends 50 events per second to healthy receivers of a group, and returns their lags in milliseconds. An event that has
/// not arrived at the end has an infinite lag.
pub(crate) async fn send_steadily(
    api: &Api,
    sink: &mut Sink,
    group: &str,
    duration: Duration,
) -> Percentiles {
    let urls: Vec<String> =
        (0..DESTINATIONS).map(|number| sink.url(group, Behaviour::Accept, number)).collect();
    let (started, mut sent) = (now(), 0);
    let mut calls = tokio::task::JoinSet::new();
    while now() - started < duration {
        let (api, url) = (api.clone(), urls[sent % urls.len()].clone());
        // A slow call must not delay the next one: producers do not wait for each other.
        calls.spawn(async move { api.enqueue(event(&url, &payload(unix_micros(), PAYLOAD_BYTES))).await });
        sent += 1;
        sleep_until(started + INTERVAL * u32::try_from(sent).expect("a phase is short")).await;
    }
    let deadline = now() + GRACE;
    while sink.count(group) < sent && now() < deadline {
        sleep(Duration::from_millis(20)).await;
    }
    let report = sink.group(group);
    let arrived = usize::try_from(report.events).unwrap_or(usize::MAX).min(sent);
    let lags = report.lags_micros.iter().map(|micros| *micros as f64 / 1_000.0).collect();
    calls.abort_all();
    Percentiles::new(lags, sent - arrived)
}
