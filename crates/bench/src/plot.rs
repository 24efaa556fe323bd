//! Draws one SVG per chart: a group of bars per figure and store, one bar per run, and the target as a line.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::figure::{Chart, Figure, Target, Unit, catalogue};
use crate::options::StoreKind;
use crate::results::Results;
use crate::table::format_value;

const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 430.0;
/// Space for the value to the right of a full bar.
const VALUE_WIDTH: f64 = 90.0;
/// A longer description is cut.
const LABEL_CHARS_MAX: usize = 76;
const BAR_HEIGHT: f64 = 14.0;
const GROUP_GAP: f64 = 14.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 16.0;
/// The colour of the last run; earlier runs are grey.
const LAST: &str = "#2563eb";
const EARLIER: [&str; 3] = ["#9ca3af", "#d1d5db", "#6b7280"];
const TARGET: &str = "#dc2626";

/// Writes the charts of some runs, oldest first, into a directory.
pub(crate) fn write_all(files: &[PathBuf], directory: &Path) -> Result<(), String> {
    let runs = files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for chart in Chart::ALL {
        let Some(svg) = draw(chart, &catalogue(), &runs) else { continue };
        let path = directory.join(format!("{}.svg", chart.key()));
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The bars of one figure and store.
struct Group {
    kind: StoreKind,
    /// Values by run; `None` if a run did not measure the figure.
    values: Vec<Option<f64>>,
    target: Option<f64>,
    figure: Figure,
}

/// Draws a chart; `None` if no run measured one of its figures.
pub(crate) fn draw(chart: Chart, figures: &[Figure], runs: &[Results]) -> Option<String> {
    let groups: Vec<Group> = figures
        .iter()
        .filter(|figure| figure.chart == chart && is_drawn(figure))
        .flat_map(|figure| StoreKind::ALL.map(|kind| group(figure, kind, runs)))
        .filter(|group| group.values.iter().any(Option::is_some))
        .collect();
    if groups.is_empty() {
        return None;
    }
    // These values differ by powers of ten.
    let is_logarithmic = matches!(chart, Chart::Crowds | Chart::Connections);
    let group_height = BAR_HEIGHT * runs.len() as f64 + GROUP_GAP;
    let height = TOP + group_height * groups.len() as f64 + BOTTOM;
    let title = escape(chart.title());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"15\" font-weight=\"600\" fill=\"#111827\">{title}</text>\n"
    );
    draw_legend(&mut svg, runs, groups.iter().any(|group| group.target.is_some()), is_logarithmic);
    for (index, group) in groups.iter().enumerate() {
        let axis = Axis::new(&groups, group.figure.unit, is_logarithmic);
        draw_group(&mut svg, group, TOP + group_height * index as f64, &axis, runs.len());
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Returns whether a plot shows a figure. Of a crowd it shows only the figures with a target; the table has them all.
fn is_drawn(figure: &Figure) -> bool {
    figure.chart != Chart::Crowds || figure.targets[0] != Target::None
}

fn group(figure: &Figure, kind: StoreKind, runs: &[Results]) -> Group {
    let values = runs.iter().map(|run| run.value(kind, &figure.key)).collect();
    let target = runs.last().and_then(|run| run.limit(kind, figure.target(kind)));
    Group { kind, values, target, figure: figure.clone() }
}

/// The horizontal axis of the figures of a chart that have the same unit.
struct Axis {
    minimum: f64,
    maximum: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn new(groups: &[Group], unit: Unit, is_logarithmic: bool) -> Self {
        let drawn = || {
            let groups = groups.iter().filter(|group| group.figure.unit == unit);
            groups.flat_map(|group| group.values.iter().flatten().copied().chain(group.target))
        };
        let maximum = drawn().filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
        let smallest = drawn().filter(|value| *value > 0.0).fold(maximum, f64::min);
        Self { minimum: if is_logarithmic { smallest / 2.0 } else { 0.0 }, maximum, is_logarithmic }
    }

    /// Returns the length of a bar. A value that was not reached in time fills the chart.
    fn length(&self, value: f64) -> f64 {
        let full = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
        let share = if self.is_logarithmic {
            (value / self.minimum).ln() / (self.maximum / self.minimum).ln()
        } else {
            value / self.maximum
        };
        if share.is_nan() { 0.0 } else { full * share.clamp(0.0, 1.0) }
    }
}

fn draw_legend(svg: &mut String, runs: &[Results], has_target: bool, is_logarithmic: bool) {
    let mut x = 16.0;
    for (index, run) in runs.iter().enumerate() {
        let (color, label) = (color(index, runs.len()), escape(&run.label));
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"40\" width=\"12\" height=\"10\" fill=\"{color}\"/>\
             <text x=\"{}\" y=\"49\" fill=\"#374151\">{label}</text>",
            x + 17.0
        );
        x += 35.0 + 7.0 * run.label.chars().count() as f64;
    }
    if has_target {
        let _ = writeln!(
            svg,
            "<line x1=\"{0}\" x2=\"{0}\" y1=\"39\" y2=\"51\" stroke=\"{TARGET}\" stroke-width=\"2\"/>\
             <text x=\"{1}\" y=\"49\" fill=\"#374151\">target</text>",
            x + 4.0,
            x + 12.0
        );
        x += 65.0;
    }
    if is_logarithmic {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"49\" fill=\"#6b7280\">logarithmic scale</text>");
    }
}

fn draw_group(svg: &mut String, group: &Group, top: f64, axis: &Axis, runs: usize) {
    draw_label(svg, group, top + BAR_HEIGHT * runs as f64 / 2.0);
    let bars = || {
        let values = group.values.iter().enumerate();
        values.filter_map(|(run, value)| Some((run, (*value)?, top + BAR_HEIGHT * run as f64)))
    };
    for (run, value, y) in bars() {
        let _ = writeln!(
            svg,
            "<rect x=\"{LABEL_WIDTH}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>",
            axis.length(value),
            BAR_HEIGHT - 2.0,
            color(run, runs),
        );
    }
    if let Some(target) = group.target {
        let x = LABEL_WIDTH + axis.length(target);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"{TARGET}\" stroke-width=\"2\"/>",
            top - 3.0,
            top + BAR_HEIGHT * runs as f64 + 1.0
        );
    }
    // The white outline keeps a value readable on top of the line of the target.
    for (_, value, y) in bars() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" font-size=\"11\" fill=\"#111827\" stroke=\"#ffffff\" stroke-width=\"3\" \
             paint-order=\"stroke\">{}</text>",
            LABEL_WIDTH + axis.length(value) + 6.0,
            y + BAR_HEIGHT - 4.0,
            escape(&format_value(group.figure.unit, value))
        );
    }
}

