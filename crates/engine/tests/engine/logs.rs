//! What an operator reads in the logs, and what nobody may.

use std::io;
use std::sync::{Arc, Mutex};

use crate::stage::{Call, Reply, Stage, secs, settings};
use posthaste_domain::{DeliveryStatus, LeaseTerms, RetryPolicy, RetryPolicySpec, Strategy};
use posthaste_engine::{Engine, Runtimes};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Everything that this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt::fmt()
            .with_max_level(LevelFilter::DEBUG)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("one thread").clone();
        String::from_utf8(bytes).expect("logs are text").lines().map(str::to_owned).collect()
    }

    fn line_with(&self, text: &str) -> String {
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
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    stage.enqueue("slow", 1).await;
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let _engine = stage.start(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    stage.door().fail(&[Call::Renew]);
    stage.pass(secs(10)).await;
    let line = log.line_with("lease renewal failed");
    for part in ["event_id=slow-0", "worker_id=worker-a", "code=\"unavailable\""] {
        assert!(line.contains(part), "{part:?} is missing from {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s3_renewal_log_of_a_lost_lease_has_event_worker_and_code() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let _engine = stage.start(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    stage.until("it is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
    posthaste_store::Store::cancel(&stage.memory, &id, "operator", None).await.unwrap();
    stage.pass(secs(30)).await;
    let line = log.line_with("lease renewal failed");
    for part in ["event_id=slow-0", "worker_id=worker-a", "code=\"lease_lost\""] {
        assert!(line.contains(part), "{part:?} is missing from {line:?}");
    }
    assert!(log.line_with("stale write refused").contains("event_id=slow-0"));
}

#[tokio::test(start_paused = true)]
async fn an_event_abandoned_by_the_last_claim_of_a_drain_is_logged_and_counted() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    stage.enqueue("deadly", 1).await;
    stage.receiver.always("deadly", Reply::Hang);
    let first = stage.start(|_| {});
    stage.until("it is being sent", |_| stage.receiver.requests_to("deadly") == 1).await;
    drop(first);
    stage.door().fail(&[Call::Claim]);
    let second = stage.start(|settings| settings.abandon_after = 1);
    stage.pass(secs(60)).await;
    stage.door().heal();
    second.drain(secs(10)).await;
    assert!(log.line_with("event abandoned").contains("event_id=deadly-0"));
    assert!(log.line_with("failed_count=1").contains("dispatch cycle complete"));
}

#[tokio::test(start_paused = true)]
async fn s2_fr002_ac2_the_cycle_line_carries_every_counter() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    stage.receiver.always("missing", Reply::Status(404));
    stage.enqueue("up", 2).await;
    stage.enqueue("missing", 1).await;
    Engine::run_once(settings(|_| {}), stage.ports(), &Runtimes::current()).await.unwrap();
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
async fn s1_3_4_a_worker_that_may_retry_fast_says_so_at_every_start() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    let fast = || {
        let mut spec = RetryPolicySpec::for_strategy(Strategy::Exponential { base: secs(2) });
        spec.jitter_bps = Some(0);
        spec.allow_fast_retries = true;
        RetryPolicy::new(spec).expect("allowed")
    };
    drop(stage.start(|_| {}));
    assert!(log.lines().is_empty(), "the contract needs no words: {:#?}", log.lines());
    for starts in 1..=2 {
        drop(stage.start(|settings| settings.policy = fast()));
        let warned = log.lines().iter().filter(|line| line.contains("retry contract")).count();
        assert_eq!(warned, starts);
    }
    let line = log.line_with("retry contract");
    assert!(line.contains("WARN") && line.contains("first_delay=2s") && line.contains("floor=30s"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn s2_nfr005_a_running_worker_logs_every_cycle() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    let _engine = stage.start(|settings| settings.cycle_interval = secs(10));
    stage.pass(secs(35)).await;
    let cycles = log.lines().iter().filter(|line| line.contains("dispatch cycle complete")).count();
    assert_eq!(cycles, 3);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_outage_is_told_once() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    let _engine = stage.start(|_| {});
    stage.door().fail(&[Call::Claim]);
    stage.pass(secs(60)).await;
    assert!(log.line_with("nothing could be claimed").contains("WARN"));
    stage.door().heal();
    stage.pass(secs(60)).await;
    let told: Vec<_> = log.lines().into_iter().filter(|line| line.contains("claiming works again")).collect();
    assert!(told.len() == 1 && told[0].contains("INFO"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn s0_nfr003_an_attempt_is_one_wide_line_without_the_payload() {
    let (log, _guard) = Log::listen();
    let stage = Stage::set();
    stage.receiver.script("down", [Reply::Status(500)]);
    stage.enqueue("down", 1).await;
    let _engine = stage.start(|_| {});
    stage.until_all(DeliveryStatus::Delivered).await;
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
