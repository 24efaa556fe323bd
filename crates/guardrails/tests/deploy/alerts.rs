//! Rules about alerts: each has a severity, a description and a section in the runbook, and the alerts that the
//! requirements name exist.

use std::collections::BTreeSet;

use yaml_rust2::Yaml;

use crate::assert_none;
use crate::files::{read, read_yaml};
use crate::metrics::{self, Metrics};
use crate::promql::series_names;

const RULES: &str = "deploy/prometheus/posthaste.rules.yml";
const RUNBOOK: &str = "docs/operations.md";

/// An alerting rule.
#[derive(Clone, Debug, Default)]
struct Alert {
    name: String,
    /// PromQL of `expr`.
    expression: String,
    /// Value of `for`; empty when the alert fires at once.
    holds_for: String,
    severity: String,
    summary: String,
    description: String,
    runbook_url: String,
}

/// The beginning of every `runbook_url`: an external label of Prometheus, which is empty unless the owner sets it.
const RUNBOOK_ROOT: &str = "{{ $externalLabels.posthaste_docs }}";

/// The alerting and recording rules of [`RULES`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    alerts: Vec<Alert>,
    /// Names of recorded series, each with its expression.
    pub(crate) recorded: Vec<(String, String)>,
}

pub(crate) fn read_rules() -> Rules {
    let document = read_yaml(RULES);
    let groups = document["groups"].as_vec().expect("the rules file has groups");
    let text = |value: &Yaml| value.as_str().unwrap_or_default().to_owned();
    let mut rules = Rules::default();
    for rule in groups.iter().flat_map(|group| group["rules"].as_vec().expect("a group has rules")) {
        let expression = text(&rule["expr"]);
        if rule["record"].is_badvalue() {
            let (labels, annotations) = (&rule["labels"], &rule["annotations"]);
            rules.alerts.push(Alert {
                name: text(&rule["alert"]),
                expression,
                holds_for: text(&rule["for"]),
                severity: text(&labels["severity"]),
                summary: text(&annotations["summary"]),
                description: text(&annotations["description"]),
                runbook_url: text(&annotations["runbook_url"]),
            });
        } else {
            rules.recorded.push((text(&rule["record"]), expression));
        }
    }
    rules
}

impl Rules {
    /// Returns the series that exist in addition to the metrics of Posthaste.
    fn extra_series(&self) -> BTreeSet<String> {
        let recorded = self.recorded.iter().map(|(name, _)| name.clone());
        recorded.chain(["up", "ALERTS"].map(str::to_owned)).collect()
    }
}

/// Returns the link anchors that GitHub generates for the headings of a Markdown text.
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

/// Returns one line for each part that an alert must have and does not have.
fn missing_parts(alert: &Alert, anchors: &BTreeSet<String>) -> Vec<String> {
    let mut missing = Vec::new();
    if alert.name.is_empty() || !alert.name.starts_with("Posthaste") {
        missing.push("name that starts with Posthaste".to_owned());
    }
    if !["page", "warning"].contains(&alert.severity.as_str()) {
        missing.push("severity of page or warning".to_owned());
    }
    for (part, text) in [("summary", &alert.summary), ("description", &alert.description)] {
        if text.trim().is_empty() {
            missing.push(part.to_owned());
        }
    }
    match alert.runbook_url.strip_prefix(RUNBOOK_ROOT).and_then(|path| path.split_once('#')) {
        Some((RUNBOOK, anchor)) if anchor == alert.name.to_lowercase() && anchors.contains(anchor) => {}
        _ => {
            missing.push(format!(
                "section `### {}` in {RUNBOOK} with a `runbook_url` that begins with {RUNBOOK_ROOT} and leads to it",
                alert.name
            ));
        }
    }
    missing.into_iter().map(|part| format!("{} has no {part}", alert.name)).collect()
}

