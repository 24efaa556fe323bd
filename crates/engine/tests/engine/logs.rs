//! Log lines for operators, and what must never be logged.

use std::io;
use std::sync::{Arc, Mutex, Once};

use crate::fixture::{Call, Fixture, Reply, secs, settings};
use posthaste_domain::{DeliveryStatus, LeaseTerms, RetryPolicy, RetryPolicySpec, Strategy};
use posthaste_engine::{Engine, Runtimes};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Captures everything that this thread logs.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        Self::capture_at(LevelFilter::DEBUG)
    }

    fn capture_at(level: LevelFilter) -> (Self, DefaultGuard) {
        // Without a global subscriber, tracing may remember that a line which the thread of another test logs first
        // has no subscriber.
        static GLOBAL: Once = Once::new();
        GLOBAL.call_once(|| drop(tracing::subscriber::set_global_default(tracing_subscriber::registry())));
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("one thread").clone();
        String::from_utf8(bytes).expect("logs are text").lines().map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }

    pub(crate) fn line_with(&self, text: &str) -> String {
        let lines = self.lines();
        let found = lines.iter().find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no line with {text:?} in {lines:#?}")).clone()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn s3_renewal_log_of_a_failure_has_event_worker_and_code() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.enqueue("slow", 1).await;
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let _engine = fixture.start(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    fixture.test_store().fail(&[Call::Renew]);
    fixture.advance(secs(10)).await;
    let line = log.line_with("lease renewal failed");
    for part in ["event_id=slow-0", "worker_id=worker-a", "code=\"unavailable\""] {
        assert!(line.contains(part), "{part:?} is missing from {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s3_renewal_log_of_a_lost_lease_has_event_worker_and_code() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let _engine = fixture.start(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("slow") == 1).await;
    posthaste_store::Store::cancel(&fixture.memory, &id, "operator".into(), None).await.unwrap();
    fixture.advance(secs(30)).await;
    let line = log.line_with("lease renewal failed");
    for part in ["event_id=slow-0", "worker_id=worker-a", "code=\"lease_lost\""] {
        assert!(line.contains(part), "{part:?} is missing from {line:?}");
    }
    assert!(log.line_with("stale write refused").contains("event_id=slow-0"));
}

#[tokio::test(start_paused = true)]
async fn an_event_abandoned_by_the_last_claim_of_a_drain_is_logged_and_counted() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.enqueue("deadly", 1).await;
    fixture.receiver.always_reply("deadly", Reply::Hang);
    let first = fixture.start(|_| {});
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("deadly") == 1).await;
    drop(first);
    fixture.test_store().fail(&[Call::Claim]);
    let second = fixture.start(|settings| settings.abandon_after = 1);
    fixture.advance(secs(60)).await;
    fixture.test_store().recover();
    second.drain(secs(10)).await;
    assert!(log.line_with("event abandoned").contains("event_id=deadly-0"));
    assert!(log.line_with("failed_count=1").contains("dispatch cycle complete"));
}

#[tokio::test(start_paused = true)]
async fn expired_events_are_logged_by_id_up_to_a_limit_and_counted() {
    let (log, _guard) = Log::capture_at(LevelFilter::INFO);
    let fixture = Fixture::new();
    fixture.enqueue("up", 50).await;
    fixture.test_store().fail(&[Call::Claim]);
    let engine = fixture.start(|settings| settings.expire_after = Some(secs(60)));
    fixture.advance(secs(62)).await;
    let lines = log.lines();
    let by_id = lines.iter().filter(|line| line.contains("event expired; event dead-lettered"));
    assert_eq!(by_id.filter(|line| line.contains("event_id=up-")).count(), 20, "{lines:#?}");
    assert!(log.line_with("more events expired").contains("events=30"));
    engine.drain(secs(10)).await;
    assert!(log.line_with("failed_count=50").contains("dispatch cycle complete"));
}

#[tokio::test(start_paused = true)]
async fn s2_fr002_ac2_the_cycle_line_carries_every_counter() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.receiver.always_reply("missing", Reply::Status(404));
    fixture.enqueue("up", 2).await;
    fixture.enqueue("missing", 1).await;
    Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.unwrap();
    let line = log.line_with("dispatch cycle complete");
    for part in [
        "worker_id=worker-a",
        "claimed_count=3",
        "delivered_count=2",
        "retried_count=1",
        "failed_count=0",
        "stale_write_count=0",
        "http_2xx_count=2",
        "http_3xx_count=0",
        "http_4xx_count=1",
        "http_5xx_count=0",
        "network_error_count=0",
        "duration_ms=",
    ] {
        assert!(line.contains(part), "{part:?} is missing from {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s1_3_4_worker_with_fast_retries_warns_at_every_start() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let fast_policy = || {
        let mut spec = RetryPolicySpec::for_strategy(Strategy::Exponential { base: secs(2) });
        spec.jitter_bps = Some(0);
        spec.allow_fast_retries = true;
        RetryPolicy::new(spec).expect("allowed")
    };
    drop(fixture.start(|_| {}));
    assert!(log.lines().is_empty(), "the default policy logs no warning: {:#?}", log.lines());
    for starts in 1..=2 {
        drop(fixture.start(|settings| settings.policy = fast_policy()));
        let warned = log.lines().iter().filter(|line| line.contains("retry contract")).count();
        assert_eq!(warned, starts);
    }
    let line = log.line_with("retry contract");
    assert!(line.contains("WARN") && line.contains("first_delay=2s") && line.contains("floor=30s"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn s2_nfr005_a_running_worker_logs_every_cycle() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let _engine = fixture.start(|settings| settings.cycle_interval = secs(10));
    fixture.advance(secs(35)).await;
    let cycles = log.lines().iter().filter(|line| line.contains("dispatch cycle complete")).count();
    assert_eq!(cycles, 3);
}

#[tokio::test(start_paused = true)]
async fn end_of_an_outage_is_logged_once() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let _engine = fixture.start(|_| {});
    fixture.test_store().fail(&[Call::Claim]);
    fixture.advance(secs(60)).await;
    assert!(log.line_with("nothing could be claimed").contains("WARN"));
    fixture.test_store().recover();
    fixture.advance(secs(60)).await;
    let lines: Vec<_> =
        log.lines().into_iter().filter(|line| line.contains("claiming works again")).collect();
    assert!(lines.len() == 1 && lines[0].contains("INFO"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn s1_logs_show_the_interval_of_each_retry_and_each_dead_letter_at_info() {
    let (log, _guard) = Log::capture_at(LevelFilter::INFO);
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.receiver.always_reply("gone", Reply::Status(410));
    fixture.receiver.always_reply("up", Reply::Status(200));
    for host in ["down", "gone", "up"] {
        fixture.enqueue(host, 1).await;
    }
    let _engine = fixture.start(|_| {});
    fixture
        .wait_until("both failures are dead letters", |store| {
            store
                .with_state(|state| state.rows.values().filter(|row| row.failure_kind.is_some()).count() == 2)
        })
        .await;
    let lines: Vec<String> = log.lines().into_iter().filter(|line| line.contains(" attempt ")).collect();
    let of = |event_id: &str| lines.iter().filter(|line| line.contains(event_id)).collect::<Vec<_>>();
    let down = of("event_id=down-0");
    for (line, delay) in down.iter().zip([60_000, 120_000, 240_000, 480_000]) {
        assert!(line.contains("INFO") && line.contains("retry scheduled"), "{line}");
        assert!(line.contains(&format!("retry_after_ms={delay} ")), "{line}");
    }
    for (line, kind) in [(down[4], "exhausted"), (of("event_id=gone-0")[0], "gone")] {
        assert!(line.contains("INFO") && line.contains("event dead-lettered"), "{line}");
        assert!(line.contains(&format!("outcome=\"{kind}\"")), "{line}");
    }
    assert_eq!(lines.len(), 6, "one line per failure, none for the delivery: {lines:#?}");
    let secret_part =
        |line: &String| line.contains(".test") || line.contains("{}") || line.contains("scripted");
    assert!(!log.lines().iter().any(secret_part), "a URL, a payload or a response is in the log");
}

#[tokio::test(start_paused = true)]
async fn s0_nfr003_an_attempt_is_one_wide_line_without_the_payload() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.receiver.script("down", [Reply::Status(500)]);
    fixture.enqueue("down", 1).await;
    let _engine = fixture.start(|_| {});
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let attempts: Vec<String> = log.lines().into_iter().filter(|line| line.contains(" attempt ")).collect();
    assert_eq!(attempts.len(), 2, "{attempts:#?}");
    for part in [
        "event_id=down-0",
        "outcome=\"retried\"",
        "bucket=\"http_5xx\"",
        "http_status=500",
        "retry_after_ms=60000",
        "event_type=\"test\"",
        "destination_id=1",
        "lag_ms=0",
        "duration_ms=0",
    ] {
        assert!(attempts[0].contains(part), "{part:?} is missing from {:?}", attempts[0]);
    }
    assert!(!log.lines().iter().any(|line| line.contains("{}")), "the payload is in the log");
}

#[tokio::test(start_paused = true)]
async fn skew_between_the_hosts_clock_and_the_stores_is_logged_when_it_appears_and_when_it_ends() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.clock.set_ahead(-3_600);
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(120)).await;
    fixture.clock.set_ahead(0);
    fixture.advance(secs(120)).await;
    let lines = log.lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("this host's clock differs from the store's"), 1, "{lines:#?}");
    assert_eq!(count("this host's clock agrees with the store's again"), 1, "{lines:#?}");
    let line = log.line_with("this host's clock differs");
    assert!(line.contains("WARN") && line.contains("worker_id=worker-a"), "{line}");
    assert!(line.contains("skew_seconds=-3600"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn circuit_is_logged_once_when_it_opens_and_once_when_it_closes() {
    let (log, _guard) = Log::capture_at(LevelFilter::INFO);
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    fixture.enqueue("down", 10).await;
    let _engine = fixture.start(|settings| {
        settings.breaker = posthaste_domain::BreakerPolicy::new(secs(60), 1_000, 10_000, 3, secs(30))
            .expect("a valid policy");
        settings.per_destination = 1;
    });
    fixture.advance(secs(60)).await;
    let lines = |text: &str| log.lines().into_iter().filter(|line| line.contains(text)).collect::<Vec<_>>();
    let (opened, closed) = (lines("circuit opened"), lines("circuit closed"));
    assert_eq!((opened.len(), closed.len()), (1, 1), "{:#?}", log.lines());
    for part in
        [" WARN ", "destination_id=1", "host=\"", "failures=3", "next_probe_ms=30000", "worker_id=worker-a"]
    {
        assert!(opened[0].contains(part), "{part:?} is missing from {:?}", opened[0]);
    }
    for part in [" INFO ", "destination_id=1", "open_ms=", "worker_id=worker-a"] {
        assert!(closed[0].contains(part), "{part:?} is missing from {:?}", closed[0]);
    }
    assert!(!opened[0].contains("http"), "the URL may hold a secret: {:?}", opened[0]);
}
