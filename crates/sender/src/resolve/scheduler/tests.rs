//! Tests of the scheduler under paused time, with a fake blocking lookup.

use std::sync::Condvar;

use super::*;
use crate::resolve::parse_host_name;

/// A scheduler with a fake blocking lookup. The beginning of a name decides its result:
///
/// - `dead` hangs until it is released, then fails.
/// - `dying` fails; from its second lookup on it hangs until it is released, then fails.
/// - `reviving` fails once, then has an address.
/// - `slow` hangs until it is released, then has an address.
/// - `none` has no address.
/// - Other names have an address.
struct FakeResolver {
    scheduler: Arc<LookupScheduler>,
    /// Names of all blocking lookups that have started, in order.
    started: watch::Receiver<Vec<String>>,
    hanging_lookups: Arc<HangingLookups>,
}

/// Blocks the lookups that hang, until they are released.
#[derive(Default)]
struct HangingLookups {
    released: Mutex<bool>,
    changed: Condvar,
}

impl HangingLookups {
    fn wait(&self) {
        let released = self.released.lock().unwrap();
        drop(self.changed.wait_while(released, |released| !*released).unwrap());
    }

    fn release(&self) {
        *self.released.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// Releases hanging lookups, so that their threads end with the test.
impl Drop for FakeResolver {
    fn drop(&mut self) {
        self.hanging_lookups.release();
    }
}

impl FakeResolver {
    fn new() -> Self {
        let (started_sender, started) = watch::channel(Vec::new());
        let hanging_lookups = Arc::new(HangingLookups::default());
        let hangs = Arc::clone(&hanging_lookups);
        let blocking_lookup = move |name: &Name| {
            let name = display_name(name);
            let is_first = !started_sender.borrow().contains(&name);
            started_sender.send_modify(|names| names.push(name.clone()));
            let starts_with = |kind| name.starts_with(kind);
            if starts_with("dead") || starts_with("slow") || (starts_with("dying") && !is_first) {
                hangs.wait();
            }
            if starts_with("dead") || starts_with("dying") || (starts_with("reviving") && is_first) {
                return Err(LookupError::failed(&name, "no answer"));
            }
            if starts_with("none") { Err(LookupError::NoAddress(name)) } else { Ok(address()) }
        };
        Self { scheduler: LookupScheduler::new(Box::new(blocking_lookup)), started, hanging_lookups }
    }

    async fn lookup(&self, name: &str) -> LookupResult {
        must_finish(self.scheduler.lookup(parse_host_name(name).unwrap())).await
    }

    /// Starts callers that look up `count` names of a kind. Dropping the returned set stops them.
    fn lookup_all(&self, kind: &str, count: usize) -> tokio::task::JoinSet<LookupResult> {
        let names = (0..count).map(|number| parse_host_name(&format!("{kind}-{number}.example")).unwrap());
        let lookup = |name| {
            let scheduler = Arc::clone(&self.scheduler);
            async move { scheduler.lookup(name).await }
        };
        names.map(lookup).collect()
    }

    /// Waits until `count` blocking lookups have started since the resolver was created, finished ones included.
    async fn wait_for_started(&self, count: usize) {
        must_finish(self.started.clone().wait_for(|names| names.len() >= count)).await.unwrap();
        assert_eq!(self.started.borrow().len(), count);
    }

    /// Waits until `count` lookups are in progress, those that wait for a permit included.
    async fn wait_for_in_progress(&self, count: usize) {
        wait_until(|| self.scheduler.state().in_progress.len() == count).await;
    }

    /// Waits until `count` callers wait for lookups in progress.
    async fn wait_for_callers(&self, count: usize) {
        let callers =
            || self.scheduler.state().in_progress.values().map(watch::Sender::receiver_count).sum::<usize>();
        wait_until(|| callers() == count).await;
    }

    fn is_suspect(&self, name: &str) -> bool {
        matches!(
            self.scheduler.state().history.get(&parse_host_name(name).unwrap()),
            Some(NameHistory::Suspect { .. })
        )
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    must_finish(waiting).await;
}

/// Awaits a future and panics if it hangs. Time is paused, so the limit is a number of thread switches instead, which
/// take many seconds in total.
async fn must_finish<T>(future: impl Future<Output = T>) -> T {
    let limit = async {
        for _ in 0..300_000 {
            tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        output = future => output,
        () = limit => panic!("the future did not finish"),
    }
}

fn address() -> Vec<IpAddr> {
    vec![IpAddr::from([192, 0, 2, 1])]
}

async fn advance(time: Duration) {
    tokio::time::advance(time).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_cached_for_a_few_seconds() {
    let resolver = FakeResolver::new();
    for (later, lookups) in [(Duration::ZERO, 1), (ANSWER_TTL / 2, 1), (ANSWER_TTL / 2, 2)] {
        advance(later).await;
        assert_eq!(resolver.lookup("receiver.example").await, Ok(address()));
        resolver.wait_for_started(lookups).await;
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_missing_addresses_are_not_cached() {
    let resolver = FakeResolver::new();
    resolver.hanging_lookups.release();
    for name in ["none.example", "dying.example"] {
        for _ in 0..3 {
            resolver.lookup(name).await.unwrap_err();
        }
    }
    resolver.wait_for_started(6).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_name_uses_one_thread_for_all_callers_and_keeps_it_without_callers() {
    let resolver = FakeResolver::new();
    let first = resolver.lookup_all("dead", 1);
    resolver.wait_for_started(1).await;
    drop(first);
    let joined: Vec<_> = (0..50).map(|_| resolver.lookup_all("dead", 1)).collect();
    resolver.wait_for_callers(50).await;
    assert_eq!(resolver.scheduler.new_permits.available_permits(), PROMPT_LOOKUPS_MAX - 1);
    resolver.hanging_lookups.release();
    for lookup in joined {
        let failed = LookupError::failed("dead-0.example", "no answer");
        assert_eq!(must_finish(lookup.join_all()).await, [Err(failed)]);
    }
    resolver.wait_for_started(1).await;
    resolver.wait_for_in_progress(0).await;
    let all = u32::try_from(PROMPT_LOOKUPS_MAX).unwrap();
    assert!(
        must_finish(resolver.scheduler.new_permits.acquire_many(all)).await.is_ok(),
        "the permit returns when the thread is free"
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_new_names_become_slow_and_delay_another_new_name_only_briefly() {
    let resolver = FakeResolver::new();
    let _waiting = resolver.lookup_all("dead", 150);
    let mut started = 0;
    while started < 150 {
        started = (started + PROMPT_LOOKUPS_MAX).min(150);
        resolver.wait_for_started(started).await;
        advance(2 * SLOW_AFTER).await;
    }
    assert_eq!(resolver.lookup("receiver.example").await, Ok(address()));
}

#[tokio::test(start_paused = true)]
async fn hanging_new_names_never_delay_an_answered_name() {
    let resolver = FakeResolver::new();
    for name in ["receiver.example", "none.example"] {
        let _ = resolver.lookup(name).await;
    }
    advance(ANSWER_TTL).await;
    let permits = PROMPT_LOOKUPS_MAX + SLOW_LOOKUPS_MAX;
    let _waiting = resolver.lookup_all("dead", 2 * permits);
    for slow in (0..=SLOW_LOOKUPS_MAX).step_by(PROMPT_LOOKUPS_MAX) {
        resolver.wait_for_started(2 + PROMPT_LOOKUPS_MAX + slow).await;
        advance(2 * SLOW_AFTER).await;
    }
    resolver.wait_for_started(2 + permits).await;
    assert_eq!(resolver.lookup("receiver.example").await, Ok(address()));
    let none = LookupError::NoAddress("none.example".to_owned());
    assert_eq!(resolver.lookup("none.example").await, Err(none));
}

#[tokio::test(start_paused = true)]
async fn suspect_names_delay_neither_new_nor_answered_names() {
    let resolver = FakeResolver::new();
    assert_eq!(resolver.lookup("receiver.example").await, Ok(address()));
    let failed = must_finish(resolver.lookup_all("dying", 200).join_all()).await;
    assert!(failed.iter().all(Result::is_err));
    advance(ANSWER_TTL).await;
    let _waiting = resolver.lookup_all("dying", 200);
    resolver.wait_for_started(1 + 200 + SUSPECT_LOOKUPS_MAX).await;
    advance(2 * SLOW_AFTER).await;
    for name in ["receiver.example", "new.example"] {
        assert_eq!(resolver.lookup(name).await, Ok(address()));
    }
    resolver.wait_for_started(1 + 200 + SUSPECT_LOOKUPS_MAX + 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_lookup_outlasts_its_callers_is_suspect() {
    let resolver = FakeResolver::new();
    let callers = resolver.lookup_all("slow", 1);
    resolver.wait_for_started(1).await;
    drop(callers);
    resolver.wait_for_callers(0).await;
    resolver.hanging_lookups.release();
    resolver.wait_for_in_progress(0).await;
    assert!(resolver.is_suspect("slow-0.example"));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_suspect_until_it_is_answered_again() {
    let resolver = FakeResolver::new();
    assert!(resolver.lookup("reviving.example").await.is_err());
    assert!(resolver.is_suspect("reviving.example"));
    assert_eq!(resolver.lookup("reviving.example").await, Ok(address()));
    assert!(!resolver.is_suspect("reviving.example"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_failed_once_does_not_queue_behind_dead_names_for_ever() {
    let resolver = FakeResolver::new();
    assert!(resolver.lookup("reviving.example").await.is_err());
    must_finish(resolver.lookup_all("dying", SUSPECT_LOOKUPS_MAX).join_all()).await;
    let _hanging = resolver.lookup_all("dying", SUSPECT_LOOKUPS_MAX);
    resolver.wait_for_started(1 + 2 * SUSPECT_LOOKUPS_MAX).await;
    advance(SUSPECT_FOR).await;
    assert_eq!(resolver.lookup("reviving.example").await, Ok(address()));
}

#[tokio::test(start_paused = true)]
async fn a_queued_lookup_without_callers_is_never_started() {
    let resolver = FakeResolver::new();
    let all = SUSPECT_LOOKUPS_MAX + 50;
    must_finish(resolver.lookup_all("dying", all).join_all()).await;
    let hanging_lookups = resolver.lookup_all("dying", SUSPECT_LOOKUPS_MAX);
    resolver.wait_for_started(all + SUSPECT_LOOKUPS_MAX).await;
    let queued = resolver.lookup_all("dying", all);
    resolver.wait_for_in_progress(all).await;
    drop(queued);
    resolver.wait_for_in_progress(SUSPECT_LOOKUPS_MAX).await;
    resolver.hanging_lookups.release();
    must_finish(hanging_lookups.join_all()).await;
    resolver.wait_for_started(all + SUSPECT_LOOKUPS_MAX).await;
}
