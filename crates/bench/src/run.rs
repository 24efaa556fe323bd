//! A run: measures the selected parts of the product and prints the table.

use std::path::PathBuf;

use crate::clock::now;
use crate::crowd::Crowd;
use crate::database::Servers;
use crate::figure::{Figure, catalogue};
use crate::options::{Part, RunOptions, StoreKind};
use crate::results::Results;
use crate::scale::Scale;
use crate::sink::Sink;
use crate::{part, store, table};

/// What the parts of a run share.
pub(crate) struct Run {
    pub(crate) binary: PathBuf,
    pub(crate) scale: Scale,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) sink: Sink,
    pub(crate) servers: Servers,
    pub(crate) results: Results,
    figures: Vec<Figure>,
}

/// Measures the selected parts.
pub(crate) async fn run(options: RunOptions) -> Result<(), String> {
    let binary = options.binary.canonicalize().map_err(|error| {
        let binary = options.binary.display();
        format!("{binary}: {error}; build it with `cargo build --release -p posthaste-cli`")
    })?;
    let mut run = Run {
        binary,
        scale: Scale(options.scale.unwrap_or(options.what.scale_default)),
        crowds: options.what.crowds,
        sink: Sink::start(),
        servers: Servers::default(),
        results: Results::new(&options.label),
        figures: catalogue(),
    };
    for part in &options.what.parts {
        run.results.scales.insert(format!("{part:?}").to_lowercase(), run.scale.0);
        for kind in &options.store.0 {
            let started = now();
            println!("\n{} {part:?}", kind.title());
            run.measure(*part, *kind).await;
            println!("  measured in {:.0} s", (now() - started).as_secs_f64());
        }
    }
    run.record_environment();
    println!("\n{}", table::render(&run.results, &run.figures));
    let Some(path) = &options.json else { return Ok(()) };
    let mut results = if path.exists() { Results::read(path)? } else { Results::default() };
    results.merge(run.results);
    results.write(path)
}

impl Run {
    async fn measure(&mut self, part: Part, kind: StoreKind) {
        match part {
            Part::Drain => part::drain::measure(self, kind).await,
            Part::Ingest => part::ingest::measure(self, kind).await,
            Part::Latency => part::latency::measure(self, kind).await,
            Part::Slow => part::slow::measure(self, kind).await,
            Part::Workers => part::workers::measure(self, kind).await,
            Part::Idle => part::idle::measure(self, kind).await,
            Part::Crowds => part::crowds::measure(self, kind).await,
            Part::Stages => part::stages::measure(self, kind).await,
            Part::Claims => store::claims::measure(self, kind).await,
            Part::Trickle => store::trickle::measure(self, kind).await,
            Part::Backlog => store::backlog::measure(self, kind).await,
            Part::Bulk => store::bulk::measure(self, kind).await,
            Part::Endpoints => {
                store::endpoints::measure(self, kind).await;
                part::endpoints::measure(self, kind).await;
            }
        }
    }

    /// Records and prints a figure.
    ///
    /// # Panics
    /// If the catalogue has no such figure.
    pub(crate) fn record(&mut self, kind: StoreKind, key: &str, value: f64) {
        let figure = self.figures.iter().find(|figure| figure.key == key);
        let figure = figure.unwrap_or_else(|| panic!("{key} is not in the catalogue"));
        println!("  {:<72} {}", figure.description, table::format_value(figure.unit, value));
        self.results.record(kind, key, value);
    }

    fn record_environment(&mut self) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let environment = &mut self.results.environment;
        environment.insert("cores".to_owned(), cores.to_string());
        if let Some(version) = self.servers.postgres_version() {
            environment.insert("PostgreSQL".to_owned(), version);
        }
    }
}
