use std::sync::Condvar;

use super::*;
use crate::resolve::qualified::qualified;

/// A host's resolver. Names that begin with `dead` hang until it is let go, and so do those that begin with `dying` when
/// they are looked up again: then all of them fail, as `reviving` does at first. All others have an address, except
/// `none`; `slow` has one when it is let go.
struct Host {
    asking: Arc<Asking>,
    /// Every name that was looked up, in this order.
    looked_up: watch::Receiver<Vec<String>>,
    hanging: Arc<Hanging>,
}

#[derive(Default)]
struct Hanging {
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl Hanging {
    fn wait(&self) {
        let let_go = self.let_go.lock().unwrap();
        drop(self.changed.wait_while(let_go, |let_go| !*let_go).unwrap());
    }

    fn let_go(&self) {
        *self.let_go.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// What hangs must not outlast its test, however that ends.
impl Drop for Host {
    fn drop(&mut self) {
        self.hanging.let_go();
    }
}

impl Host {
    fn new() -> Self {
        let (note, looked_up) = watch::channel(Vec::new());
        let hanging = Arc::new(Hanging::default());
        let hangs = Arc::clone(&hanging);
        let look = move |name: &Name| {
            let name = shown(name);
            let is_first = !note.borrow().contains(&name);
            note.send_modify(|names| names.push(name.clone()));
            let begins_with = |kind| name.starts_with(kind);
            if begins_with("dead") || begins_with("slow") || (begins_with("dying") && !is_first) {
                hangs.wait();
            }
            if begins_with("dead") || begins_with("dying") || (begins_with("reviving") && is_first) {
                return Err(LookupError::failed(&name, "nobody answers"));
            }
            if begins_with("none") { Err(LookupError::NoAddress(name)) } else { Ok(address()) }
        };
        Self { asking: Asking::new(Box::new(look)), looked_up, hanging }
    }

    async fn lookup(&self, name: &str) -> Found {
        soon(self.asking.lookup(qualified(name).unwrap())).await
    }

    /// Whoever waits for so many names of a kind stops when this is dropped.
    fn look_up_all(&self, kind: &str, count: usize) -> tokio::task::JoinSet<Found> {
        let names = (0..count).map(|number| qualified(&format!("{kind}-{number}.example")).unwrap());
        let lookup = |name| {
            let asking = Arc::clone(&self.asking);
            async move { asking.lookup(name).await }
        };
        names.map(lookup).collect()
    }

    /// Returns when so many lookups have begun since the resolver was made, ended ones included.
    async fn begun(&self, count: usize) {
        soon(self.looked_up.clone().wait_for(|names| names.len() >= count)).await.unwrap();
        assert_eq!(self.looked_up.borrow().len(), count);
    }

    /// Returns when so many lookups have not ended, those that wait for a place included.
    async fn under_way_become(&self, count: usize) {
        become_true(|| self.asking.books().under_way.len() == count).await;
    }

    /// Returns when so many wait for what is under way.
    async fn waiting_become(&self, count: usize) {
        let waiting =
            || self.asking.books().under_way.values().map(watch::Sender::receiver_count).sum::<usize>();
        become_true(|| waiting() == count).await;
    }

    fn is_doubtful(&self, name: &str) -> bool {
        matches!(self.asking.books().last.get(&qualified(name).unwrap()), Some(Last::Doubtful { .. }))
    }
}

async fn become_true(fact: impl Fn() -> bool) {
    let becoming = async {
        while !fact() {
            tokio::task::yield_now().await;
        }
    };
    soon(becoming).await;
}

/// Fails where something hangs. The runtime's clock stands still here, so what is counted is turns of the host's
/// threads, many seconds of them.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let turns = async {
        for _ in 0..300_000 {
            tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        done = future => done,
        () = turns => panic!("it takes too long"),
    }
}

fn address() -> Vec<IpAddr> {
    vec![IpAddr::from([192, 0, 2, 1])]
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_believed_for_a_few_seconds() {
    let host = Host::new();
    for (later, lookups) in [(Duration::ZERO, 1), (ANSWER_TTL / 2, 1), (ANSWER_TTL / 2, 2)] {
        pass(later).await;
        assert_eq!(host.lookup("receiver.example").await, Ok(address()));
        host.begun(lookups).await;
    }
}

#[tokio::test(start_paused = true)]
async fn neither_a_failure_nor_that_there_is_no_address_is_remembered_as_an_answer() {
    let host = Host::new();
    host.hanging.let_go();
    for name in ["none.example", "dying.example"] {
        for _ in 0..3 {
            host.lookup(name).await.unwrap_err();
        }
    }
    host.begun(6).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_hangs_takes_one_thread_however_many_ask_and_keeps_it_though_nobody_waits() {
    let host = Host::new();
    let first = host.look_up_all("dead", 1);
    host.begun(1).await;
    drop(first);
    let joined: Vec<_> = (0..50).map(|_| host.look_up_all("dead", 1)).collect();
    host.waiting_become(50).await;
    assert_eq!(host.asking.new.available_permits(), PROMPT_MAX - 1);
    host.hanging.let_go();
    for lookup in joined {
        let failed = LookupError::failed("dead-0.example", "nobody answers");
        assert_eq!(soon(lookup.join_all()).await, [Err(failed)]);
    }
    host.begun(1).await;
    host.under_way_become(0).await;
    let all = u32::try_from(PROMPT_MAX).unwrap();
    assert!(
        soon(host.asking.new.acquire_many(all)).await.is_ok(),
        "the place comes back when the thread is free"
    );
}

#[tokio::test(start_paused = true)]
async fn new_names_that_hang_move_aside_and_hold_another_new_one_up_for_a_moment_only() {
    let host = Host::new();
    let _waiting = host.look_up_all("dead", 150);
    let mut begun = 0;
    while begun < 150 {
        begun = (begun + PROMPT_MAX).min(150);
        host.begun(begun).await;
        pass(2 * PATIENCE).await;
    }
    assert_eq!(host.lookup("receiver.example").await, Ok(address()));
}

#[tokio::test(start_paused = true)]
async fn no_number_of_new_names_that_hang_holds_up_a_name_that_was_answered() {
    let host = Host::new();
    for name in ["receiver.example", "none.example"] {
        let _ = host.lookup(name).await;
    }
    pass(ANSWER_TTL).await;
    let places = PROMPT_MAX + ASIDE_MAX;
    let _waiting = host.look_up_all("dead", 2 * places);
    for moved in (0..=ASIDE_MAX).step_by(PROMPT_MAX) {
        host.begun(2 + PROMPT_MAX + moved).await;
        pass(2 * PATIENCE).await;
    }
    host.begun(2 + places).await;
    assert_eq!(host.lookup("receiver.example").await, Ok(address()));
    let none = LookupError::NoAddress("none.example".to_owned());
    assert_eq!(host.lookup("none.example").await, Err(none));
}

#[tokio::test(start_paused = true)]
async fn names_that_failed_hold_up_neither_new_names_nor_answered_ones() {
    let host = Host::new();
    assert_eq!(host.lookup("receiver.example").await, Ok(address()));
    let failed = soon(host.look_up_all("dying", 200).join_all()).await;
    assert!(failed.iter().all(Result::is_err));
    pass(ANSWER_TTL).await;
    let _waiting = host.look_up_all("dying", 200);
    host.begun(1 + 200 + DOUBTFUL_MAX).await;
    pass(2 * PATIENCE).await;
    for name in ["receiver.example", "new.example"] {
        assert_eq!(host.lookup(name).await, Ok(address()));
    }
    host.begun(1 + 200 + DOUBTFUL_MAX + 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_outlasted_whoever_waited_for_it_is_doubtful() {
    let host = Host::new();
    let waiting = host.look_up_all("slow", 1);
    host.begun(1).await;
    drop(waiting);
    host.waiting_become(0).await;
    host.hanging.let_go();
    host.under_way_become(0).await;
    assert!(host.is_doubtful("slow-0.example"));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_doubtful_until_it_is_answered_again() {
    let host = Host::new();
    assert!(host.lookup("reviving.example").await.is_err());
    assert!(host.is_doubtful("reviving.example"));
    assert_eq!(host.lookup("reviving.example").await, Ok(address()));
    assert!(!host.is_doubtful("reviving.example"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_failed_once_is_not_kept_among_the_dead() {
    let host = Host::new();
    assert!(host.lookup("reviving.example").await.is_err());
    soon(host.look_up_all("dying", DOUBTFUL_MAX).join_all()).await;
    let _hanging = host.look_up_all("dying", DOUBTFUL_MAX);
    host.begun(1 + 2 * DOUBTFUL_MAX).await;
    pass(DOUBTED_FOR).await;
    assert_eq!(host.lookup("reviving.example").await, Ok(address()));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_any_more_is_never_looked_up() {
    let host = Host::new();
    let all = DOUBTFUL_MAX + 50;
    soon(host.look_up_all("dying", all).join_all()).await;
    let hanging = host.look_up_all("dying", DOUBTFUL_MAX);
    host.begun(all + DOUBTFUL_MAX).await;
    let queued = host.look_up_all("dying", all);
    host.under_way_become(all).await;
    drop(queued);
    host.under_way_become(DOUBTFUL_MAX).await;
    host.hanging.let_go();
    soon(hanging.join_all()).await;
    host.begun(all + DOUBTFUL_MAX).await;
}
