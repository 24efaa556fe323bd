//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

use crate::crowd::Crowd;

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
    /// Parts to measure, separated by commas
    ///
    /// quick: drain, ingest, latency and slow with a tenth of the events, in a minute or two.
    /// all: drain, ingest, latency, slow, claims, workers, idle, crowds and stages.
    /// Long parts, only by their names: trickle, backlog, endpoints, bulk.
    /// wal is measured by drain, memory by drain and idle.
    /// A single crowd is crowds:NAME, of hang_one, hang_40, hang_200, hang_1000, hang_urls, fail, singles, large.
    #[arg(long, default_value = "all", verbatim_doc_comment)]
    pub(crate) what: Selection,
    /// sqlite, postgres or both
    #[arg(long, default_value = "both")]
    pub(crate) store: Stores,
    /// Factor for the numbers of events and the durations
    #[arg(long)]
    pub(crate) scale: Option<f64>,
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
    Stages,
    Trickle,
    Backlog,
    Endpoints,
    Bulk,
}

impl Part {
    /// The parts of a run of the whole product. The long parts are measured only by their names.
    const ALL: [Self; 9] = [
        Self::Drain,
        Self::Ingest,
        Self::Latency,
        Self::Slow,
        Self::Claims,
        Self::Workers,
        Self::Idle,
        Self::Crowds,
        Self::Stages,
    ];
    const QUICK: [Self; 4] = [Self::Drain, Self::Ingest, Self::Latency, Self::Slow];
}

/// The parts that a run measures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    /// Parts in the order of their measurement, each once.
    pub(crate) parts: Vec<Part>,
    /// The crowds that the part of crowds measures.
    pub(crate) crowds: Vec<Crowd>,
    /// The scale unless the command line sets one.
    pub(crate) scale_default: f64,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut parts, mut crowds, mut scale_default) = (Vec::new(), Vec::new(), 1.0);
        for name in text.split(',').map(str::trim) {
            match name {
                "all" => {
                    parts.extend(Part::ALL);
                    crowds.extend(Crowd::ALL);
                }
                "crowds" => {
                    parts.push(Part::Crowds);
                    crowds.extend(Crowd::ALL);
                }
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
                "stages" => parts.push(Part::Stages),
                "trickle" => parts.push(Part::Trickle),
                "backlog" => parts.push(Part::Backlog),
                "endpoints" => parts.push(Part::Endpoints),
                "bulk" => parts.push(Part::Bulk),
                _ => {
                    let crowd =
                        name.strip_prefix("crowds:").ok_or_else(|| format!("{name:?} is not a part"))?;
                    crowds.push(Crowd::from_name(crowd)?);
                    parts.push(Part::Crowds);
                }
            }
        }
        parts.sort_unstable();
        parts.dedup();
        crowds.dedup();
        Ok(Self { parts, crowds, scale_default })
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
    fn a_crowd_is_selected_by_its_name() {
        let selection: Selection = "crowds:hang_40,drain".parse().unwrap();
        assert_eq!(selection.parts, [Part::Drain, Part::Crowds]);
        assert_eq!(selection.crowds, [Crowd::HangHosts(40)]);
        let all: Selection = "crowds".parse().unwrap();
        assert_eq!(all.crowds, Crowd::ALL);
        let unknown = "crowds:hang_41".parse::<Selection>().unwrap_err();
        assert!(unknown.contains("hang_40, hang_200"), "{unknown}");
    }

    #[test]
    fn the_help_names_every_crowd() {
        use clap::CommandFactory as _;
        let mut command = CommandLine::command();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for crowd in Crowd::ALL {
            assert!(help.contains(&crowd.name()), "{help}");
        }
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
