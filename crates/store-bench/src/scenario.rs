//! What is measured, and under which circumstances.

use std::sync::Arc;

use posthaste_engine::enqueuer;
use posthaste_store::{EventQuery, PageRequest};

use crate::load::{BATCH, PAYLOAD_BYTES, event, preload, request};
use crate::measure::{drain, now, percentile, rate, trickle};
use crate::subject::Subject;

const ROWS: usize = 400_000;
const DESTINATIONS: usize = 100;

fn say(what: &str, figure: &str) {
    println!("{what:<86} {figure}");
}

/// Storing, and claiming with settling, on a store that has little in it.
pub(crate) async fn rates(kind: &str) {
    println!("\n{kind}: {PAYLOAD_BYTES}-byte payloads, {DESTINATIONS} destinations, batches of {BATCH}");
    let subject = Subject::fresh(kind).await;
    let store = &subject.store;

    let begun = now();
    preload(store, ROWS, 0..DESTINATIONS).await;
    say(
        "array enqueue, 1,000 per call, 2 calls at a time",
        &format!("{:.0} rows/s", rate(ROWS, now() - begun)),
    );

    // Once to warm up, on rows of its own.
    drain(store, 50_000, None, 1).await;
    let (count, wal, cpu) = (ROWS - 50_000, subject.wal_bytes(), subject.cpu());
    let took = drain(store, count, None, 3).await;
    say(&format!("claim + settle, {count} delivered"), &format!("{:.0} events/s", rate(count, took)));
    if let (Some(before), Some(after)) = (wal, subject.wal_bytes()) {
        say("  write-ahead log for both", &format!("{:.0} bytes/event", (after - before) / count as f64));
    }

    if let (Some(before), Some(after)) = (cpu, subject.cpu()) {
        let each = (after - before).as_secs_f64() * 1_000_000.0 / count as f64;
        say("  processor time for both, client and server", &format!("{each:.1} µs/event"));
    }

    preload(store, 200_000, 0..DESTINATIONS).await;
    let took = drain(store, 200_000, Some(20), 5).await;
    say("claim + settle, 200,000, one in 20 to be retried", &format!("{:.0} events/s", rate(200_000, took)));

    if let Some(second) = subject.second().await {
        preload(store, 400_000, 0..DESTINATIONS).await;
        let begun = now();
        tokio::join!(drain(store, 200_000, None, 7), drain(&second, 200_000, None, 9));
        say(
            "claim + settle, 400,000 by two workers",
            &format!("{:.0} events/s", rate(400_000, now() - begun)),
        );
    }
    singles(&subject).await;
    overview(&subject).await;
}

