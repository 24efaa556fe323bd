//! Writes the tables of the document between their markers: `<!-- figures: drain -->` up to `<!-- end -->`.
//!
//! A table of which no run has a figure stays as it is, with the name of the run that measured it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::figure::{Chart, Figure, catalogue};
use crate::options::StoreKind;
use crate::results::Results;
use crate::table::{format_cell, format_targets};

const START: &str = "<!-- figures: ";
const START_END: &str = " -->";
const END: &str = "<!-- end -->";
/// Name of the block that describes the machine.
const ENVIRONMENT: &str = "environment";
/// The content of a block that was never measured.
const NOT_MEASURED: &str = "Not measured.";

/// Replaces the tables of a document by the results of some runs, oldest first.
pub(crate) fn update(files: &[PathBuf], document: &Path) -> Result<(), String> {
    let runs = files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
    let in_document = |error: &dyn std::fmt::Display| format!("{}: {error}", document.display());
    let text = fs::read_to_string(document).map_err(|error| in_document(&error))?;
    let updated =
        replace_blocks(&text, |name, old| block(name, old, &runs)).map_err(|error| in_document(&error))?;
    fs::write(document, updated).map_err(|error| in_document(&error))
}

/// Replaces each block by what `content` returns for its name and its old content.
fn replace_blocks(
    text: &str,
    mut content: impl FnMut(&str, &str) -> Result<String, String>,
) -> Result<String, String> {
    let (mut updated, mut rest) = (String::new(), text);
    while let Some((before, block)) = rest.split_once(START) {
        let (name, block) = block.split_once(START_END).ok_or("a marker does not end")?;
        let (old, after) = block.split_once(END).ok_or_else(|| format!("the block {name:?} does not end"))?;
        let content = content(name, old.trim())?;
        updated.push_str(&format!("{before}{START}{name}{START_END}\n{}\n{END}", content.trim_end()));
        rest = after;
    }
    Ok(updated + rest)
}

