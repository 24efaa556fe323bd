//! The printed summary of many simulations.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use posthaste_sim::{Fault, FaultCounts, HandledCounts, Report};

/// Totals over all seeds that have run.
pub(crate) struct Summary {
    started: Instant,
    seeds: u64,
    simulated: Duration,
    steps: u64,
    events: u64,
    requests: u64,
    delivered: u64,
    failed: u64,
    counts: HandledCounts,
    faults: FaultCounts,
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
            counts: HandledCounts::default(),
            faults: FaultCounts::default(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, report: &Report, total_seeds: u64) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.steps += report.steps;
        self.events += report.events;
        self.requests += report.requests;
        self.delivered += report.delivered;
        self.failed += report.failed;
        self.counts.add(&report.counts);
        self.faults.add(&report.faults);
        if let Some(violation) = &report.violation {
            eprintln!(
                "\nseed {} violated {violation}\n  reproduce: make sim SEED={}",
                report.seed, report.seed
            );
            self.failures.push(report.clone());
        }
        self.show_progress(total_seeds);
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    fn show_progress(&self, total_seeds: u64) {
        let mut terminal = std::io::stderr();
        if terminal.is_terminal() {
            let end = if self.seeds == total_seeds { "\n" } else { "" };
            // An error while printing progress does not stop the run.
            let _ = write!(
                terminal,
                "\r{} of {total_seeds} seeds, {} failed{end}",
                self.seeds,
                self.failures.len()
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "seeds per minute are counted in real time")]
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
        writeln!(f, "{} delivered, {} dead-lettered", self.delivered, self.failed)?;
        writeln!(
            f,
            "
what the engines handled:"
        )?;
        for (count, name) in [
            (self.counts.stale_writes, "stale writes refused"),
            (self.counts.replayed_settles, "settles repeated after a lost reply"),
            (self.counts.replayed_claims, "leases returned by a repeated claim"),
            (self.counts.takeovers, "expired leases taken over"),
            (self.counts.abandoned, "events abandoned"),
            (self.counts.expired, "events expired"),
            (self.counts.released, "leases released"),
            (self.counts.enqueued_with_lease, "events stored with a lease"),
            (self.counts.circuits_reported, "reports of an open circuit"),
            (self.counts.removed, "events removed by retention"),
            (self.counts.dead_letters_removed, "dead letters removed by retention"),
            (self.counts.destinations_removed, "unused destinations removed"),
            (self.counts.discarded, "events discarded"),
            (self.counts.bulk_operations, "bulk operations started"),
            (self.counts.changed_in_bulk, "events changed in bulk"),
            (self.counts.reports, "reports of activity"),
            (self.counts.repeated_reports, "reports of activity that were repeated"),
        ] {
            writeln!(f, "{count:>12}  {name}")?;
        }
        writeln!(f, "\nwhat the tenants did:")?;
        for (count, name) in self.counts.registry.named() {
            writeln!(f, "{count:>12}  {name}")?;
        }
        writeln!(f, "\nfaults that occurred:")?;
        for fault in Fault::ALL {
            writeln!(f, "{:>12}  {}", self.faults.of(*fault), fault.name())?;
        }
        match self.failures.len() {
            0 => writeln!(f, "\nno property was violated"),
            _ => writeln!(f, "\n{} SEEDS FAILED", self.failures.len()),
        }
    }
}
