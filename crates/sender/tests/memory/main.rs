//! Memory and sockets under receivers that send without end: no attempt takes more than its share, and nothing is
//! left of it. A test binary of its own, because the whole process is measured.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

#[path = "../hostile/stage/mod.rs"]
#[expect(dead_code, reason = "the tests of what receivers do use the rest")]
mod stage;

use std::time::Duration;

use peak_alloc::PeakAlloc;
use posthaste_domain::ErrorClass;
use tokio::sync::Mutex;

use crate::stage::certificates::Handshake;
use crate::stage::frames::{
    END_STREAM, FIRST, NEWEST_ENTRY, STATUS_103, STATUS_200, headers, indexed_literal, settings,
};
use crate::stage::script::{AMPLE, Case, Step, Transport, flood, write};
use crate::stage::time::{becomes, wait};
use crate::stage::world::World;
use crate::stage::{behaviours_bodies, behaviours_http1, behaviours_http2, behaviours_tls};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What one attempt may take while it lasts, both ends of its connection together.
const ATTEMPT_BYTES_MAX: usize = 2 << 20;
/// What all attempts together may leave behind.
const GROWTH_BYTES_MAX: usize = 1 << 20;
/// Few, so that connections which wait to be used again look like nothing that leaks.
const POOL_SIZE: usize = 4;
const DESCRIPTORS_MORE_MAX: usize = 2 * POOL_SIZE;
const ROUNDS: usize = 50;
/// Each round tries every tenth behaviour.
const STRIDE: usize = 10;
const A_MOMENT: Duration = Duration::from_millis(20);
/// For attempts that only their deadline ends; how soon is no matter here.
const SHORT: Duration = Duration::from_millis(30);

/// The whole process is measured, so one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn no_flood_takes_more_memory_than_an_attempt_may() {
    let _alone = ALONE.lock().await;
    let world = World::with_pool_of(POOL_SIZE);
    let floods: Vec<Case> = all().into_iter().filter(Case::floods).collect();
    assert!(floods.len() > 40, "{} floods", floods.len());
    let mut greedy = Vec::new();
    for case in &floods {
        // Once before, so that what is set up once is not counted.
        attempt(&world, case).await;
        let ((), bytes) = most_bytes_during(attempt(&world, case)).await;
        println!("{:60} {:6} KiB", case.name, bytes >> 10);
        if bytes > ATTEMPT_BYTES_MAX {
            greedy.push((case.name, bytes));
        }
    }
    assert!(greedy.is_empty(), "{greedy:?}");
}

/// Over HTTP/2, many requests share a connection, and what one answer leaves of its bounds must not add up.
#[tokio::test]
async fn good_behaviour_does_not_earn_the_right_to_flood() {
    let _alone = ALONE.lock().await;
    let world = World::with_pool_of(POOL_SIZE);
    let good = (0..40).map(|number| headers(END_STREAM, FIRST + 2 * number, STATUS_200));
    let header = indexed_literal("x", "");
    let first = headers(0, FIRST + 2 * 40, &[STATUS_103, &header].concat());
    let more = headers(0, FIRST + 2 * 40, &[STATUS_103, &[NEWEST_ENTRY; 900]].concat());
    let steps = [write(settings(&[]))]
        .into_iter()
        .chain(good.flat_map(|answer| [Step::Read, write(answer)]))
        .chain([Step::Read, write(first), flood(more)]);
    let receiver = world.receiver(Transport::Tls(Handshake::Http2), steps.collect::<Vec<_>>()).await;
    for _ in 0..40 {
        assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
    }
    let (outcome, bytes) = most_bytes_during(world.send_to(&receiver)).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::BrokenResponse), "{outcome:?}");
    println!("{:60} {:6} KiB", "a flood after forty good answers", bytes >> 10);
    assert!(bytes <= ATTEMPT_BYTES_MAX, "{bytes} bytes");
}

#[tokio::test]
async fn nothing_is_left_of_many_attempts() {
    let _alone = ALONE.lock().await;
    let world = World::with_pool_of(POOL_SIZE);
    let cases = all();
    let round = async |number: usize| {
        for case in cases.iter().skip(number % STRIDE).step_by(STRIDE) {
            attempt(&world, case).await;
        }
        // What is left of the last attempts is cleared away by tasks of their own.
        wait(A_MOMENT).await;
    };
    for number in 0..STRIDE {
        round(number).await;
    }
    let (bytes_before, descriptors_before) = (ALLOCATOR.current_usage(), descriptors());
    for number in 0..ROUNDS {
        round(number).await;
    }
    let bytes_more = || ALLOCATOR.current_usage().saturating_sub(bytes_before);
    let descriptors_more = || descriptors().saturating_sub(descriptors_before);
    becomes(|| bytes_more() <= GROWTH_BYTES_MAX && descriptors_more() <= DESCRIPTORS_MORE_MAX).await;
    println!("{} KiB and {} descriptors more than before", bytes_more() >> 10, descriptors_more());
    assert!(bytes_more() <= GROWTH_BYTES_MAX, "{} bytes more than before", bytes_more());
    assert!(
        descriptors_more() <= DESCRIPTORS_MORE_MAX,
        "{} descriptors more than before",
        descriptors_more()
    );
}

fn all() -> Vec<Case> {
    [behaviours_http1::all(), behaviours_bodies::all(), behaviours_tls::all(), behaviours_http2::all()]
        .into_iter()
        .flatten()
        .collect()
}

async fn attempt(world: &World, case: &Case) {
    let receiver = world.receiver(case.over, case.steps.clone()).await;
    let lasts = case.deadline < AMPLE;
    let deadline = if lasts { SHORT } else { AMPLE };
    let outcome = world.send(&receiver.url, case.payload_bytes, deadline).await;
    assert!(lasts || case.ends.fits(&outcome), "{}: {outcome:?}", case.name);
}

/// What an attempt comes to, and the most bytes that were allocated during it, above what was before.
async fn most_bytes_during<T>(attempt: impl Future<Output = T>) -> (T, usize) {
    // The attempt before may still be cleared away, by tasks of its own.
    wait(A_MOMENT).await;
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let output = attempt.await;
    (output, ALLOCATOR.peak_usage() - before)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
