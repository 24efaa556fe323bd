//! Runs the simulation over many seeds and prints a summary.
#![forbid(unsafe_code)]

mod args;
mod summary;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use args::{Args, Command};
use posthaste_sim::{Report, Scenario, run};
use summary::Summary;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Run(args)) => simulate(&args),
        Err(message) => {
            eprintln!("{message}\n\n{}", args::HELP);
            ExitCode::from(2)
        }
    }
}

/// Stamps log lines with the simulated time.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{:>10.3}", posthaste_sim::elapsed().as_secs_f64())
    }
}

fn simulate(args: &Args) -> ExitCode {
    if args.log {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::DEBUG)
            .with_timer(SimulatedTime)
            .with_target(false)
            .init();
    }
    let summary = Mutex::new(Summary::start());
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(report) = next_report(args, &next) {
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.add(&report, args.seeds);
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("{summary}");
    if summary.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn next_report(args: &Args, next: &AtomicU64) -> Option<Report> {
    let offset = next.fetch_add(1, Ordering::Relaxed);
    let seed = args.first.checked_add(offset)?;
    (offset < args.seeds).then(|| run(seed, Scenario::from_seed(seed)))
}
