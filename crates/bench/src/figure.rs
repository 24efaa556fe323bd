//! The catalogue of figures: what each is called, its unit, its targets and its chart.

use crate::crowd::Crowd;
use crate::options::StoreKind;
use crate::part::stages;

/// A figure of the benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// The key in results.
    pub(crate) key: String,
    pub(crate) description: String,
    pub(crate) unit: Unit,
    /// Targets for SQLite and PostgreSQL.
    pub(crate) targets: [Target; 2],
    pub(crate) chart: Chart,
}

/// How a figure is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Ratio,
    PerSecond,
    Count,
    Microseconds,
    Milliseconds,
    Bytes,
    Megabytes,
    Percent,
}

/// What a figure should reach.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    None,
    AtLeast(f64),
    AtMost(f64),
    /// At most twice another figure in milliseconds, or 5 ms more than it.
    NearlyAlone(String),
}

/// The plots and tables of the document. Each figure belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chart {
    Drain,
    Rates,
    Ingest,
    Latency,
    Claims,
    Slow,
    Workers,
    Resources,
    ProcessorTime,
    Stages,
    Connections,
    Crowds,
    Trickle,
    Backlog,
    Endpoints,
    Bulk,
}

impl Chart {
    pub(crate) const ALL: [Self; 16] = [
        Self::Drain,
        Self::Ingest,
        Self::Latency,
        Self::Claims,
        Self::Slow,
        Self::Workers,
        Self::Resources,
        Self::Backlog,
        Self::Trickle,
        Self::Endpoints,
        Self::Bulk,
        Self::Crowds,
        Self::ProcessorTime,
        Self::Stages,
        Self::Connections,
        Self::Rates,
    ];

    /// Returns the name of the file and of the markers in the document.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Rates => "rates",
            Self::Ingest => "ingest",
            Self::Latency => "latency",
            Self::Claims => "claims",
            Self::Slow => "slow",
            Self::Workers => "workers",
            Self::Resources => "resources",
            Self::ProcessorTime => "processor-time",
            Self::Stages => "stages",
            Self::Connections => "connections",
            Self::Crowds => "crowds",
            Self::Trickle => "trickle",
            Self::Backlog => "backlog",
            Self::Endpoints => "endpoints",
            Self::Bulk => "bulk",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Drain => "Drain of a backlog, relative to the raw client",
            Self::Rates => "Rates behind the ratios",
            Self::Ingest => "Ingest and delivery together, relative to the raw client",
            Self::Latency => "From the API call to the arrival at the receiver",
            Self::Claims => "Claim and settle without sending",
            Self::Slow => "One destination that answers in 5 ms, relative to what its connections allow",
            Self::Workers => "Drain by several worker processes on one PostgreSQL",
            Self::Resources => "Memory, idle processor time and write-ahead log",
            Self::ProcessorTime => "Processor time per event, by process",
            Self::Stages => "Time per event, by stage",
            Self::Connections => "Connections opened during the drain",
            Self::Crowds => "Lag of healthy receivers beside a crowd",
            Self::Trickle => "Claim of one event beside rows that cannot be sent",
            Self::Backlog => "Claim and settle as the store fills, relative to a small backlog",
            Self::Endpoints => "Cost of fan-out and of registered endpoints",
            Self::Bulk => "A million dead letters, in bulk",
        }
    }
}

