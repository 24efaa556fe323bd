//! What stands beside the binary says only what is true of it: the files of `deploy/` parse, and they and the runbook
//! name metrics, settings and commands that exist, and sections that can be found.

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/commands.rs"]
mod commands;
#[path = "deploy/dashboard.rs"]
mod dashboard;
#[path = "deploy/files.rs"]
mod files;
#[path = "deploy/grace.rs"]
mod grace;
#[path = "deploy/metrics.rs"]
mod metrics;
#[path = "deploy/promql.rs"]
mod promql;
#[path = "deploy/settings.rs"]
mod settings;

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