/// Draws the description of a figure and, below it, the store.
fn draw_label(svg: &mut String, group: &Group, middle: f64) {
    let x = LABEL_WIDTH - 10.0;
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" text-anchor=\"end\" font-size=\"11\" fill=\"#111827\">{}</text>\
         <text x=\"{x}\" y=\"{}\" text-anchor=\"end\" font-size=\"10\" fill=\"#6b7280\">{}</text>",
        middle - 2.0,
        escape(&shorten(&group.figure.description, LABEL_CHARS_MAX)),
        middle + 10.0,
        group.kind.title()
    );
}

fn color(run: usize, runs: usize) -> &'static str {
    if run + 1 == runs { LAST } else { EARLIER[run % EARLIER.len()] }
}

/// Cuts a text that is too long for its place.
fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(label: &str, value: f64) -> Results {
        let mut results = Results::new(label);
        results.record(StoreKind::Sqlite, "drain_one_host", value);
        results
    }

    #[test]
    fn chart_has_a_bar_per_run_and_a_line_for_the_target() {
        let runs = [results("before", 0.2), results("after <1>", 0.6)];
        let svg = draw(Chart::Drain, &catalogue(), &runs).unwrap();
        // The background, two boxes of the legend and two bars.
        assert_eq!(svg.matches("<rect").count(), 5, "{svg}");
        assert_eq!(svg.matches("<line").count(), 2, "{svg}");
        assert!(svg.contains("after &lt;1&gt;") && svg.contains(">0.60<"), "{svg}");
        assert!(svg.contains("SQLite") && !svg.contains("PostgreSQL"), "{svg}");
    }

    #[test]
    fn chart_without_values_is_not_drawn() {
        assert!(draw(Chart::Crowds, &catalogue(), &[results("after", 0.6)]).is_none());
    }

    #[test]
    fn bars_stay_within_the_chart() {
        let full = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
        let linear = Axis { minimum: 0.0, maximum: 2.0, is_logarithmic: false };
        assert_eq!([0.0, 1.0, f64::INFINITY].map(|value| linear.length(value)), [0.0, full / 2.0, full]);
        let logarithmic = Axis { minimum: 1.0, maximum: 100.0, is_logarithmic: true };
        assert_eq!([1.0, 100.0, 0.0].map(|value| logarithmic.length(value)), [0.0, full, 0.0]);
        assert!((logarithmic.length(10.0) - full / 2.0).abs() < 1e-9);
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}
