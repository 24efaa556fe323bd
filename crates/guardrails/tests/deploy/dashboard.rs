//! The dashboard can be imported, and shows what is measured.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::alerts::{rules, unknown_series};
use crate::assert_none;
use crate::files::read;
use crate::metrics;

const DASHBOARD: &str = "deploy/grafana/posthaste.json";

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).expect("the dashboard is JSON")
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("the dashboard has panels")
}

/// Each expression, with the title of its panel.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.iter().map(|target| (text(&panel["title"]), text(&target["expr"]))).collect::<Vec<_>>()
    };
    panels(dashboard).iter().flat_map(of_panel).collect()
}

#[test]
fn the_dashboard_can_be_imported_and_asks_for_its_data_source() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "posthaste");
    assert!(dashboard["id"].is_null(), "the number is the importer's to give");
    let variables = dashboard["templating"]["list"].as_array().expect("there are variables");
    assert!(
        variables.iter().any(|variable| variable["name"] == "datasource" && variable["type"] == "datasource")
    );
    let panels = panels(&dashboard);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has a number of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
}

#[test]
fn every_panel_reads_only_what_posthaste_exposes() {
    let (dashboard, rules, metrics) = (dashboard(), rules(), metrics::exposed());
    let expressions = expressions(&dashboard);
    assert!(expressions.len() >= 15, "expressions are found: {}", expressions.len());
    let faults = expressions
        .iter()
        .flat_map(|(title, expression)| unknown_series(title, expression, &metrics, &rules));
    assert_none(&faults.collect::<Vec<_>>());
}

#[test]
fn everything_that_the_contract_measures_has_a_panel() {
    let expressions: String =
        expressions(&dashboard()).into_iter().map(|(_, expression)| expression + "\n").collect();
    let unseen = metrics::CONTRACT.iter().filter(|name| !expressions.contains(**name));
    assert_eq!(unseen.collect::<Vec<_>>(), [] as [&&str; 0]);
}
