//! The two text formats. They differ in how a counter is announced: OpenMetrics names the family without the `_total` that
//! its samples carry, and older readers take that for another metric.

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The content type and the text.
pub(super) fn render(process: &Registry, outbox: Option<&Registry>, open: bool) -> (&'static str, String) {
    let mut text = String::new();
    for registry in [Some(process), outbox].into_iter().flatten() {
        encode_registry(&mut text, registry).expect("a string takes whatever is written to it");
    }
    if !open {
        return (PROMETHEUS, classic(&text));
    }
    encode_eof(&mut text).expect("a string takes whatever is written to it");
    (OPENMETRICS, text)
}

/// HELP comes before TYPE, and both name the family: what TYPE calls a counter is renamed in both.
fn classic(open: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in open.lines() {
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
