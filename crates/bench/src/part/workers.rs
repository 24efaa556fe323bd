//! Drains a backlog with 1, 2 and 4 processes on one PostgreSQL.

use crate::backlog::store_backlog;
use crate::options::StoreKind;
use crate::part::timed_drain::drain;
use crate::run::Run;
use crate::sink::Behaviour;

const EVENTS: usize = 200_000;
const GROUP: &str = "workers";

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    if kind == StoreKind::Sqlite {
        println!("  several worker processes are for PostgreSQL");
        return;
    }
    let events = run.scale.count(EVENTS);
    let urls: Vec<String> = (0..200).map(|host| run.sink.host_url(host, GROUP, Behaviour::Accept)).collect();
    let mut fewer = None;
    for workers in [1, 2, 4] {
        let database = run.servers.create(kind);
        store_backlog(&run.binary, &database, &mut run.sink, &urls, events).await;
        database.tidy();
        let rate = drain(run, &database, GROUP, events, workers).await.rate();
        run.record(kind, &format!("workers_{workers}"), rate);
        if let Some(fewer) = fewer {
            run.record(kind, &format!("workers_{workers}_ratio"), rate / fewer);
        }
        fewer = Some(rate);
    }
}
