//! Rules about the Grafana dashboard: it can be imported, and its panels read series that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::alerts::{read_rules, unknown_series};
use crate::assert_none;
use crate::files::read;
use crate::metrics;

const DASHBOARD: &str = "deploy/grafana/posthaste.json";

fn read_dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).expect("the dashboard is JSON")
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("the dashboard has panels")
}

/// Returns the title of each panel with each of its PromQL expressions.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.iter().map(|target| (text(&panel["title"]), text(&target["expr"]))).collect::<Vec<_>>()
    };
    panels(dashboard).iter().flat_map(of_panel).collect()
}

#[test]
fn dashboard_can_be_imported_with_any_data_source() {
    let dashboard = read_dashboard();
    assert_eq!(dashboard["uid"], "posthaste");
    assert!(dashboard["id"].is_null(), "Grafana assigns the id at import");
    let variables = dashboard["templating"]["list"].as_array().expect("the dashboard has variables");
    assert!(
        variables.iter().any(|variable| variable["name"] == "datasource" && variable["type"] == "datasource")
    );
    let panels = panels(&dashboard);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
}

#[test]
fn every_panel_reads_only_exposed_series() {
    let (dashboard, rules, metrics) = (read_dashboard(), read_rules(), metrics::read_exposed());
    let expressions = expressions(&dashboard);
    assert!(expressions.len() >= 15, "only {} expressions were found", expressions.len());
    let violations = expressions
        .iter()
        .flat_map(|(title, expression)| unknown_series(title, expression, &metrics, &rules));
    assert_none(&violations.collect::<Vec<_>>());
}

#[test]
fn every_metric_of_the_contract_has_a_panel() {
    let expressions: String =
        expressions(&read_dashboard()).into_iter().map(|(_, expression)| expression + "\n").collect();
    let without_panel = metrics::CONTRACT.iter().filter(|name| !expressions.contains(**name));
    assert_eq!(without_panel.collect::<Vec<_>>(), [] as [&&str; 0]);
}
