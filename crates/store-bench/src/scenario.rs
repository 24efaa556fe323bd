//! The scenarios of the benchmark.

use std::sync::Arc;

use posthaste_store::{EventQuery, PageRequest};

use crate::load::{BATCH, PAYLOAD_BYTES, event, preload, request};
use crate::measure::{claim_singles, drain, now, percentile_ms, rate};
use crate::subject::Subject;

const ROWS: usize = 400_000;
const DESTINATIONS: usize = 100;

fn print_figure(description: &str, figure: &str) {
    println!("{description:<86} {figure}");
}

/// Measures enqueues, and claims with settles, on a small store.
pub(crate) async fn rates(kind: &str) {
    println!("\n{kind}: {PAYLOAD_BYTES}-byte payloads, {DESTINATIONS} destinations, batches of {BATCH}");
    let subject = Subject::create(kind).await;
    let store = &subject.store;

    let started = now();
    preload(store, ROWS, 0..DESTINATIONS).await;
    print_figure(
        "array enqueue, 1,000 per call, 2 calls at a time",
        &format!("{:.0} rows/s", rate(ROWS, now() - started)),
    );

    // Warm up, on events that are not measured.
    drain(store, 50_000, None, 1).await;
    let (count, wal, cpu) = (ROWS - 50_000, subject.wal_bytes(), subject.cpu_time());
    let took = drain(store, count, None, 3).await;
    print_figure(
        &format!("claim + settle, {count} delivered"),
        &format!("{:.0} events/s", rate(count, took)),
    );
    if let (Some(before), Some(after)) = (wal, subject.wal_bytes()) {
        print_figure(
            "  write-ahead log for both",
            &format!("{:.0} bytes/event", (after - before) / count as f64),
        );
    }

    if let (Some(before), Some(after)) = (cpu, subject.cpu_time()) {
        let each = (after - before).as_secs_f64() * 1_000_000.0 / count as f64;
        print_figure("  processor time for both, client and server", &format!("{each:.1} µs/event"));
    }

    preload(store, 200_000, 0..DESTINATIONS).await;
    let took = drain(store, 200_000, Some(20), 5).await;
    print_figure(
        "claim + settle, 200,000, one in 20 to be retried",
        &format!("{:.0} events/s", rate(200_000, took)),
    );

    if let Some(second) = subject.open_second().await {
        preload(store, 400_000, 0..DESTINATIONS).await;
        let started = now();
        tokio::join!(drain(store, 200_000, None, 7), drain(&second, 200_000, None, 9));
        print_figure(
            "claim + settle, 400,000 by two workers",
            &format!("{:.0} events/s", rate(400_000, now() - started)),
        );
    }
    enqueue_singles(&subject).await;
    overview(&subject).await;
}

