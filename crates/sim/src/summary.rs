//! What many seeds came to, for a person to read.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use posthaste_sim::{Fault, Report, Tally};

pub(crate) struct Summary {
    started: Instant,
    seeds: u64,
    simulated: Duration,
    steps: u64,
    events: u64,
    requests: u64,
    delivered: u64,
    failed: u64,
    stale_writes: u64,
    faults: Tally,
    failures: Vec<Report>,
}

impl Summary {
    #[expect(clippy::disallowed_methods, reason = "seeds per minute are counted in real time")]
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            seeds: 0,
            simulated: Duration::ZERO,
            steps: 0,
            events: 0,
            requests: 0,
            delivered: 0,
            failed: 0,
            stale_writes: 0,
            faults: Tally::default(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, report: &Report, of: u64) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.steps += report.steps;
        self.events += report.events;
        self.requests += report.requests;
        self.delivered += report.delivered;
        self.failed += report.failed;
        self.stale_writes += report.stale_writes;
        self.faults.add(&report.faults);
        if let Some(violation) = &report.violation {
            eprintln!("\nseed {} broke {violation}\n  again: make sim SEED={}", report.seed, report.seed);
            self.failures.push(report.clone());
        }
        self.show_progress(of);
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    fn show_progress(&self, of: u64) {
        let mut terminal = std::io::stderr();
        if terminal.is_terminal() {
            let end = if self.seeds == of { "\n" } else { "" };
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(terminal, "\r{} of {of} seeds, {} failed{end}", self.seeds, self.failures.len());
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        writeln!(
            f,
            "{} seeds in {:.1} min ({:.0} a minute), {:.0} hours of simulated time",
            self.seeds,
            minutes,
            self.seeds as f64 / minutes,
            self.simulated.as_secs_f64() / 3_600.0
        )?;
        writeln!(f, "{} events, {} requests, {} checked steps", self.events, self.requests, self.steps)?;
        writeln!(
            f,
            "{} delivered, {} dead-lettered, {} stale writes refused",
            self.delivered, self.failed, self.stale_writes
        )?;
        writeln!(f, "\nfaults that fired:")?;
        for fault in Fault::ALL {
            writeln!(f, "{:>12}  {}", self.faults.of(*fault), fault.name())?;
        }
        match self.failures.len() {
            0 => writeln!(f, "\nno property was violated"),
            _ => writeln!(f, "\n{} SEEDS FAILED", self.failures.len()),
        }
    }
}
