//! Benchmark of the whole product: runs the binary `posthaste` with default settings against a sink, on SQLite and on a
//! PostgreSQL server of its own, beside a raw client that only signs and sends.
//!
//! ```text
//! make bench                                # all parts but the long ones
//! make bench WHAT=drain,latency STORE=sqlite
//! make bench WHAT=quick                     # a short trial
//! ```
//!
//! `docs/performance.md` describes the method. All processes of a run share one machine.
#![forbid(unsafe_code)]

mod backlog;
mod clock;
mod crowd;
mod database;
mod document;
mod figure;
mod link;
mod options;
mod part;
mod payload;
mod percentile;
mod plot;
mod process;
mod product;
mod raw;
mod results;
mod run;
mod scale;
mod sink;
mod store;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use options::{Command, CommandLine};

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Sink => {
            sink::run();
            Ok(())
        }
        Command::Raw { requests } => {
            raw::run(requests);
            Ok(())
        }
        Command::Run(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("the runtime can be built").block_on(run::run(options))
        }
        Command::Plot { files, directory } => plot::write_all(&files, &directory),
        Command::Document { files, document } => document::update(&files, &document),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("posthaste-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a count per second.
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
