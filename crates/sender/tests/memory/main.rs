//! Memory and file descriptors under misbehaving receivers: every attempt stays within its limit and frees everything. A
//! separate test binary, because the tests measure the whole process.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "../hostile/harness/mod.rs"]
#[expect(dead_code, reason = "the tests in tests/hostile use the rest")]
mod harness;

use std::time::Duration;

use peak_alloc::PeakAlloc;
use posthaste_domain::ErrorClass;
use tokio::sync::Mutex;

use crate::harness::certificates::Handshake;
use crate::harness::fixture::Fixture;
use crate::harness::frames::{
    END_STREAM, FIRST_STREAM, NEWEST_ENTRY, STATUS_103, STATUS_200, headers, indexed_literal, settings,
};
use crate::harness::script::{AMPLE, Case, Step, Transport, flood, write};
use crate::harness::time::{wait, wait_until};
use crate::harness::{behaviours_bodies, behaviours_http1, behaviours_http2, behaviours_tls};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Upper bound of memory during one attempt, for both ends of its connection together.
const ATTEMPT_BYTES_MAX: usize = 2 << 20;
/// Upper bound of memory growth after all attempts.
const GROWTH_BYTES_MAX: usize = 1 << 20;
/// Total pool size. Small, so that pooled connections are not mistaken for a leak.
const POOL_SIZE: usize = 4;
const DESCRIPTOR_GROWTH_MAX: usize = 2 * POOL_SIZE;
const ROUNDS: usize = 50;
/// Each round runs every tenth behaviour.
const STRIDE: usize = 10;
/// Time for the tasks of ended attempts to free their memory.
const CLEANUP_TIME: Duration = Duration::from_millis(20);
/// Deadline of attempts that reach their deadline; its length does not matter here.
const SHORT: Duration = Duration::from_millis(30);

/// Serializes the tests, because each measures the whole process.
static SERIAL: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn no_flood_exceeds_the_memory_limit_of_an_attempt() {
    let _serial = SERIAL.lock().await;
    let fixture = Fixture::with_pool_size(POOL_SIZE);
    let floods: Vec<Case> = all().into_iter().filter(Case::floods).collect();
    assert!(floods.len() > 40, "{} floods", floods.len());
    let mut over_limit = Vec::new();
    for case in &floods {
        // The first attempt also allocates what is allocated only once.
        attempt(&fixture, case).await;
        let ((), bytes) = peak_bytes_during(attempt(&fixture, case)).await;
        println!("{:60} {:6} KiB", case.name, bytes >> 10);
        if bytes > ATTEMPT_BYTES_MAX {
            over_limit.push((case.name, bytes));
        }
    }
    assert!(over_limit.is_empty(), "{over_limit:?}");
}

/// Over HTTP/2 many requests share a connection. Their unused shares of the receive budget must not accumulate.
#[tokio::test]
async fn a_flood_after_many_good_responses_stays_within_the_memory_limit() {
    let _serial = SERIAL.lock().await;
    let fixture = Fixture::with_pool_size(POOL_SIZE);
    let good = (0..40).map(|number| headers(END_STREAM, FIRST_STREAM + 2 * number, STATUS_200));
    let header = indexed_literal("x", "");
    let first = headers(0, FIRST_STREAM + 2 * 40, &[STATUS_103, &header].concat());
    let more = headers(0, FIRST_STREAM + 2 * 40, &[STATUS_103, &[NEWEST_ENTRY; 900]].concat());
    let steps = [write(settings(&[]))]
        .into_iter()
        .chain(good.flat_map(|response| [Step::Read, write(response)]))
        .chain([Step::Read, write(first), flood(more)]);
    let receiver = fixture.receiver(Transport::Tls(Handshake::Http2), steps.collect::<Vec<_>>()).await;
    for _ in 0..40 {
        assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
    }
    let (outcome, bytes) = peak_bytes_during(fixture.send_to(&receiver)).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::BrokenResponse), "{outcome:?}");
    println!("{:60} {:6} KiB", "a flood after forty good responses", bytes >> 10);
    assert!(bytes <= ATTEMPT_BYTES_MAX, "{bytes} bytes");
}

#[tokio::test]
async fn many_attempts_leak_neither_memory_nor_descriptors() {
    let _serial = SERIAL.lock().await;
    let fixture = Fixture::with_pool_size(POOL_SIZE);
    let cases = all();
    let round = async |number: usize| {
        for case in cases.iter().skip(number % STRIDE).step_by(STRIDE) {
            attempt(&fixture, case).await;
        }
        // Tasks of the last attempts may still be freeing memory.
        wait(CLEANUP_TIME).await;
    };
    for number in 0..STRIDE {
        round(number).await;
    }
    let (bytes_before, descriptors_before) = (ALLOCATOR.current_usage(), open_descriptors());
    for number in 0..ROUNDS {
        round(number).await;
    }
    let bytes_growth = || ALLOCATOR.current_usage().saturating_sub(bytes_before);
    let descriptor_growth = || open_descriptors().saturating_sub(descriptors_before);
    wait_until(|| bytes_growth() <= GROWTH_BYTES_MAX && descriptor_growth() <= DESCRIPTOR_GROWTH_MAX).await;
    println!("{} KiB and {} descriptors more than before", bytes_growth() >> 10, descriptor_growth());
    assert!(bytes_growth() <= GROWTH_BYTES_MAX, "{} bytes more than before", bytes_growth());
    assert!(
        descriptor_growth() <= DESCRIPTOR_GROWTH_MAX,
        "{} descriptors more than before",
        descriptor_growth()
    );
}

fn all() -> Vec<Case> {
    [behaviours_http1::all(), behaviours_bodies::all(), behaviours_tls::all(), behaviours_http2::all()]
        .into_iter()
        .flatten()
        .collect()
}

async fn attempt(fixture: &Fixture, case: &Case) {
    let receiver = fixture.receiver(case.over, case.steps.clone()).await;
    let reaches_deadline = case.deadline < AMPLE;
    let deadline = if reaches_deadline { SHORT } else { AMPLE };
    let outcome = fixture.send(&receiver.url, case.payload_bytes, deadline).await;
    assert!(reaches_deadline || case.expected.matches(&outcome), "{}: {outcome:?}", case.name);
}

/// Runs an attempt. Also returns the peak of bytes allocated during it, above the bytes allocated before.
async fn peak_bytes_during<T>(attempt: impl Future<Output = T>) -> (T, usize) {
    // Tasks of the previous attempt may still be freeing memory.
    wait(CLEANUP_TIME).await;
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let output = attempt.await;
    (output, ALLOCATOR.peak_usage() - before)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
