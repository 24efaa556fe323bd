//! The two take turns on the same sink.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, Lease, Verdict};
use posthaste_engine::Sender as _;
use posthaste_sender::{AllowedNetworks, HttpSender, SenderOptions};
use tokio::task::JoinSet;

#[path = "../../tests/support/lease.rs"]
mod lease;

use crate::bare::Bare;
use crate::sink::Sink;

const IN_FLIGHT: usize = 256;
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
pub(crate) struct Size {
    rounds: usize,
    requests: usize,
}

impl Size {
    pub(crate) const FULL: Self = Self { rounds: 11, requests: 20_000 };
    pub(crate) const TRIAL: Self = Self { rounds: 1, requests: 500 };
}

/// One round of one contestant.
struct Round {
    rate: f64,
    cpu_micros: f64,
}

pub(crate) async fn hold(payload_bytes: usize, size: Size) {
    let sink = Sink::start();
    let lease = Arc::new(lease(&sink, payload_bytes));
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::loopback();
    options.pool_size = IN_FLIGHT;
    let ours = Arc::new(HttpSender::new(options, keys()).expect("the options are valid"));
    let bare = Arc::new(Bare::new(keys(), IN_FLIGHT));

    let (mut of_ours, mut of_bare) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        of_bare.push(
            round(size.requests, &bare, &lease, |bare, lease| async move { bare.send(&lease).await }).await,
        );
        of_ours.push(
            round(size.requests, &ours, &lease, |ours, lease| async move {
                ours.send(&lease, TIMEOUT).await.verdict() == Verdict::Delivered
            })
            .await,
        );
    }

    let Size { rounds, requests } = size;
    println!(
        "payload of {payload_bytes} bytes, {IN_FLIGHT} in flight, {rounds} rounds of {requests} requests each"
    );
    let ((our_rate, our_cpu), (bare_rate, bare_cpu)) = (medians(&of_ours), medians(&of_bare));
    println!("  posthaste   {our_rate:>8.0} requests/s   {our_cpu:>6.1} µs of processor time per request");
    println!("  bare client {bare_rate:>8.0} requests/s   {bare_cpu:>6.1} µs");
    println!("  ratio       {:>8.2}              {:>6.2}", our_rate / bare_rate, our_cpu / bare_cpu);
}

async fn round<S, F>(
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
    let (started, cpu_before) = (now(), cpu());
    let mut lanes = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (left, sender, lease) = (Arc::clone(&left), Arc::clone(sender), Arc::clone(lease));
        lanes.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                assert!(send(Arc::clone(&sender), Arc::clone(&lease)).await, "the sink takes everything");
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no lane fails");
    }
    let count = f64::from(u32::try_from(requests).expect("rounds are short"));
    Round {
        rate: count / (now() - started).as_secs_f64(),
        cpu_micros: (cpu() - cpu_before).as_secs_f64() * 1e6 / count,
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

/// Of this process so far, from ticks of a hundredth of a second. Linux only.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux tells processor times");
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
    Lease { payload: Bytes::from(vec![b'x'; payload_bytes]), ..lease::lease(url) }
}
