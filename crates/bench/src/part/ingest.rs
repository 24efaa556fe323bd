//! 64 clients that enqueue single events over HTTP while the product delivers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock::{now, sleep};
use crate::options::StoreKind;
use crate::part::{STOP_PATIENCE, beside_raw};
use crate::payload::{PAYLOAD_BYTES, event, payload};
use crate::product::{Api, Product};
use crate::rate;
use crate::run::Run;
use crate::sink::Behaviour;

const EVENTS: usize = 100_000;
const CLIENTS: usize = 64;
const GROUP: &str = "ingest";
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let events = run.scale.count(EVENTS);
    let database = run.servers.create(kind);
    let url = |group: &str, number: usize| run.sink.url(group, Behaviour::Accept, number);
    let bodies: Vec<String> =
        (0..20).map(|number| event(&url(GROUP, number), &payload(0, PAYLOAD_BYTES))).collect();
    let raw_urls: Vec<String> = (0..20).map(|number| url("raw", number)).collect();
    run.sink.reset();
    let ((elapsed, product_cpu, server_cpu), raw) = beside_raw(run, &raw_urls, async |run| {
        let server_before = database.server_time();
        let product = Product::start(&run.binary, database.url(), database.directory(), &[]).await;
        let started = now();
        enqueue_concurrently(product.api(), bodies, events).await;
        while run.sink.count(GROUP) < events || product.api().delivered().await < events {
            assert!(now() - started < PATIENCE, "the events were not delivered in time");
            sleep(Duration::from_millis(10)).await;
        }
        let elapsed = now() - started;
        let server_cpu = database.server_time().zip(server_before).map(|(after, before)| after - before);
        let product_cpu = product.cpu_time();
        product.stop(STOP_PATIENCE).await;
        (elapsed, product_cpu, server_cpu)
    })
    .await;
    let micros_per_event = |cpu: Duration| cpu.as_secs_f64() * 1e6 / events as f64;
    run.record(kind, "ingest", rate(events, elapsed) / raw.rate);
    run.record(kind, "ingest_rate", rate(events, elapsed));
    run.record(kind, "ingest_cpu_product", micros_per_event(product_cpu));
    if let Some(server_cpu) = server_cpu {
        run.record(kind, "ingest_cpu_server", micros_per_event(server_cpu));
    }
}

/// Enqueues events from concurrent clients, each of which waits for its response.
async fn enqueue_concurrently(api: &Api, bodies: Vec<String>, events: usize) {
    let (next, bodies) = (Arc::new(AtomicUsize::new(0)), Arc::new(bodies));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (api, next, bodies) = (api.clone(), Arc::clone(&next), Arc::clone(&bodies));
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= events {
                    return;
                }
                api.enqueue(bodies[number % bodies.len()].clone()).await;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("the product accepts every event");
    }
}
