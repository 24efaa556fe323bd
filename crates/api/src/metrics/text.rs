//! The two text formats. In OpenMetrics, the HELP and TYPE lines of a counter omit the `_total` of its samples. In the
//! older Prometheus format they must include it, or the scraper sees two different metrics.

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the content type and the text of all metrics.
pub(super) fn render(
    process: &Registry,
    outbox: Option<&Registry>,
    openmetrics: bool,
) -> (&'static str, String) {
    let mut text = String::new();
    for registry in [Some(process), outbox].into_iter().flatten() {
        encode_registry(&mut text, registry).expect("writing to a string cannot fail");
    }
    if !openmetrics {
        return (PROMETHEUS, to_prometheus(&text));
    }
    encode_eof(&mut text).expect("writing to a string cannot fail");
    (OPENMETRICS, text)
}

/// Converts OpenMetrics text to the Prometheus format. HELP precedes TYPE, so a counter is recognized at its TYPE line and both
/// lines are renamed.
fn to_prometheus(openmetrics: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in openmetrics.lines() {
        let counter = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"));
        if let Some(name) = counter {
            if let Some(help) = lines.last_mut().filter(|help| help.starts_with(&format!("# HELP {name} "))) {
                *help = help.replacen(name, &format!("{name}_total"), 1);
            }
            lines.push(format!("# TYPE {name}_total counter"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}