fn block(name: &str, old: &str, runs: &[Results]) -> Result<String, String> {
    if name == ENVIRONMENT {
        return Ok(environment(old, runs));
    }
    let chart = Chart::ALL.into_iter().find(|chart| chart.key() == name);
    let chart = chart.ok_or_else(|| format!("the block {name:?} is not a chart"))?;
    let figures = catalogue();
    let rows: Vec<String> = figures
        .iter()
        .filter(|figure| figure.chart == chart)
        .filter_map(|figure| row(figure, runs))
        .collect();
    if rows.is_empty() {
        return Ok(if old.is_empty() { NOT_MEASURED.to_owned() } else { old.to_owned() });
    }
    let mut columns = vec![match runs {
        [only] => format!("run: {}", only.label),
        _ => String::new(),
    }];
    for kind in StoreKind::ALL {
        columns.extend(runs.iter().map(|run| match runs {
            [_] => kind.title().to_owned(),
            _ => format!("{}, {}", kind.title(), run.label),
        }));
    }
    columns.push("target".to_owned());
    let head = format!("| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    let image = format!("![{}](performance/{}.svg)", chart.title(), chart.key());
    Ok(format!("{head}\n{}\n\n{image}", rows.join("\n")))
}

/// Returns the row of a figure; `None` if no run measured it.
fn row(figure: &Figure, runs: &[Results]) -> Option<String> {
    let cells: Vec<String> = StoreKind::ALL
        .into_iter()
        .flat_map(|kind| runs.iter().map(move |run| format_cell(run, figure, kind)))
        .collect();
    let is_measured = cells.iter().any(|cell| !cell.is_empty());
    is_measured
        .then(|| format!("| {} | {} | {} |", figure.description, cells.join(" | "), format_targets(figure)))
}

/// Describes the machine of each run, also of those earlier runs that the old block describes.
fn environment(old: &str, runs: &[Results]) -> String {
    let start = |run: &Results| format!("- {}: ", run.label);
    let describe = |run: &Results| {
        let facts = run.environment.iter().map(|(name, value)| format!("{name} {value}"));
        let facts: Vec<String> = facts.chain(scales(run)).collect();
        start(run) + &facts.join(", ")
    };
    let is_earlier =
        |line: &&str| line.starts_with("- ") && !runs.iter().any(|run| line.starts_with(&start(run)));
    let earlier = old.lines().filter(is_earlier).map(str::to_owned);
    earlier.chain(runs.iter().map(describe)).collect::<Vec<_>>().join("\n")
}

/// Describes the scale of a run; none if the run did not record it.
fn scales(run: &Results) -> Option<String> {
    let first = run.scales.values().next()?;
    if run.scales.values().all(|scale| scale == first) {
        return Some(format!("scale {first}"));
    }
    let scales: Vec<String> = run.scales.iter().map(|(part, scale)| format!("{part} {scale}")).collect();
    Some(format!("scale of {}", scales.join(", of ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a\n<!-- figures: drain -->\nold\n<!-- end -->\nb\n<!-- figures: crowds -->\n<!-- end -->\nc\n";

    fn results(label: &str, value: f64) -> Results {
        let mut results = Results::new(label);
        results.record(StoreKind::Sqlite, "drain_one_host", value);
        results
    }

    #[test]
    fn blocks_are_replaced_and_the_prose_stays() {
        let runs = [results("before", 0.2), results("after", 0.6)];
        let updated = replace_blocks(TEXT, |name, old| block(name, old, &runs)).unwrap();
        assert!(
            updated.starts_with("a\n<!-- figures: drain -->\n|  | SQLite, before | SQLite, after |"),
            "{updated}"
        );
        assert!(updated.contains("| 0.20 ✗ | 0.60 ✓ |  |  | ≥ 0.55; ≥ 0.45 |\n"), "{updated}");
        assert!(
            updated.contains("\nb\n<!-- figures: crowds -->\nNot measured.\n<!-- end -->\nc\n"),
            "{updated}"
        );
        assert_eq!(replace_blocks(&updated, |name, old| block(name, old, &runs)).unwrap(), updated);
    }

    #[test]
    fn a_table_that_no_run_measured_stays_with_the_machine_of_its_run() {
        let text = "<!-- figures: environment -->\n<!-- end --><!-- figures: drain -->\n<!-- end -->";
        let mut earlier = [results("spring", 0.5)];
        earlier[0].scales.insert("drain".to_owned(), 0.5);
        let text = replace_blocks(text, |name, old| block(name, old, &earlier)).unwrap();
        let mut later = [Results::new("autumn")];
        later[0].scales.extend([("bulk".to_owned(), 1.0), ("claims".to_owned(), 0.1)]);
        let text = replace_blocks(&text, |name, old| block(name, old, &later)).unwrap();
        assert!(text.contains("- spring: scale 0.5\n- autumn: scale of bulk 1, of claims 0.1\n"), "{text}");
        assert!(text.contains("| run: spring | SQLite |"), "{text}");
    }

    #[test]
    fn unknown_and_open_blocks_are_errors() {
        assert!(
            replace_blocks("<!-- figures: dance -->\n<!-- end -->", |name, old| block(name, old, &[]))
                .is_err()
        );
        assert!(replace_blocks("<!-- figures: drain -->", |name, old| block(name, old, &[])).is_err());
    }

    #[test]
    fn every_block_of_the_document_is_known() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
        let text = fs::read_to_string(path).unwrap();
        let mut names = Vec::new();
        replace_blocks(&text, |name, old| {
            names.push(name.to_owned());
            block(name, old, &[results("after", 0.6)])
        })
        .unwrap();
        for chart in Chart::ALL {
            assert!(names.iter().any(|name| name == chart.key()), "{chart:?} has no block");
        }
    }
}
