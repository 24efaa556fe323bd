//! Checks of the store, of its disk, and of the clocks.

use std::time::Duration;

use posthaste::DatabaseError;
use posthaste::domain::Timestamp;
use posthaste::sender::{SystemClock, WallClock as _};
use posthaste::store::StoreHealth;
use posthaste_config::{Config, DatabaseUrl};

use super::disk;
use super::finding::{Finding, Verdict};

/// A larger difference between clocks makes timestamps and ages misleading.
const SKEW_CAREFUL: Duration = Duration::from_secs(5);
/// Receivers refuse signatures whose timestamp is further off than this.
const SKEW_BROKEN: Duration = Duration::from_secs(300);
/// 1 November 2026, in seconds since the epoch: this program was built later, so an earlier clock is wrong.
const BUILT_AFTER_SECS: i64 = 1_793_491_200;

/// Checks the store. If it cannot be opened, its disk and this host's clock are still checked.
pub(super) async fn check_store(config: &Config) -> Vec<Finding> {
    let inspected = match config.database() {
        Ok(database) => database.inspect().await,
        Err(error) => Err(error),
    };
    let mut findings = vec![connection(config, &inspected)];
    // SQLite runs on this host's clock.
    let store_clock = match &config.database_url {
        DatabaseUrl::Sqlite(path) => {
            findings.extend(disk::check(path));
            None
        }
        DatabaseUrl::Postgres(_) => inspected.ok().flatten().map(|health| health.now),
    };
    findings.push(clock(SystemClock.now(), store_clock));
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

fn schema(health: &StoreHealth) -> Finding {
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

/// Compares this host's clock with the store's, or, without a clock of the store, with a date before this build.
fn clock(host: Timestamp, store: Option<Timestamp>) -> Finding {
    if host < Timestamp::from_secs(BUILT_AFTER_SECS) {
        let text = "this host's clock is in the past: receivers will refuse signatures made with it; synchronise it (NTP)";
        return Finding::new("clock", Verdict::Broken, text);
    }
    let Some(store) = store else {
        return Finding::new(
            "clock",
            Verdict::Ok,
            "this host's clock is plausible; there is no other clock to compare it with",
        );
    };
    let skew = host.since(store).max(store.since(host));
    let verdict = match skew {
        skew if skew >= SKEW_BROKEN => Verdict::Broken,
        skew if skew >= SKEW_CAREFUL => Verdict::Careful,
        _ => return Finding::new("clock", Verdict::Ok, "this host's clock agrees with the store's"),
    };
    let text = format!(
        "this host's clock and the store's differ by {skew:.1?}: signatures carry this host's time, and receivers \
         refuse signatures that are more than 5 minutes off; synchronise both (NTP)"
    );
    Finding::new("clock", verdict, text)
}
