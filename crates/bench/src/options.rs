//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

/// Benchmark of the whole product. `make bench` builds the product and runs it.
#[derive(Debug, Parser)]
#[command(name = "posthaste-bench", disable_help_subcommand = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the product and print a table
    Run(RunOptions),
    /// Draw one SVG per chart from the results of runs
    Plot {
        /// Results that `run --json` wrote, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Directory of the SVG files
        #[arg(long, default_value = "docs/performance")]
        directory: PathBuf,
    },
    /// Write the results of runs into the tables of the document
    Document {
        /// Results that `run --json` wrote, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[arg(long, default_value = "docs/performance.md")]
        document: PathBuf,
    },
    /// Receive requests, for a run
    #[command(name = crate::sink::SUBCOMMAND, hide = true)]
    Sink,
    /// Send requests without a product, for a run
    #[command(name = crate::raw::SUBCOMMAND, hide = true)]
    Raw { requests: usize },
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The product to measure
    #[arg(long, default_value = "target/release/posthaste")]
    pub(crate) binary: PathBuf,
    /// Parts to measure, separated by commas: all (without the long ones), quick, or
    /// drain, ingest, latency, slow, claims, workers, wal, memory, idle, crowds, and the long ones trickle, backlog, endpoints, bulk
    #[arg(long, default_value = "all")]
    pub(crate) what: Selection,
    /// sqlite, postgres or both
    #[arg(long, default_value = "both")]
    pub(crate) store: Stores,
    /// Factor for the numbers of events and the durations
    #[arg(long)]
    pub(crate) scale: Option<f64>,
    /// Only crowds whose name contains this text
    #[arg(long)]
    pub(crate) crowd: Option<String>,
    /// File for the results. Existing results of other parts are kept
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Name of these results in plots and tables
    #[arg(long, default_value = "after")]
    pub(crate) label: String,
}

/// A store of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// Returns the key of the store in results.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// The stores that a run measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stores(pub(crate) Vec<StoreKind>);

impl FromStr for Stores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "both" => Ok(Self(StoreKind::ALL.to_vec())),
            "sqlite" => Ok(Self(vec![StoreKind::Sqlite])),
            "postgres" => Ok(Self(vec![StoreKind::Postgres])),
            _ => Err("must be sqlite, postgres or both".to_owned()),
        }
    }
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Drain,
    Ingest,
    Latency,
    Slow,
    Claims,
    Workers,
    Idle,
    Crowds,
    Trickle,
    Backlog,
    Endpoints,
    Bulk,
}

impl Part {
    /// The parts of a run of the whole product. The long parts are measured only by their names.
    const ALL: [Self; 8] = [
        Self::Drain,
        Self::Ingest,
        Self::Latency,
        Self::Slow,
        Self::Claims,
        Self::Workers,
        Self::Idle,
        Self::Crowds,
    ];
    const QUICK: [Self; 4] = [Self::Drain, Self::Ingest, Self::Latency, Self::Slow];
}

/// The parts that a run measures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    /// Parts in the order of their measurement, each once.
    pub(crate) parts: Vec<Part>,
    /// The scale unless the command line sets one.
    pub(crate) scale_default: f64,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut parts, mut scale_default) = (Vec::new(), 1.0);
        for name in text.split(',').map(str::trim) {
            match name {
                "all" => parts.extend(Part::ALL),
                "quick" => {
                    parts.extend(Part::QUICK);
                    scale_default = 0.1;
                }
                // A drain measures the log and the memory as well.
                "drain" | "wal" => parts.push(Part::Drain),
                "memory" => parts.extend([Part::Drain, Part::Idle]),
                "ingest" => parts.push(Part::Ingest),
                "latency" => parts.push(Part::Latency),
                "slow" => parts.push(Part::Slow),
                "claims" => parts.push(Part::Claims),
                "workers" => parts.push(Part::Workers),
                "idle" => parts.push(Part::Idle),
                "crowds" => parts.push(Part::Crowds),
                "trickle" => parts.push(Part::Trickle),
                "backlog" => parts.push(Part::Backlog),
                "endpoints" => parts.push(Part::Endpoints),
                "bulk" => parts.push(Part::Bulk),
                _ => return Err(format!("{name:?} is not a part")),
            }
        }
        parts.sort_unstable();
        parts.dedup();
        Ok(Self { parts, scale_default })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_selected_once_and_in_their_order() {
        let selection: Selection = "latency, drain,wal,memory".parse().unwrap();
        assert_eq!(selection.parts, [Part::Drain, Part::Latency, Part::Idle]);
        assert_eq!(selection.scale_default, 1.0);
        let all: Selection = "all".parse().unwrap();
        assert!(
            [Part::Backlog, Part::Trickle, Part::Endpoints, Part::Bulk]
                .iter()
                .all(|long| !all.parts.contains(long))
        );
        let quick: Selection = "quick".parse().unwrap();
        assert!(quick.scale_default < 1.0 && quick.parts.contains(&Part::Drain));
    }

    #[test]
    fn unknown_names_are_errors() {
        assert_eq!("drain,dance".parse::<Selection>(), Err("\"dance\" is not a part".to_owned()));
        assert!("mysql".parse::<Stores>().is_err());
    }

    #[test]
    fn command_line_has_defaults() {
        let line = CommandLine::try_parse_from(["posthaste-bench", "run", "--store", "sqlite"]).unwrap();
        let Command::Run(options) = line.command else { panic!("{line:?}") };
        assert_eq!(options.store.0, [StoreKind::Sqlite]);
        assert_eq!(options.what.parts, Part::ALL);
        assert_eq!(options.scale, None);
    }
}
