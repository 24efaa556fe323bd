//! Checks of the store, of its disk, and of the clocks.

use std::time::Duration;

use posthaste::domain::Timestamp;
use posthaste::engine::{ClockSkew, host_time};
use posthaste::store::StoreHealth;
use posthaste::{DatabaseCheck, DatabaseError, PageCheck};
use posthaste_api::{Finding, Verdict};
use posthaste_config::{Config, DatabaseUrl};

use super::disk::{self, MIB, size};

/// Difference between two clocks from which the check warns: times in log lines and ages become misleading, and one of the
/// two clocks is wrong.
const SKEW_CAREFUL: Duration = Duration::from_secs(5);
/// A date before this program was built, in seconds since the epoch: 1 November 2026. A clock that shows an earlier
/// time is wrong.
const BUILT_AFTER_SECS: i64 = 1_793_491_200;

/// How long the check of every page may take. A long read makes the write-ahead log of a running service grow.
const PAGE_CHECK_LIMIT: Duration = Duration::from_secs(30);
/// Checkpoints keep the write-ahead log below 64 MiB, unless a reader stops them.
const WAL_CAREFUL: u64 = 256 * MIB;

/// Checks the store. If it cannot be opened, its disk and this host's clock are still checked.
pub(super) async fn check_store(config: &Config) -> Vec<Finding> {
    let (inspected, checked) = match config.database() {
        Ok(database) => {
            let inspected = database.inspect().await;
            let is_current = matches!(&inspected, Ok(Some(health)) if health.is_current());
            let checked =
                if is_current { database.check(PAGE_CHECK_LIMIT).await.map(Some) } else { Ok(None) };
            (inspected, checked)
        }
        Err(error) => (Err(error), Ok(None)),
    };
    let mut findings = vec![connection(config, &inspected)];
    findings.extend(contents(&checked));
    // SQLite runs on this host's clock.
    let store_clock = match &config.database_url {
        DatabaseUrl::Sqlite(path) => {
            findings.extend(disk::check(path));
            None
        }
        DatabaseUrl::Postgres(_) => inspected.ok().flatten().map(|health| health.now),
    };
    findings.push(clock(host_time(), store_clock));
    findings
}

fn connection(config: &Config, inspected: &Result<Option<StoreHealth>, DatabaseError>) -> Finding {
    match inspected {
        Ok(Some(health)) => schema(health),
        Ok(None) => {
            let missing = match config.database_url {
                DatabaseUrl::Sqlite(_) => "database",
                DatabaseUrl::Postgres(_) => "schema",
            };
            Finding::new(
                "store",
                Verdict::Ok,
                format!("there is no {missing} yet; the first start creates it"),
            )
        }
        // The error's text says what to do.
        Err(error) => Finding::new("store", Verdict::Broken, error.to_string()),
    }
}

pub(super) fn schema(health: &StoreHealth) -> Finding {
    let StoreHealth { schema, schema_supported, .. } = health;
    if schema > schema_supported {
        let text = format!(
            "the schema has version {schema}, but this Posthaste supports {schema_supported}: upgrade Posthaste"
        );
        Finding::new("store", Verdict::Broken, text)
    } else if schema < schema_supported {
        let text = format!(
            "the schema has version {schema}, not yet {schema_supported}: the next start or `posthaste migrate` upgrades it"
        );
        Finding::new("store", Verdict::Careful, text)
    } else {
        Finding::new("store", Verdict::Ok, format!("reachable, schema version {schema}"))
    }
}

/// Reports what is missing from the schema, refused writes, damage and the size of the write-ahead log.
fn contents(checked: &Result<Option<DatabaseCheck>, DatabaseError>) -> Vec<Finding> {
    match checked {
        Ok(None) => Vec::new(),
        Ok(Some(check)) => {
            let schema = check.schema_problems.iter().map(|problem| {
                let text = format!("{problem}: restore it, or restore a backup of the database");
                Finding::new("schema", Verdict::Broken, text)
            });
            let mut findings: Vec<Finding> = schema.collect();
            findings.push(trial_write(check.refused_write.as_deref()));
            if let Some(found) = &check.pages {
                findings.extend([pages(found), write_ahead_log(found.wal_bytes)]);
            }
            findings
        }
        // The error's text says what to do.
        Err(error) => vec![Finding::new("content", Verdict::Broken, error.to_string())],
    }
}

