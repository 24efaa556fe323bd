//! Runs both clients alternately against one sink, and prints the medians.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{Classification, DestinationUrl, Lease};
use posthaste_engine::{Sender as _, SharedProfiles, SharedSigningKeys, host_time};
use posthaste_sender::{AllowedNetworks, HttpSender, SenderOptions};
use tokio::task::JoinSet;

#[path = "../../tests/support/lease.rs"]
mod lease;

use crate::bare::BareClient;
use crate::sink::Sink;

const IN_FLIGHT: usize = 256;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The length of a benchmark.
#[derive(Clone, Copy)]
pub(crate) struct BenchmarkSize {
    rounds: usize,
    requests: usize,
}

impl BenchmarkSize {
    pub(crate) const FULL: Self = Self { rounds: 11, requests: 20_000 };
    pub(crate) const TRIAL: Self = Self { rounds: 1, requests: 500 };
}

/// The result of one round of one client.
struct Round {
    rate: f64,
    cpu_micros: f64,
}

/// Compares the clients with payloads of this size.
pub(crate) async fn run(payload_bytes: usize, size: BenchmarkSize) {
    let sink = Sink::start();
    let lease = Arc::new(lease(&sink, payload_bytes));
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::loopback();
    options.pool_size = IN_FLIGHT;
    let (keys_of_instance, profiles) = (SharedSigningKeys::new(keys()), SharedProfiles::default());
    let ours =
        Arc::new(HttpSender::new(&options, keys_of_instance, profiles).expect("the options are valid"));
    let bare = Arc::new(BareClient::new(keys(), IN_FLIGHT));

    let (mut our_rounds, mut bare_rounds) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        bare_rounds.push(
            run_round(size.requests, &bare, &lease, |bare, lease| async move { bare.send(&lease).await })
                .await,
        );
        our_rounds.push(
            run_round(size.requests, &ours, &lease, |ours, lease| async move {
                ours.send(&lease, host_time(), TIMEOUT)
                    .await
                    .is_ok_and(|outcome| outcome.classify() == Classification::Delivered)
            })
            .await,
        );
    }

    let BenchmarkSize { rounds, requests } = size;
    println!(
        "payload of {payload_bytes} bytes, {IN_FLIGHT} in flight, {rounds} rounds of {requests} requests each"
    );
    let ((our_rate, our_cpu), (bare_rate, bare_cpu)) = (medians(&our_rounds), medians(&bare_rounds));
    println!("  posthaste   {our_rate:>8.0} requests/s   {our_cpu:>6.1} µs of processor time per request");
    println!("  bare client {bare_rate:>8.0} requests/s   {bare_cpu:>6.1} µs");
    println!("  ratio       {:>8.2}              {:>6.2}", our_rate / bare_rate, our_cpu / bare_cpu);
}

async fn run_round<S, F>(
    requests: usize,
    sender: &Arc<S>,
    lease: &Arc<Lease>,
    send: fn(Arc<S>, Arc<Lease>) -> F,
) -> Round
where
    S: Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let left = Arc::new(AtomicUsize::new(requests));
    let (started, cpu_before) = (now(), cpu_time());
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (left, sender, lease) = (Arc::clone(&left), Arc::clone(sender), Arc::clone(lease));
        tasks.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                assert!(
                    send(Arc::clone(&sender), Arc::clone(&lease)).await,
                    "the sink accepts every request"
                );
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no task panics");
    }
    let count = f64::from(u32::try_from(requests).expect("rounds are short"));
    Round {
        rate: count / (now() - started).as_secs_f64(),
        cpu_micros: (cpu_time() - cpu_before).as_secs_f64() * 1e6 / count,
    }
}

fn medians(rounds: &[Round]) -> (f64, f64) {
    let median = |pick: fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(pick).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (median(|round| round.rate), median(|round| round.cpu_micros))
}

/// Returns the processor time of this process, in ticks of 10 ms. Linux only.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has /proc");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u32>().expect("a number");
    Duration::from_millis(10) * (ticks(11) + ticks(12))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}

fn keys() -> SigningKeys {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a valid secret");
    SigningKeys::new(vec![secret]).expect("one secret")
}

fn lease(sink: &Sink, payload_bytes: usize) -> Lease {
    let url = DestinationUrl::parse(&format!("http://{}/hook", sink.address)).expect("a valid URL");
    Lease { payload: Bytes::from(vec![b'x'; payload_bytes]).into(), ..lease::lease(url) }
}