/// Returns all figures, in the order of the table.
pub(crate) fn catalogue() -> Vec<Figure> {
    use Chart as C;
    use Unit as U;
    let (ratio, rate, time) = (U::Ratio, U::PerSecond, U::Microseconds);
    let mut figures = vec![
        figure("drain_one_host", "drain over 20 URLs of one host ÷ raw", ratio, C::Drain)
            .at_least(0.55, 0.45),
        figure("drain_hosts", "drain over 200 hosts ÷ raw", ratio, C::Drain).at_least(0.55, 0.45),
        figure("ingest", "ingest + delivery, 64 clients over HTTP ÷ raw", ratio, C::Ingest)
            .at_least(0.18, 0.15),
        figure("latency_p50", "API call → arrival at 50/s, p50", U::Milliseconds, C::Latency)
            .at_most(0.9, 1.2),
        figure("latency_p99", "API call → arrival at 50/s, p99", U::Milliseconds, C::Latency)
            .at_most(3.0, 4.0),
        figure("claims_500", "claim + settle, batches of 500", rate, C::Claims).at_least(150e3, 80e3),
        figure("claims_100", "claim + settle, batches of 100", rate, C::Claims).at_least(150e3, 80e3),
        figure("claims_retries", "claim + settle, one in 20 to be retried", rate, C::Claims),
        figure("claims_cpu", "processor time for both, batches of 500", time, C::ProcessorTime),
        figure("claims_100_cpu", "processor time for both, batches of 100", time, C::ProcessorTime),
        figure("enqueue_arrays", "enqueue, 1,000 events per call", rate, C::Claims),
        figure("enqueue_singles", "enqueue, 64 producers of single events", rate, C::Claims),
        figure("slow", "one destination that answers in 5 ms ÷ HTTP_POOL_SIZE / 5 ms", ratio, C::Slow)
            .at_least(0.9, 0.9),
        figure("workers_1", "drain by 1 worker process", rate, C::Workers),
        figure("workers_2", "drain by 2 worker processes", rate, C::Workers),
        figure("workers_4", "drain by 4 worker processes", rate, C::Workers),
        figure("workers_2_ratio", "2 worker processes ÷ 1", ratio, C::Workers).at_least(1.0, 1.0),
        figure("workers_4_ratio", "4 worker processes ÷ 2", ratio, C::Workers).at_least(1.0, 1.0),
        figure("wal", "write-ahead log per event, enqueue to settled", U::Bytes, C::Resources)
            .at_most(1_100.0, 1_100.0),
        figure(
            "wal_enqueue",
            "write-ahead log of the enqueue alone, with 512 bytes of payload",
            U::Bytes,
            C::Resources,
        ),
        figure("memory", "memory during the drain, peak", U::Megabytes, C::Resources).at_most(100.0, 100.0),
        figure("idle_memory", "memory when idle", U::Megabytes, C::Resources),
        figure("idle_cpu", "idle processor time, of one core", U::Percent, C::Resources).at_most(1.0, 1.0),
        figure("backlog_large", "backlog of 5 million ÷ 200,000", ratio, C::Backlog).at_least(0.9, 0.85),
        figure("backlog_snapshot", "with a snapshot held open", ratio, C::Backlog).at_least(0.9, 0.8),
        figure("backlog_late", "after 4 million deliveries", ratio, C::Backlog).at_least(0.9, 0.9),
        figure(
            "trickle_excluded_p50",
            "beside a million due of an excluded destination, p50",
            U::Milliseconds,
            C::Trickle,
        ),
        figure(
            "trickle_excluded_p99",
            "beside a million due of an excluded destination, p99",
            U::Milliseconds,
            C::Trickle,
        ),
        figure(
            "trickle_later_p50",
            "beside 100,000 destinations with a future retry, p50",
            U::Milliseconds,
            C::Trickle,
        ),
        figure(
            "trickle_later_p99",
            "beside 100,000 destinations with a future retry, p99",
            U::Milliseconds,
            C::Trickle,
        ),
        figure("fan_out", "publish to 100 endpoints ÷ enqueue of 100 events, in time", ratio, C::Endpoints)
            .at_most(1.3, 1.3),
        figure("publish_few", "publish to 3 of 10,000 endpoints ÷ to 3 of 3, in time", ratio, C::Endpoints)
            .at_most(2.0, 2.0),
        figure(
            "claims_endpoints",
            "claim + settle beside 100,000 endpoints ÷ beside none",
            ratio,
            C::Endpoints,
        )
        .at_least(0.95, 0.95),
        figure("drain_endpoints", "drain beside 100,000 endpoints ÷ beside none", ratio, C::Endpoints)
            .at_least(0.95, 0.95),
        figure("bulk_count", "count a million dead letters", U::Milliseconds, C::Bulk),
        figure(
            "bulk_claim_p50",
            "claim of one event beside a requeue of 10,000/s, p50",
            U::Milliseconds,
            C::Bulk,
        ),
        figure(
            "bulk_claim_p99",
            "claim of one event beside a requeue of 10,000/s, p99",
            U::Milliseconds,
            C::Bulk,
        ),
        figure("bulk_rate", "requeue of a million dead letters, without a rate", rate, C::Rates),
        figure("fan_out_rate", "events of publishes to 100 endpoints, one producer", rate, C::Rates),
        figure("publish_few_rate", "publishes to 3 of 10,000 endpoints, one producer", rate, C::Rates),
        figure("claims_endpoints_rate", "claim + settle beside 100,000 endpoints", rate, C::Rates),
        figure("drain_endpoints_rate", "drain beside 100,000 endpoints", rate, C::Rates),
        figure("overview", "overview of the store after these deliveries", U::Milliseconds, C::Trickle),
    ];
    figures.extend(Crowd::ALL.into_iter().flat_map(crowd_figures));
    figures.extend(stages::figures());
    figures.extend([
        figure("connections_one_host", "connections opened, 20 URLs of one host", U::Count, C::Connections)
            .at_most(1_024.0, 1_024.0),
        figure("connections_hosts", "connections opened, 200 hosts", U::Count, C::Connections)
            .at_most(1_024.0, 1_024.0),
        figure("cpu_product", "drain: posthaste", time, C::ProcessorTime),
        figure("cpu_server", "drain: PostgreSQL server", time, C::ProcessorTime),
        figure("cpu_sink", "drain: sink", time, C::ProcessorTime),
        figure("cpu_raw", "raw client alone", time, C::ProcessorTime),
        figure("ingest_cpu_product", "ingest + delivery: posthaste", time, C::ProcessorTime),
        figure("ingest_cpu_server", "ingest + delivery: PostgreSQL server", time, C::ProcessorTime),
        figure("drain_one_host_rate", "drain over 20 URLs of one host", rate, C::Rates),
        figure("drain_hosts_rate", "drain over 200 hosts", rate, C::Rates),
        figure("ingest_rate", "ingest + delivery, 64 clients over HTTP", rate, C::Rates),
        figure("slow_rate", "one destination that answers in 5 ms", rate, C::Rates),
        figure("raw_one_host_rate", "raw client, 20 URLs of one host", rate, C::Rates),
        figure("raw_hosts_rate", "raw client, 200 hosts", rate, C::Rates),
    ]);
    figures
}