pub(super) fn trial_write(refused: Option<&str>) -> Finding {
    match refused {
        None => {
            let text = "a trial enqueue, claim and settle were accepted and rolled back";
            Finding::new("writes", Verdict::Ok, text)
        }
        Some(error) => Finding::new("writes", Verdict::Broken, format!("a trial write failed: {error}")),
    }
}

fn pages(check: &PageCheck) -> Finding {
    if !check.problems.is_empty() {
        let text = format!(
            "the database is damaged: {}; stop Posthaste, keep a copy of the file, and restore a backup",
            check.problems.join("; ")
        );
        Finding::new("content", Verdict::Broken, text)
    } else if check.is_complete {
        let text = "every page is intact, and a trial write was accepted and rolled back";
        Finding::new("content", Verdict::Ok, text)
    } else {
        let text = format!(
            "a trial write was accepted and rolled back; not every page could be checked within {} s: run `PRAGMA \
             quick_check` at a quiet time",
            PAGE_CHECK_LIMIT.as_secs()
        );
        Finding::new("content", Verdict::Careful, text)
    }
}

pub(super) fn write_ahead_log(bytes: u64) -> Finding {
    if bytes < WAL_CAREFUL {
        return Finding::new("write-ahead log", Verdict::Ok, size(bytes));
    }
    let text = format!(
        "it has grown to {}, because a process keeps a read transaction open: find the processes that use the file \
         with `fuser`, and end that transaction before the disk is full",
        size(bytes)
    );
    Finding::new("write-ahead log", Verdict::Careful, text)
}

/// Checks that the clock that dates signatures is after [`BUILT_AFTER_SECS`]. That is the store's clock; SQLite has this
/// host's. If the store has a clock of its own, the two must agree.
pub(super) fn clock(host: Timestamp, store: Option<Timestamp>) -> Finding {
    let (name, signing) = store.map_or(("this host's", host), |store| ("the store's", store));
    if signing < Timestamp::from_secs(BUILT_AFTER_SECS) {
        let text = format!(
            "{name} clock is in the past: receivers will refuse signatures, which carry its time; synchronise it (NTP)"
        );
        return Finding::new("clock", Verdict::Broken, text);
    }
    let Some(store) = store else {
        return Finding::new(
            "clock",
            Verdict::Ok,
            "this host's clock is plausible; there is no other clock to compare it with",
        );
    };
    let skew = ClockSkew::between(host, store);
    if skew.difference < SKEW_CAREFUL {
        return Finding::new("clock", Verdict::Ok, "this host's clock agrees with the store's");
    }
    let text = format!(
        "{skew}: signatures carry the store's time, and receivers refuse signatures that are more than 5 minutes off; \
         find out which clock is wrong, and synchronise it (NTP)"
    );
    Finding::new("clock", Verdict::Careful, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_dates_signatures_must_be_right_and_both_must_agree() {
        let (now, old) = (Timestamp::from_secs(BUILT_AFTER_SECS + 60), Timestamp::from_secs(1_000_000_000));
        let verdict = |host, store| clock(host, store).verdict;
        assert_eq!(verdict(now, None), Verdict::Ok);
        assert_eq!(verdict(old, None), Verdict::Broken);
        assert_eq!(verdict(now, Some(now.after(Duration::from_secs(4)))), Verdict::Ok);
        assert_eq!(verdict(now, Some(now.after(Duration::from_secs(3_600)))), Verdict::Careful);
        assert_eq!(verdict(old, Some(now)), Verdict::Careful, "signatures carry the store's time");
        assert_eq!(verdict(now, Some(old)), Verdict::Broken);
        let text = clock(now, Some(now.after(Duration::from_secs(3_600)))).text;
        assert!(text.starts_with("this host's clock is 3600.0 s behind the store's"), "{text}");
    }
}
