//! Processor time per event during a drain over 200 hosts by one worker, by stage: by thread of the product, and by statement of
//! PostgreSQL.

mod statements;
mod threads;

use crate::backlog::store_backlog;
use crate::database::Servers;
use crate::figure::{Chart, Figure, Unit, figure};
use crate::options::StoreKind;
use crate::part::timed_drain::drain;
use crate::run::Run;
use crate::sink::Behaviour;

use statements::{Stage, StatementTimes};
use threads::ThreadGroup;

const EVENTS: usize = 100_000;
const GROUP: &str = "stages";

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let events = run.scale.count(EVENTS);
    let database = match kind {
        StoreKind::Sqlite => run.servers.create(kind),
        StoreKind::Postgres => Servers::create_with_statements(),
    };
    let urls: Vec<String> = (0..200).map(|host| run.sink.host_url(host, GROUP, Behaviour::Accept)).collect();
    store_backlog(&run.binary, &database, &mut run.sink, &urls, events).await;
    database.tidy();
    statements::reset(&database);
    let drained = drain(run, &database, GROUP, events, 1).await;
    for (group, time) in threads::group(&drained.thread_times) {
        run.record(kind, group.key(), drained.micros_per_event(time));
    }
    if let Some(server) = drained.server_cpu {
        run.record(kind, "stage_server", drained.micros_per_event(server));
    }
    run.record(kind, "stage_sink", drained.micros_per_event(drained.sink_cpu));
    let statements = statements::read(&database);
    for stage in Stage::ALL {
        let StatementTimes { took, wal_bytes } = statements.of(stage);
        if kind == StoreKind::Postgres {
            run.record(kind, &stage.time_key(), drained.micros_per_event(took));
            run.record(kind, &stage.wal_key(), wal_bytes / events as f64);
        }
    }
    statements.print_largest_of_other();
}

/// Returns the figures of this part.
pub(crate) fn figures() -> Vec<Figure> {
    let time = |key: &str, text: &str| figure(key, text, Unit::Microseconds, Chart::Stages);
    let threads = ThreadGroup::ALL.map(|group| time(group.key(), group.description()));
    let processes = [
        time("stage_server", "PostgreSQL server, processor time"),
        time("stage_sink", "sink, processor time"),
    ];
    let statements = Stage::ALL.map(|stage| time(&stage.time_key(), stage.description()));
    let logs = Stage::ALL.map(|stage| {
        let text = format!("{}: write-ahead log", stage.description());
        figure(&stage.wal_key(), &text, Unit::Bytes, Chart::Stages)
    });
    threads.into_iter().chain(processes).chain(statements).chain(logs).collect()
}
