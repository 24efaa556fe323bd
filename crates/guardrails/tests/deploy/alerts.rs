//! The alerts: each can be understood and acted on, and those that the requirements ask for are there.

use std::collections::BTreeSet;

use yaml_rust2::Yaml;

use crate::assert_none;
use crate::files::{read, yaml_at};
use crate::metrics::{self, Metrics};
use crate::promql::series;

const RULES: &str = "deploy/prometheus/posthaste.rules.yml";
const RUNBOOK: &str = "docs/operations.md";

#[derive(Clone, Debug, Default)]
struct Alert {
    name: String,
    expression: String,
    holds_for: String,
    severity: String,
    summary: String,
    description: String,
    runbook: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    alerts: Vec<Alert>,
    /// Recorded series, each with its expression.
    pub(crate) recorded: Vec<(String, String)>,
}

pub(crate) fn rules() -> Rules {
    let document = yaml_at(RULES);
    let groups = document["groups"].as_vec().expect("the rules are in groups");
    let text = |value: &Yaml| value.as_str().unwrap_or_default().to_owned();
    let mut found = Rules::default();
    for rule in groups.iter().flat_map(|group| group["rules"].as_vec().expect("a group has rules")) {
        let expression = text(&rule["expr"]);
        if rule["record"].is_badvalue() {
            let (labels, annotations) = (&rule["labels"], &rule["annotations"]);
            found.alerts.push(Alert {
                name: text(&rule["alert"]),
                expression,
                holds_for: text(&rule["for"]),
                severity: text(&labels["severity"]),
                summary: text(&annotations["summary"]),
                description: text(&annotations["description"]),
                runbook: text(&annotations["runbook"]),
            });
        } else {
            found.recorded.push((text(&rule["record"]), expression));
        }
    }
    found
}

impl Rules {
    /// What can be read besides the metrics of the product.
    pub(crate) fn readable(&self) -> BTreeSet<String> {
        let recorded = self.recorded.iter().map(|(name, _)| name.clone());
        recorded.chain(["up", "ALERTS"].map(str::to_owned)).collect()
    }
}

