//! The lag of healthy receivers, alone and beside a crowd.
//!
//! Each crowd has a fresh store and a fresh product. Healthy traffic runs alone first, so that the product knows the healthy
//! receivers. Then the events of the crowd are enqueued, and then the healthy traffic is measured again.

use std::time::Duration;

use crate::backlog::enqueue_all;
use crate::crowd::{Crowd, CrowdEvents, GROUP};
use crate::database::Database;
use crate::link::Link;
use crate::options::StoreKind;
use crate::part::latency::send_steadily;
use crate::payload::payload;
use crate::percentile::Percentiles;
use crate::product::{Api, Product};
use crate::run::Run;

const HEALTHY: &str = "healthy";
const WARM_UP: Duration = Duration::from_secs(2);
const ALONE: Duration = Duration::from_secs(10);
const BESIDE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    for crowd in run.crowds.clone() {
        if crowd.link_bytes_per_second().is_some() && kind == StoreKind::Sqlite {
            println!("  {}: only with PostgreSQL", crowd.title());
            continue;
        }
        measure_crowd(run, kind, crowd, 1).await;
        if kind == StoreKind::Postgres {
            measure_crowd(run, kind, crowd, 2).await;
        }
    }
}

async fn measure_crowd(run: &mut Run, kind: StoreKind, crowd: Crowd, workers: usize) {
    let database = run.servers.create(kind);
    let (_link, url) = match crowd.link_bytes_per_second() {
        Some(bytes_per_second) => {
            let port = database.postgres_port().expect("only PostgreSQL has a link");
            let link = Link::start(port, bytes_per_second).await;
            let url = database.url().replace(&format!(":{port}/"), &format!(":{}/", link.port()));
            (Some(link), url)
        }
        None => (None, database.url().to_owned()),
    };
    let mut products: Vec<Product> =
        (0..workers).map(|_| Product::spawn(&run.binary, &url, database.directory(), &[])).collect();
    for product in &mut products {
        product.wait_until_ready().await;
    }
    let api = products[0].api();
    send_healthy(run, api, WARM_UP).await;
    let alone = send_healthy(run, api, run.scale.duration(ALONE)).await;
    let events = crowd.events(&run.sink, run.scale);
    run.sink.reset();
    enqueue_crowd(&database, api, crowd, &events).await;
    if kind == StoreKind::Postgres {
        // Otherwise the system writes the pages of a million events some seconds later, and each flush of the log waits for it.
        database.sql("CHECKPOINT");
    }
    let beside = send_steadily(api, &mut run.sink, HEALTHY, run.scale.duration(BESIDE)).await;

    run.record(kind, &crowd.figure_key(workers, "alone_p99"), alone.p99);
    run.record(kind, &crowd.figure_key(workers, "p50"), beside.p50);
    run.record(kind, &crowd.figure_key(workers, "p99"), beside.p99);
    if crowd.progress_title().is_some() {
        let reached = run.sink.count(GROUP) as f64 / events.count as f64;
        run.record(kind, &crowd.figure_key(workers, "progress"), reached);
    }
    // Dropping the products kills them: requests to receivers that hang would delay a stop.
}

/// Sends healthy traffic without a crowd.
async fn send_healthy(run: &mut Run, api: &Api, duration: Duration) -> Percentiles {
    run.sink.reset();
    send_steadily(api, &mut run.sink, HEALTHY, duration).await
}

/// Enqueues the events of a crowd: through the API, or in SQL if the product's link is throttled.
async fn enqueue_crowd(database: &Database, api: &Api, crowd: Crowd, events: &CrowdEvents) {
    let CrowdEvents { urls, count, payload_bytes } = events;
    if crowd.link_bytes_per_second().is_none() {
        return enqueue_all(api, urls, *count, *payload_bytes).await;
    }
    let (payload, length) = (payload(0, *payload_bytes), urls.len());
    let urls = urls.join("','");
    database.sql(&format!(
        "SELECT count(app.enqueue_webhook((ARRAY['{urls}'])[1 + n % {length}], 'invoice.paid', '{payload}'::json))
         FROM generate_series(1, {count}) n;"
    ));
}