/// Returns one line for each series in an expression that neither Posthaste nor a recording rule exposes.
pub(crate) fn unknown_series(rule: &str, expression: &str, metrics: &Metrics, rules: &Rules) -> Vec<String> {
    let extra = rules.extra_series();
    let unknown = series_names(expression)
        .into_iter()
        .filter(|name| !extra.contains(name) && !metrics.has_series(name));
    unknown
        .map(|name| format!("{rule} reads {name}, which does not exist; Posthaste exposes {metrics}"))
        .collect()
}

/// Checks the recording rules and the thresholds of the dead-letter rate.
fn dead_letter_violations(rules: &Rules) -> Vec<String> {
    let recorded =
        |name: &str| rules.recorded.iter().find(|(record, _)| record == name).map(|(_, expr)| expr.as_str());
    let mut violations = Vec::new();
    let ratio = "posthaste:dead_letter_ratio:1h";
    let parts = ["posthaste:dead_letters:increase1h", "posthaste:ended:increase1h"];
    if recorded(ratio) != Some(&parts.join(" / ")) {
        violations.push(format!("{ratio} must be {}", parts.join(" / ")));
    }
    for (name, metric) in parts.iter().zip(["webhook_dead_letters_total", "webhook_deliveries_total"]) {
        if !recorded(name).is_some_and(|expression| series_names(expression).contains(metric)) {
            violations.push(format!("{name} must read {metric}"));
        }
    }
    for (severity, over) in [("page", "0.05"), ("warning", "0.02")] {
        let expression = format!("{ratio} > {over} and {} >= 50", parts[1]);
        if !rules.alerts.iter().any(|alert| alert.severity == severity && alert.expression == expression) {
            violations.push(format!("no alert with severity {severity} has the expression `{expression}`"));
        }
    }
    violations
}

/// Checks the alert on retry delays that the retry contract forbids.
fn anomaly_violations(rules: &Rules, metrics: &Metrics) -> Vec<String> {
    let mut violations = Vec::new();
    let is_anomaly = |alert: &&Alert| alert.name == "PosthasteRetriesTooFast";
    let Some(alert) = rules.alerts.iter().find(is_anomaly) else {
        return vec!["the alert PosthasteRetriesTooFast is missing".to_owned()];
    };
    let increase =
        format!("increase(webhook_retry_delay_bucket{{le=\"{}\"}}[10m])", metrics::BUCKET_BELOW_FLOOR);
    if alert.expression != format!("sum by (job) ({increase}) > 0") {
        violations.push(format!(
            "PosthasteRetriesTooFast does not count every delay under 30 s: {}",
            alert.expression
        ));
    }
    if alert.severity != "page" || !alert.holds_for.is_empty() {
        violations.push("PosthasteRetriesTooFast does not page at the first forbidden delay".to_owned());
    }
    if !metrics.has_bucket_below_floor() {
        violations.push("webhook_retry_delay has no bucket for delays under 30 s".to_owned());
    }
    violations
}

#[test]
fn every_alert_has_severity_description_and_runbook_section() {
    let (rules, anchors) = (read_rules(), anchors(&read(RUNBOOK)));
    assert!(rules.alerts.len() >= 10, "only {} alerts were found", rules.alerts.len());
    assert_none(&rules.alerts.iter().flat_map(|alert| missing_parts(alert, &anchors)).collect::<Vec<_>>());
    let names: BTreeSet<_> = rules.alerts.iter().map(|alert| &alert.name).collect();
    assert_eq!(names.len(), rules.alerts.len(), "two alerts have the same name");
}

#[test]
fn every_rule_reads_only_exposed_series() {
    let (rules, metrics) = (read_rules(), metrics::read_exposed());
    let alerts = rules.alerts.iter().map(|alert| (&alert.name, &alert.expression));
    let recorded = rules.recorded.iter().map(|(name, expression)| (name, expression));
    let violations = alerts
        .chain(recorded)
        .flat_map(|(name, expression)| unknown_series(name, expression, &metrics, &rules));
    assert_none(&violations.collect::<Vec<_>>());
}

