//! Results of runs, and their file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::figure::Target;
use crate::options::StoreKind;

/// The figures of one or several runs on one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Name in plots and tables, such as "before".
    pub(crate) label: String,
    /// The machine and the versions, one line each.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// The scale of each part.
    #[serde(default)]
    pub(crate) scales: BTreeMap<String, f64>,
    /// Values by figure and store. `None` is a value that was not reached in time.
    figures: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

impl Results {
    pub(crate) fn new(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Reads a file that [`Results::write`] wrote.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).expect("results are valid JSON");
        fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Records a value; an infinite one was not reached in time.
    pub(crate) fn record(&mut self, kind: StoreKind, key: &str, value: f64) {
        let value = value.is_finite().then_some(value);
        self.figures.entry(key.to_owned()).or_default().insert(kind.key().to_owned(), value);
    }

    /// Returns a value, infinite if it was not reached in time; `None` if it was not measured.
    pub(crate) fn value(&self, kind: StoreKind, key: &str) -> Option<f64> {
        Some(self.figures.get(key)?.get(kind.key())?.unwrap_or(f64::INFINITY))
    }

    /// Returns the limit that a target sets for a store; `None` without a target.
    pub(crate) fn limit(&self, kind: StoreKind, target: &Target) -> Option<f64> {
        match target {
            Target::None => None,
            Target::AtLeast(limit) | Target::AtMost(limit) => Some(*limit),
            Target::NearlyAlone(alone) => {
                let alone = self.value(kind, alone)?;
                Some((2.0 * alone).max(alone + 5.0))
            }
        }
    }

    /// Returns whether a value reaches its target; `None` without a value or a target.
    pub(crate) fn is_reached(&self, kind: StoreKind, key: &str, target: &Target) -> Option<bool> {
        let (value, limit) = (self.value(kind, key)?, self.limit(kind, target)?);
        Some(match target {
            Target::AtLeast(_) => value >= limit,
            _ => value <= limit,
        })
    }

    /// Adds the figures of a later run and replaces those that it measured again.
    pub(crate) fn merge(&mut self, later: Self) {
        self.label = later.label;
        self.environment.extend(later.environment);
        self.scales.extend(later.scales);
        for (key, values) in later.figures {
            self.figures.entry(key).or_default().extend(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQLITE: StoreKind = StoreKind::Sqlite;

    #[test]
    fn file_keeps_values_that_were_not_reached() {
        let mut results = Results::new("before");
        results.record(SQLITE, "drain_one_host", 0.5);
        results.record(StoreKind::Postgres, "drain_one_host", f64::INFINITY);
        let file = tempfile::NamedTempFile::new().unwrap();
        results.write(file.path()).unwrap();
        let read = Results::read(file.path()).unwrap();
        assert_eq!(read, results);
        assert_eq!(read.value(SQLITE, "drain_one_host"), Some(0.5));
        assert_eq!(read.value(StoreKind::Postgres, "drain_one_host"), Some(f64::INFINITY));
        assert_eq!(read.value(SQLITE, "drain_hosts"), None);
    }

    #[test]
    fn target_beside_a_crowd_depends_on_the_figure_alone() {
        let mut results = Results::new("after");
        let target = Target::NearlyAlone("alone".to_owned());
        results.record(SQLITE, "p99", 9.0);
        assert_eq!(results.is_reached(SQLITE, "p99", &target), None);
        results.record(SQLITE, "alone", 4.0);
        assert_eq!(results.limit(SQLITE, &target), Some(9.0));
        assert_eq!(results.is_reached(SQLITE, "p99", &target), Some(true));
        results.record(SQLITE, "p99", f64::INFINITY);
        assert_eq!(results.is_reached(SQLITE, "p99", &target), Some(false));
    }

    #[test]
    fn later_run_replaces_only_what_it_measured() {
        let (mut first, mut second) = (Results::new("a"), Results::new("b"));
        first.record(SQLITE, "x", 1.0);
        first.record(SQLITE, "y", 1.0);
        second.record(SQLITE, "y", 2.0);
        first.merge(second);
        assert_eq!((first.value(SQLITE, "x"), first.value(SQLITE, "y")), (Some(1.0), Some(2.0)));
    }
}
