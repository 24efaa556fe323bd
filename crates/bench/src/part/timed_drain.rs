//! Drains a backlog that is stored already, and times it.

use std::time::Duration;

use crate::clock::{now, sleep, unix_micros};
use crate::database::Database;
use crate::part::STOP_PATIENCE;
use crate::product::Product;
use crate::rate;
use crate::run::Run;

/// A drain that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(10);

/// The result of a drain.
pub(crate) struct TimedDrain {
    events: usize,
    /// From the first arrival until all deliveries are settled.
    elapsed: Duration,
    pub(crate) connections: u64,
    pub(crate) product_cpu: Duration,
    /// The processor time of each thread of the products, with its name.
    pub(crate) thread_times: Vec<(String, Duration)>,
    pub(crate) server_cpu: Option<Duration>,
    pub(crate) sink_cpu: Duration,
    /// Of the process with the most memory.
    pub(crate) peak_memory_bytes: u64,
}

impl TimedDrain {
    pub(crate) fn rate(&self) -> f64 {
        rate(self.events, self.elapsed)
    }

    /// Returns a processor time as microseconds per event.
    pub(crate) fn micros_per_event(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.events as f64
    }
}

/// Starts `workers` products on a database with a backlog of `events` for a group of the sink, and waits until the
/// deliveries are settled.
pub(crate) async fn drain(
    run: &mut Run,
    database: &Database,
    group: &str,
    events: usize,
    workers: usize,
) -> TimedDrain {
    assert_eq!(run.sink.count(group), 0, "no event of the backlog may be sent before the drain");
    run.sink.reset();
    let (server_before, sink_before) = (database.server_time(), run.sink.cpu_time());
    let start = |_| Product::spawn(&run.binary, database.url(), database.directory(), &[]);
    let mut products: Vec<Product> = (0..workers).map(start).collect();
    for product in &mut products {
        product.wait_until_ready().await;
    }
    let deadline = now() + PATIENCE;
    loop {
        let arrived = run.sink.count(group);
        if arrived >= events && products[0].api().delivered().await >= events {
            break;
        }
        assert!(now() < deadline, "only {arrived} of {events} events were delivered in time");
        sleep(POLL).await;
    }
    let settled_micros = unix_micros();
    let report = run.sink.group(group);
    let result = TimedDrain {
        events,
        elapsed: Duration::from_micros(settled_micros.saturating_sub(report.first_micros)),
        connections: run.sink.connections(),
        product_cpu: products.iter().map(Product::cpu_time).sum(),
        thread_times: products.iter().flat_map(Product::thread_times).collect(),
        server_cpu: database.server_time().zip(server_before).map(|(after, before)| after - before),
        sink_cpu: run.sink.cpu_time() - sink_before,
        peak_memory_bytes: products.iter().map(Product::peak_memory_bytes).max().unwrap_or_default(),
    };
    if report.requests > report.events {
        println!("  {} requests were duplicates", report.requests - report.events);
    }
    for product in products {
        product.stop(STOP_PATIENCE).await;
    }
    result
}