/// One Prometheus may scrape several installations, each with its own job.
#[test]
fn no_rule_selects_a_single_job() {
    let rules = read_rules();
    let expressions = rules.alerts.iter().map(|alert| (&alert.name, &alert.expression));
    let recorded = rules.recorded.iter().map(|(name, expression)| (name, expression));
    let violations = expressions.chain(recorded).filter(|(_, expression)| expression.contains("job=\""));
    assert_none(&violations.map(|(name, _)| format!("{name} selects a single job")).collect::<Vec<_>>());
}

#[test]
fn s1_dead_letter_rate_pages_over_5_percent_and_warns_over_2() {
    assert_none(&dead_letter_violations(&read_rules()));
}

#[test]
fn s1_phase3_anomaly_a_retry_under_30_s_pages_at_the_first() {
    assert_none(&anomaly_violations(&read_rules(), &metrics::read_exposed()));
}

#[test]
fn links_within_the_runbook_have_a_target() {
    let runbook = read(RUNBOOK);
    let anchors = anchors(&runbook);
    let links = runbook.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    let broken =
        links.filter(|link| !anchors.contains(*link)).map(|link| format!("{RUNBOOK}: no section #{link}"));
    assert_none(&broken.collect::<Vec<_>>());
}

#[test]
fn changed_thresholds_and_severities_are_found() {
    let with_alerts_changed = |change: fn(&mut Alert)| {
        let mut rules = read_rules();
        rules.alerts.iter_mut().for_each(change);
        rules
    };
    let high_thresholds = with_alerts_changed(|alert| {
        alert.expression = alert.expression.replace("> 0.05", "> 0.5").replace("> 0", "> 9");
    });
    assert_eq!(
        dead_letter_violations(&high_thresholds).len(),
        2,
        "{:?}",
        dead_letter_violations(&high_thresholds)
    );
    assert_eq!(anomaly_violations(&high_thresholds, &metrics::read_exposed()).len(), 1);
    let warnings_only = with_alerts_changed(|alert| "warning".clone_into(&mut alert.severity));
    assert_eq!(dead_letter_violations(&warnings_only).len(), 1);
    assert_eq!(anomaly_violations(&warnings_only, &metrics::read_exposed()).len(), 1);
    let delayed = with_alerts_changed(|alert| "1h".clone_into(&mut alert.holds_for));
    assert_eq!(anomaly_violations(&delayed, &metrics::read_exposed()).len(), 1);
}

#[test]
fn alert_without_a_required_part_is_found() {
    let anchors = anchors("# A\n## When the store is unavailable\n### PosthasteDown\n");
    assert!(anchors.contains("when-the-store-is-unavailable"));
    let down = read_rules()
        .alerts
        .into_iter()
        .find(|alert| alert.name == "PosthasteDown")
        .expect("the rules have an alert PosthasteDown");
    assert_eq!(missing_parts(&down, &anchors), [] as [&str; 0]);
    assert_eq!(missing_parts(&Alert { summary: String::new(), ..down.clone() }, &anchors).len(), 1);
    assert_eq!(missing_parts(&Alert { severity: "critical".to_owned(), ..down.clone() }, &anchors).len(), 1);
    for wrong in
        ["{{ $externalLabels.posthaste_docs }}docs/operations.md#gone", "docs/operations.md#posthastedown"]
    {
        let alert = Alert { runbook_url: wrong.to_owned(), ..down.clone() };
        assert_eq!(missing_parts(&alert, &anchors).len(), 1, "{wrong}");
    }
}

#[test]
fn series_that_is_not_exposed_is_found() {
    let (rules, metrics) = (read_rules(), metrics::read_exposed());
    let unknown = |expression: &str| unknown_series("a rule", expression, &metrics, &rules).len();
    assert_eq!(unknown("webhook_retry_queue_depth > 0 and up == 1"), 0);
    assert_eq!(unknown("webhook_retry_queue_depths > 0"), 1);
    assert_eq!(unknown("rate(webhook_deliveries[5m])"), 1, "counters end in _total");
    assert_eq!(unknown("posthaste:no_such_record"), 1);
}