/// The anchors of a Markdown text's headings, as they are made on the way to a page.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let headings =
        markdown.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    headings
        .map(|heading| {
            heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// What an alert lacks for whoever it wakes.
fn lacks(alert: &Alert, anchors: &BTreeSet<String>) -> Vec<String> {
    let mut lacks = Vec::new();
    if alert.name.is_empty() || !alert.name.starts_with("Posthaste") {
        lacks.push("a name that starts with Posthaste".to_owned());
    }
    if !["page", "warning"].contains(&alert.severity.as_str()) {
        lacks.push("a severity of page or warning".to_owned());
    }
    for (what, text) in [("a summary", &alert.summary), ("a description", &alert.description)] {
        if text.trim().is_empty() {
            lacks.push(what.to_owned());
        }
    }
    match alert.runbook.split_once('#') {
        Some((RUNBOOK, anchor)) if anchor == alert.name.to_lowercase() && anchors.contains(anchor) => {}
        _ => {
            lacks.push(format!("a section `### {}` in {RUNBOOK}, and `runbook` with its anchor", alert.name));
        }
    }
    lacks.into_iter().map(|what| format!("{} lacks {what}", alert.name)).collect()
}

/// The names in an expression that nothing has.
pub(crate) fn unknown_series(place: &str, expression: &str, metrics: &Metrics, rules: &Rules) -> Vec<String> {
    let readable = rules.readable();
    let unknown =
        series(expression).into_iter().filter(|name| !readable.contains(name) && !metrics.expose(name));
    unknown.map(|name| format!("{place} reads {name}, and Posthaste exposes {metrics}")).collect()
}

/// What is missing of the thresholds of the dead-letter rate.
fn dead_letter_faults(rules: &Rules) -> Vec<String> {
    let recorded =
        |name: &str| rules.recorded.iter().find(|(record, _)| record == name).map(|(_, expr)| expr.as_str());
    let mut faults = Vec::new();
    let ratio = "posthaste:dead_letter_ratio:1h";
    let parts = ["posthaste:dead_letters:increase1h", "posthaste:ended:increase1h"];
    if recorded(ratio) != Some(&parts.join(" / ")) {
        faults.push(format!("{ratio} is not {}", parts.join(" / ")));
    }
    for (name, metric) in parts.iter().zip(["webhook_dead_letters_total", "webhook_deliveries_total"]) {
        if !recorded(name).is_some_and(|expression| series(expression).contains(metric)) {
            faults.push(format!("{name} does not count {metric}"));
        }
    }
    for (severity, over) in [("page", "0.05"), ("warning", "0.02")] {
        let expression = format!("{ratio} > {over} and {} >= 50", parts[1]);
        if !rules.alerts.iter().any(|alert| alert.severity == severity && alert.expression == expression) {
            faults.push(format!("no {severity} on `{expression}`"));
        }
    }
    faults
}

/// What is missing of the alert on delays that the retry contract forbids.
fn anomaly_faults(rules: &Rules, metrics: &Metrics) -> Vec<String> {
    let mut faults = Vec::new();
    let is_anomaly = |alert: &&Alert| alert.name == "PosthasteRetriesTooFast";
    let Some(alert) = rules.alerts.iter().find(is_anomaly) else {
        return vec!["there is no alert PosthasteRetriesTooFast".to_owned()];
    };
    let counted = format!("increase(webhook_retry_delay_bucket{{le=\"{}\"}}[10m])", metrics::BELOW_THE_FLOOR);
    if alert.expression != format!("sum by (job) ({counted}) > 0") {
        faults.push(format!("it does not count every delay under 30 s: {}", alert.expression));
    }
    if alert.severity != "page" || !alert.holds_for.is_empty() {
        faults.push("it does not page at the first one".to_owned());
    }
    if !metrics.has_bucket_below_the_floor() {
        faults.push("webhook_retry_delay has no bucket for delays under 30 s".to_owned());
    }
    faults
}

#[test]
fn every_alert_says_how_bad_it_is_what_it_means_and_where_to_read_on() {
    let (rules, anchors) = (rules(), anchors(&read(RUNBOOK)));
    assert!(rules.alerts.len() >= 10, "the alerts are found: {}", rules.alerts.len());
    assert_none(&rules.alerts.iter().flat_map(|alert| lacks(alert, &anchors)).collect::<Vec<_>>());
    let names: BTreeSet<_> = rules.alerts.iter().map(|alert| &alert.name).collect();
    assert_eq!(names.len(), rules.alerts.len(), "an alert's name is its own");
}

#[test]
fn every_rule_reads_only_what_posthaste_exposes() {
    let (rules, metrics) = (rules(), metrics::exposed());
    let alerts = rules.alerts.iter().map(|alert| (&alert.name, &alert.expression));
    let recorded = rules.recorded.iter().map(|(name, expression)| (name, expression));
    let faults = alerts
        .chain(recorded)
        .flat_map(|(name, expression)| unknown_series(name, expression, &metrics, &rules));
    assert_none(&faults.collect::<Vec<_>>());
}

/// One Prometheus may watch several, each under a job of its own.
#[test]
fn no_rule_is_for_one_installation_alone() {
    let rules = rules();
    let expressions = rules.alerts.iter().map(|alert| (&alert.name, &alert.expression));
    let recorded = rules.recorded.iter().map(|(name, expression)| (name, expression));
    let faults = expressions.chain(recorded).filter(|(_, expression)| expression.contains("job=\""));
    assert_none(&faults.map(|(name, _)| format!("{name} is for one job alone")).collect::<Vec<_>>());
}

#[test]
fn s1_dead_letter_rate_pages_over_5_percent_and_warns_over_2() {
    assert_none(&dead_letter_faults(&rules()));
}

#[test]
fn s1_phase3_anomaly_a_retry_under_30_s_pages_at_the_first() {
    assert_none(&anomaly_faults(&rules(), &metrics::exposed()));
}

#[test]
fn links_within_the_runbook_lead_somewhere() {
    let runbook = read(RUNBOOK);
    let anchors = anchors(&runbook);
    let links = runbook.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    let broken =
        links.filter(|link| !anchors.contains(*link)).map(|link| format!("{RUNBOOK}: no section #{link}"));
    assert_none(&broken.collect::<Vec<_>>());
}

#[test]
fn other_thresholds_and_a_slower_anomaly_are_noticed() {
    let doctored = |change: fn(&mut Alert)| {
        let mut rules = rules();
        rules.alerts.iter_mut().for_each(change);
        rules
    };
    let lax = doctored(|alert| {
        alert.expression = alert.expression.replace("> 0.05", "> 0.5").replace("> 0", "> 9");
    });
    assert_eq!(dead_letter_faults(&lax).len(), 2, "{:?}", dead_letter_faults(&lax));
    assert_eq!(anomaly_faults(&lax, &metrics::exposed()).len(), 1);
    let quiet = doctored(|alert| "warning".clone_into(&mut alert.severity));
    assert_eq!(dead_letter_faults(&quiet).len(), 1);
    assert_eq!(anomaly_faults(&quiet, &metrics::exposed()).len(), 1);
    let late = doctored(|alert| "1h".clone_into(&mut alert.holds_for));
    assert_eq!(anomaly_faults(&late, &metrics::exposed()).len(), 1);
}

#[test]
fn an_alert_without_its_parts_is_noticed() {
    let anchors = anchors("# A\n## When the store is away\n### PosthasteDown\n");
    assert!(anchors.contains("when-the-store-is-unavailable"));
    let down = rules()
        .alerts
        .into_iter()
        .find(|alert| alert.name == "PosthasteDown")
        .expect("there is such an alert");
    assert_eq!(lacks(&down, &anchors), [] as [&str; 0]);
    assert_eq!(lacks(&Alert { summary: String::new(), ..down.clone() }, &anchors).len(), 1);
    assert_eq!(lacks(&Alert { severity: "critical".to_owned(), ..down.clone() }, &anchors).len(), 1);
    assert_eq!(lacks(&Alert { runbook: "docs/operations.md#gone".to_owned(), ..down }, &anchors).len(), 1);
}

#[test]
fn a_series_that_is_not_exposed_is_noticed() {
    let (rules, metrics) = (rules(), metrics::exposed());
    let faults = |expression: &str| unknown_series("a rule", expression, &metrics, &rules).len();
    assert_eq!(faults("webhook_retry_queue_depth > 0 and up == 1"), 0);
    assert_eq!(faults("webhook_retry_queue_depths > 0"), 1);
    assert_eq!(faults("rate(webhook_deliveries[5m])"), 1, "counters end in _total");
    assert_eq!(faults("posthaste:no_such_record"), 1);
}