/// Returns the figures of one crowd, with one worker and with two.
fn crowd_figures(crowd: Crowd) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (workers, suffix) in [(1, ""), (2, ", two workers")] {
        let key = |name: &str| crowd.figure_key(workers, name);
        let title = crowd.title();
        let lag = |key: String, text: &str| {
            figure(&key, &format!("{title}{suffix}: {text}"), Unit::Milliseconds, Chart::Crowds)
        };
        let nearly_alone = Target::NearlyAlone(key("alone_p99"));
        figures.extend([
            lag(key("alone_p99"), "p99 alone"),
            lag(key("p50"), "p50 beside it"),
            Figure { targets: [nearly_alone.clone(), nearly_alone], ..lag(key("p99"), "p99 beside it") },
        ]);
        if let Some(progress) = crowd.progress_title() {
            let description = format!("{title}{suffix}: {progress}");
            figures.push(figure(&key("progress"), &description, Unit::Ratio, Chart::Crowds));
        }
    }
    figures
}

pub(crate) fn figure(key: &str, description: &str, unit: Unit, chart: Chart) -> Figure {
    let targets = [Target::None, Target::None];
    Figure { key: key.to_owned(), description: description.to_owned(), unit, targets, chart }
}

impl Figure {
    fn at_least(self, sqlite: f64, postgres: f64) -> Self {
        Self { targets: [Target::AtLeast(sqlite), Target::AtLeast(postgres)], ..self }
    }

    fn at_most(self, sqlite: f64, postgres: f64) -> Self {
        Self { targets: [Target::AtMost(sqlite), Target::AtMost(postgres)], ..self }
    }

    pub(crate) fn target(&self, kind: StoreKind) -> &Target {
        match kind {
            StoreKind::Sqlite => &self.targets[0],
            StoreKind::Postgres => &self.targets[1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = catalogue().into_iter().map(|figure| figure.key).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn relative_targets_name_figures() {
        let figures = catalogue();
        for target in figures.iter().flat_map(|figure| &figure.targets) {
            if let Target::NearlyAlone(key) = target {
                assert!(figures.iter().any(|figure| figure.key == *key), "{key}");
            }
        }
    }

    #[test]
    fn every_chart_has_a_figure() {
        let figures = catalogue();
        for chart in Chart::ALL {
            assert!(figures.iter().any(|figure| figure.chart == chart), "{chart:?}");
        }
    }
}
