//! The table of a run, and the text of values and targets.

use crate::figure::{Figure, Target, Unit};
use crate::options::StoreKind;
use crate::results::Results;

/// Returns a value with its unit.
pub(crate) fn format_value(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return "not in time".to_owned();
    }
    match unit {
        Unit::Ratio => format!("{value:.2}"),
        Unit::PerSecond => format!("{}/s", grouped(value)),
        Unit::Count => grouped(value),
        Unit::Microseconds => format!("{value:.1} µs"),
        Unit::Milliseconds if value >= 1_000.0 => format!("{:.1} s", value / 1_000.0),
        Unit::Milliseconds if value >= 100.0 => format!("{value:.0} ms"),
        Unit::Milliseconds => format!("{value:.1} ms"),
        Unit::Bytes => format!("{} B", grouped(value)),
        Unit::Megabytes => format!("{value:.0} MB"),
        Unit::Percent => format!("{value:.2} %"),
    }
}

/// Returns a rounded number with its thousands separated by commas.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the targets of a figure in one text, or an empty one.
pub(crate) fn format_targets(figure: &Figure) -> String {
    let text = |target: &Target| match target {
        Target::None => String::new(),
        Target::AtLeast(limit) => format!("≥ {}", format_value(figure.unit, *limit)),
        Target::AtMost(limit) => format!("≤ {}", format_value(figure.unit, *limit)),
        Target::NearlyAlone(_) => "≤ 2 × alone, or + 5 ms".to_owned(),
    };
    let [sqlite, postgres] = figure.targets.each_ref().map(text);
    if sqlite == postgres { sqlite } else { format!("{sqlite}; {postgres}") }
}

/// Returns the cell of a value: its text and whether it reaches its target. Empty if it was not measured.
pub(crate) fn format_cell(results: &Results, figure: &Figure, kind: StoreKind) -> String {
    let Some(value) = results.value(kind, &figure.key) else { return String::new() };
    let mark = match results.is_reached(kind, &figure.key, figure.target(kind)) {
        Some(true) => " ✓",
        Some(false) => " ✗",
        None => "",
    };
    format_value(figure.unit, value) + mark
}

/// Returns the table of the figures that were measured.
pub(crate) fn render(results: &Results, figures: &[Figure]) -> String {
    let [sqlite, postgres] = StoreKind::ALL;
    let mut rows = vec![["", sqlite.title(), postgres.title(), "target"].map(str::to_owned)];
    for figure in figures {
        let cells = StoreKind::ALL.map(|kind| format_cell(results, figure, kind));
        if cells.iter().any(|cell| !cell.is_empty()) {
            let [sqlite, postgres] = cells;
            rows.push([figure.description.clone(), sqlite, postgres, format_targets(figure)]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut table = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        table.push_str(cells.join("  ").trim_end());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::catalogue;

    #[test]
    fn values_have_units() {
        assert_eq!(format_value(Unit::PerSecond, 1_234_567.4), "1,234,567/s");
        assert_eq!(format_value(Unit::Count, 999.0), "999");
        assert_eq!(format_value(Unit::Milliseconds, 46_800.0), "46.8 s");
        assert_eq!(format_value(Unit::Milliseconds, 4.04), "4.0 ms");
        assert_eq!(format_value(Unit::Milliseconds, f64::INFINITY), "not in time");
        assert_eq!(format_value(Unit::Ratio, 0.456), "0.46");
    }

    #[test]
    fn table_has_only_measured_figures_and_marks_targets() {
        let mut results = Results::new("after");
        results.record(StoreKind::Sqlite, "drain_one_host", 0.6);
        results.record(StoreKind::Postgres, "drain_one_host", 0.4);
        let table = render(&results, &catalogue());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2, "{table}");
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["SQLite", "PostgreSQL", "target"]);
        assert!(lines[1].starts_with("drain over 20 URLs of one host ÷ raw"), "{table}");
        assert!(lines[1].contains("0.60 ✓") && lines[1].contains("0.40 ✗"), "{table}");
        assert!(lines[1].ends_with("≥ 0.55; ≥ 0.45"), "{table}");
    }
}