/// Measures 64 producers that enqueue one event at a time; the store lets them share commits.
async fn enqueue_singles(subject: &Subject) {
    const PRODUCERS: usize = 64;
    const EACH: usize = 2_000;
    let started = now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let store = Arc::clone(&subject.store);
            tokio::spawn(async move {
                for n in 0..EACH {
                    let stored = store.enqueue(request(vec![event((producer + n) % DESTINATIONS)])).await;
                    assert!(stored.is_ok(), "{stored:?}");
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("the producer task does not panic");
    }
    let took = now() - started;
    print_figure(
        &format!("{PRODUCERS} concurrent producers of single events, sharing commits"),
        &format!("{:.0} events/s", rate(PRODUCERS * EACH, took)),
    );
}

/// Measures one overview.
async fn overview(subject: &Subject) {
    let started = now();
    let overview = subject.store.overview().await.expect("the store is up");
    let took = now() - started;
    let description = format!("overview with {} pending, {} delivered", overview.pending, overview.delivered);
    print_figure(&description, &format!("{:.2} ms", took.as_secs_f64() * 1_000.0));
}

/// Measures claims of single events in a store with many rows that cannot be sent: due events of an excluded destination,
/// or destinations that only have future retries.
pub(crate) async fn trickle(kind: &str) {
    const EXCLUDED: usize = 1_000_000;
    const LATER: usize = 100_000;
    println!("\n{kind}: claims of single events beside rows that cannot be sent");
    let subject = Subject::create(kind).await;
    preload(&subject.store, EXCLUDED, 0..1).await;
    let newest = subject.store.events(&EventQuery::default(), &PageRequest::default()).await;
    let excluded = newest.expect("the store is up").items[0].destination_id;
    let durations = claim_singles(&subject.store, 2_000, 1, &[excluded]).await;
    print_percentiles(
        &format!("claim of 1 event beside {EXCLUDED} due rows of an excluded destination"),
        &durations,
    );

    let subject = Subject::create(kind).await;
    preload(&subject.store, LATER, 0..LATER).await;
    drain(&subject.store, LATER, Some(1), 7).await;
    let durations = claim_singles(&subject.store, 2_000, LATER, &[]).await;
    print_percentiles(
        &format!("claim of 1 event beside {LATER} destinations with a future retry each"),
        &durations,
    );
}

fn print_percentiles(description: &str, durations: &[std::time::Duration]) {
    let (p50, p99) = (percentile_ms(durations, 50), percentile_ms(durations, 99));
    print_figure(description, &format!("p50 {p50:.2} ms, p99 {p99:.2} ms"));
}

/// Compares the rate of claims and settles at a small backlog with the rates at a large one, with a snapshot held open, and
/// after millions of deliveries.
pub(crate) async fn backlog(kind: &str) {
    const LARGE: usize = 5_000_000;
    const DELIVERED: usize = 4_000_000;
    println!(
        "\n{kind}: the rate of claim + settle as the store fills ({ROWS} events each, unless stated otherwise)"
    );
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    preload(store, ROWS, 0..DESTINATIONS).await;
    drain(store, 20_000, None, 1).await;
    let count = ROWS - 20_000;
    let small = rate(count, drain(store, count, None, 3).await);
    print_figure(&format!("of a backlog of {ROWS}"), &format!("{small:.0} events/s"));

    preload(store, LARGE, 0..DESTINATIONS).await;
    // Finish the background work of the enqueues, so that it does not affect the measurement.
    subject.sql("VACUUM ANALYZE; CHECKPOINT;");
    let large = rate(ROWS, drain(store, ROWS, None, 5).await);
    print_figure(
        &format!("of a backlog of {LARGE}"),
        &format!("{large:.0} events/s, ratio {:.2}", large / small),
    );
    overview(&subject).await;

    if let Some(snapshot) = HeldSnapshot::open(&subject) {
        let started = now();
        let mut held = 0;
        while (now() - started).as_secs() < 60 && held + ROWS <= LARGE - 2 * ROWS {
            drain(store, ROWS / 4, None, 100 + held as u64).await;
            held += ROWS / 4;
        }
        let rate = rate(held, now() - started);
        let description =
            format!("with a snapshot held open for {} s, {held} events", (now() - started).as_secs());
        print_figure(&description, &format!("{rate:.0} events/s, ratio {:.2}", rate / small));
        snapshot.release();
    }

    let done =
        usize::try_from(store.overview().await.expect("the store is up").delivered).unwrap_or(usize::MAX);
    if done < DELIVERED {
        drain(store, DELIVERED - done, None, 11).await;
    }
    let late = rate(ROWS, drain(store, ROWS, None, 13).await);
    print_figure(
        &format!("after {DELIVERED} deliveries"),
        &format!("{late:.0} events/s, ratio {:.2}", late / small),
    );
    overview(&subject).await;
}

/// An open transaction in another session. Its snapshot keeps PostgreSQL from removing dead rows.
struct HeldSnapshot(std::process::Child);

impl HeldSnapshot {
    /// Opens the transaction; `None` for SQLite.
    fn open(subject: &Subject) -> Option<Self> {
        use std::io::{BufRead as _, BufReader, Write as _};
        use std::process::{Command, Stdio};
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", subject.url()?]);
        let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql is installed");
        let input = psql.stdin.as_mut().expect("stdin and stdout are piped");
        writeln!(input, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM app.webhook_counts;")
            .expect("psql reads its input");
        let mut line = String::new();
        BufReader::new(psql.stdout.as_mut().expect("stdin and stdout are piped"))
            .read_line(&mut line)
            .expect("psql prints the count");
        Some(Self(psql))
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("psql exits at the end of its input");
    }
}
