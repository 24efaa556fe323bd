//! Drains a backlog of direct events beside 100,000 registered endpoints, against a drain without any.

use crate::backlog::store_backlog;
use crate::database::Database;
use crate::options::StoreKind;
use crate::part::timed_drain::drain;
use crate::run::Run;
use crate::sink::Behaviour;
use crate::store::endpoints::REGISTERED;
use crate::store::registry::{PUBLISHED_TYPE, add_application, add_endpoints, register_types};

const EVENTS: usize = 100_000;
const URLS: usize = 20;

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let (without, with) = (run.servers.create(kind), run.servers.create(kind));
    let count = run.scale.count(REGISTERED);
    with.with_store(async |store| {
        register_types(store).await;
        let app = add_application(store).await;
        add_endpoints(store, &app, PUBLISHED_TYPE, count).await;
    })
    .await;
    let mut rates = [Vec::new(), Vec::new()];
    // Each side goes first once, because the pace of the machine drifts.
    for (round, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
        for side in order {
            let database = [&without, &with][side];
            rates[side].push(drain_once(run, database, &format!("endpoints-{round}-{side}")).await);
        }
    }
    let [without, with] = rates.map(|rates| rates.iter().sum::<f64>() / rates.len() as f64);
    run.record(kind, "drain_endpoints", with / without);
    run.record(kind, "drain_endpoints_rate", with);
}

async fn drain_once(run: &mut Run, database: &Database, group: &str) -> f64 {
    let events = run.scale.count(EVENTS);
    let urls: Vec<String> = (0..URLS).map(|number| run.sink.url(group, Behaviour::Accept, number)).collect();
    store_backlog(&run.binary, database, &mut run.sink, &urls, events).await;
    database.tidy();
    drain(run, database, group, events, 1).await.rate()
}