/// 64 producers, each with one event at a time, through the front that lets them share commits.
async fn singles(subject: &Subject) {
    const PRODUCERS: usize = 64;
    const EACH: usize = 2_000;
    let (front, behind) = enqueuer(Arc::clone(&subject.store));
    let behind = tokio::spawn(behind);
    let begun = now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let front = front.clone();
            tokio::spawn(async move {
                for n in 0..EACH {
                    let stored = front.enqueue(request(vec![event((producer + n) % DESTINATIONS)])).await;
                    assert!(stored.is_ok(), "{stored:?}");
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("storing does not panic");
    }
    let took = now() - begun;
    say(
        &format!("{PRODUCERS} concurrent producers of single events, sharing commits"),
        &format!("{:.0} events/s", rate(PRODUCERS * EACH, took)),
    );
    drop(front);
    behind.await.expect("the front does not panic");
}

async fn overview(subject: &Subject) {
    let begun = now();
    let overview = subject.store.overview().await.expect("the store is up");
    let took = now() - begun;
    let what = format!("overview with {} pending, {} delivered", overview.pending, overview.delivered);
    say(&what, &format!("{:.2} ms", took.as_secs_f64() * 1_000.0));
}

/// A trickle of events beside rows that must not be sent, and beside destinations that only have future retries.
pub(crate) async fn beside(kind: &str) {
    const EXCLUDED: usize = 1_000_000;
    const LATER: usize = 100_000;
    println!("\n{kind}: a trickle beside what cannot be sent");
    let subject = Subject::fresh(kind).await;
    preload(&subject.store, EXCLUDED, 0..1).await;
    let newest = subject.store.events(&EventQuery::default(), &PageRequest::default()).await;
    let excluded = newest.expect("the store is up").items[0].destination_id;
    let took = trickle(&subject.store, 2_000, 1, &[excluded]).await;
    told(&format!("claim of 1 event beside {EXCLUDED} due rows of an excluded destination"), &took);

    let subject = Subject::fresh(kind).await;
    preload(&subject.store, LATER, 0..LATER).await;
    drain(&subject.store, LATER, Some(1), 7).await;
    let took = trickle(&subject.store, 2_000, LATER, &[]).await;
    told(&format!("claim of 1 event beside {LATER} destinations with a future retry each"), &took);
}

fn told(what: &str, took: &[std::time::Duration]) {
    let (p50, p99) = (percentile(took, 50), percentile(took, 99));
    say(what, &format!("p50 {p50:.2} ms, p99 {p99:.2} ms"));
}

/// The rate at a small backlog against those at a large one, under a held snapshot, and after millions of deliveries.
pub(crate) async fn backlog(kind: &str) {
    const LARGE: usize = 5_000_000;
    const DELIVERED: usize = 4_000_000;
    println!("\n{kind}: the rate of claim + settle as the store fills ({ROWS} events each, unless said)");
    let subject = Subject::fresh(kind).await;
    let store = &subject.store;
    preload(store, ROWS, 0..DESTINATIONS).await;
    drain(store, 20_000, None, 1).await;
    let count = ROWS - 20_000;
    let small = rate(count, drain(store, count, None, 3).await);
    say(&format!("of a backlog of {ROWS}"), &format!("{small:.0} events/s"));

    preload(store, LARGE, 0..DESTINATIONS).await;
    // What storing so much left to the background is not what is measured here.
    subject.sql("VACUUM ANALYZE; CHECKPOINT;");
    let large = rate(ROWS, drain(store, ROWS, None, 5).await);
    say(&format!("of a backlog of {LARGE}"), &format!("{large:.0} events/s, ratio {:.2}", large / small));
    overview(&subject).await;

    if let Some(snapshot) = Snapshot::hold(&subject) {
        let begun = now();
        let mut held = 0;
        while (now() - begun).as_secs() < 60 && held + ROWS <= LARGE - 2 * ROWS {
            drain(store, ROWS / 4, None, 100 + held as u64).await;
            held += ROWS / 4;
        }
        let rate = rate(held, now() - begun);
        let what = format!("with a snapshot held open for {} s, {held} events", (now() - begun).as_secs());
        say(&what, &format!("{rate:.0} events/s, ratio {:.2}", rate / small));
        snapshot.release();
    }

    let done =
        usize::try_from(store.overview().await.expect("the store is up").delivered).unwrap_or(usize::MAX);
    if done < DELIVERED {
        drain(store, DELIVERED - done, None, 11).await;
    }
    let late = rate(ROWS, drain(store, ROWS, None, 13).await);
    say(&format!("after {DELIVERED} deliveries"), &format!("{late:.0} events/s, ratio {:.2}", late / small));
    overview(&subject).await;
}

/// A transaction elsewhere that keeps every dead row alive.
struct Snapshot(std::process::Child);

impl Snapshot {
    fn hold(subject: &Subject) -> Option<Self> {
        use std::io::{BufRead as _, BufReader, Write as _};
        use std::process::{Command, Stdio};
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", subject.url()?]);
        let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql is there");
        let input = psql.stdin.as_mut().expect("it was asked for");
        writeln!(input, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM app.webhook_counts;")
            .expect("psql listens");
        let mut line = String::new();
        BufReader::new(psql.stdout.as_mut().expect("it was asked for"))
            .read_line(&mut line)
            .expect("psql answers");
        Some(Self(psql))
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("psql ends when its input does");
    }
}
