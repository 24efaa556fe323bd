//! Rules about `deploy/` and the runbook: the files parse, and they name only metrics, settings, commands and sections
//! that exist.

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/commands.rs"]
mod commands;
#[path = "deploy/dashboard.rs"]
mod dashboard;
#[path = "deploy/files.rs"]
mod files;
#[path = "deploy/manifests.rs"]
mod manifests;
#[path = "deploy/metrics.rs"]
mod metrics;
#[path = "deploy/promql.rs"]
mod promql;
#[path = "deploy/repeated_numbers.rs"]
mod repeated_numbers;
#[path = "deploy/settings.rs"]
mod settings;

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}
