//! Drains a backlog for one destination that answers after 5 ms. Its rate is bounded by the connections that one
//! destination may have.

use std::time::Duration;

use crate::backlog::store_backlog;
use crate::options::StoreKind;
use crate::part::timed_drain::drain;
use crate::run::Run;
use crate::sink::Behaviour;

const EVENTS: usize = 30_000;
const GROUP: &str = "slow";
const ANSWER_AFTER: Duration = Duration::from_millis(5);
/// The default of `http_pool_size`.
const POOL_SIZE: f64 = 20.0;

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let events = run.scale.count(EVENTS);
    let database = run.servers.create(kind);
    let urls = [run.sink.url(GROUP, Behaviour::Delay(ANSWER_AFTER), 0)];
    store_backlog(&run.binary, &database, &mut run.sink, &urls, events).await;
    database.tidy();
    let drained = drain(run, &database, GROUP, events, 1).await;
    let bound = POOL_SIZE / ANSWER_AFTER.as_secs_f64();
    run.record(kind, "slow", drained.rate() / bound);
    run.record(kind, "slow_rate", drained.rate());
}
