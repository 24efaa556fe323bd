//! Drains a backlog of 200,000 events: over 20 URLs of one host, and over 200 hosts.

use crate::backlog::store_backlog;
use crate::options::StoreKind;
use crate::part::beside_raw;
use crate::part::timed_drain::{TimedDrain, drain};
use crate::run::Run;
use crate::sink::{Behaviour, Sink};

const EVENTS: usize = 200_000;
const GROUP: &str = "drain";

/// How the destinations are spread over hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    OneHost,
    Hosts,
}

impl Layout {
    fn urls(self, sink: &Sink, group: &str) -> Vec<String> {
        match self {
            Self::OneHost => (0..20).map(|number| sink.url(group, Behaviour::Accept, number)).collect(),
            Self::Hosts => (0..200).map(|host| sink.host_url(host, group, Behaviour::Accept)).collect(),
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::OneHost => "one_host",
            Self::Hosts => "hosts",
        }
    }
}

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    for layout in [Layout::OneHost, Layout::Hosts] {
        measure_layout(run, kind, layout).await;
    }
}

async fn measure_layout(run: &mut Run, kind: StoreKind, layout: Layout) {
    let events = run.scale.count(EVENTS);
    let database = run.servers.create(kind);
    let urls = layout.urls(&run.sink, GROUP);
    let raw_urls = layout.urls(&run.sink, "raw");
    let wal_before = database.wal_bytes();
    store_backlog(&run.binary, &database, &mut run.sink, &urls, events).await;
    let wal_enqueued = database.wal_bytes().zip(wal_before).map(|(after, before)| after - before);
    database.tidy();
    let ((drained, wal_drained), raw) = beside_raw(run, &raw_urls, async |run| {
        let before = database.wal_bytes();
        let drained = drain(run, &database, GROUP, events, 1).await;
        (drained, database.wal_bytes().zip(before).map(|(after, before)| after - before))
    })
    .await;
    let key = layout.key();
    run.record(kind, &format!("drain_{key}"), drained.rate() / raw.rate);
    run.record(kind, &format!("drain_{key}_rate"), drained.rate());
    run.record(kind, &format!("raw_{key}_rate"), raw.rate);
    run.record(kind, &format!("connections_{key}"), drained.connections as f64);
    if layout == Layout::OneHost {
        record_costs(run, kind, &drained);
        run.record(kind, "cpu_raw", raw.cpu_micros);
        if let (Some(enqueued), Some(drained)) = (wal_enqueued, wal_drained) {
            run.record(kind, "wal", (enqueued + drained) / events as f64);
            run.record(kind, "wal_enqueue", enqueued / events as f64);
        }
    }
}

fn record_costs(run: &mut Run, kind: StoreKind, drained: &TimedDrain) {
    run.record(kind, "cpu_product", drained.micros_per_event(drained.product_cpu));
    if let Some(server) = drained.server_cpu {
        run.record(kind, "cpu_server", drained.micros_per_event(server));
    }
    run.record(kind, "cpu_sink", drained.micros_per_event(drained.sink_cpu));
    run.record(kind, "memory", drained.peak_memory_bytes as f64 / 1e6);
}
