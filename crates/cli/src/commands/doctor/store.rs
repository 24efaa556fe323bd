//! The store, what it stands on, and the clocks.

use std::time::Duration;

use posthaste::DatabaseError;
use posthaste::domain::Timestamp;
use posthaste::sender::{SystemClock, WallClock as _};
use posthaste::store::StoreHealth;
use posthaste_config::{Config, DatabaseUrl};

use super::disk;
use super::finding::{Finding, Verdict};

/// Clocks that lie further apart make timestamps and ages misleading.
const SKEW_MAX: Duration = Duration::from_secs(5);
/// Receivers refuse signatures whose timestamp is further off than this.
const SKEW_BROKEN: Duration = Duration::from_secs(300);
/// 1 November 2026.
const MADE_NO_EARLIER_THAN: i64 = 1_793_491_200;

/// Whatever is wrong with the store, the rest can be looked at.
pub(super) async fn store(config: &Config) -> Vec<Finding> {
    let examined = match config.database() {
        Ok(database) => database.inspect().await,
        Err(error) => Err(error),
    };
    let mut findings = vec![found(config, &examined)];
    // An embedded store has no clock of its own.
    let other_clock = match &config.database {
        DatabaseUrl::Sqlite(path) => {
            findings.extend(disk::examine(path));
            None
        }
        DatabaseUrl::Postgres(_) => examined.ok().flatten().map(|health| health.now),
    };
    findings.push(clock(SystemClock.now(), other_clock));
    findings
}

fn found(config: &Config, examined: &Result<Option<StoreHealth>, DatabaseError>) -> Finding {
    match examined {
        Ok(Some(health)) => schema(health),
        Ok(None) => {
            let missing = match config.database {
                DatabaseUrl::Sqlite(_) => "database",
                DatabaseUrl::Postgres(_) => "schema",
            };
            Finding::new(
                "store",
                Verdict::Good,
                format!("there is no {missing} yet; the first start creates it"),
            )
        }
        // What to do is a part of what it says.
        Err(error) => Finding::new("store", Verdict::Broken, error.to_string()),
    }
}

fn schema(health: &StoreHealth) -> Finding {
    let StoreHealth { schema, schema_supported, .. } = health;
    if schema > schema_supported {
        let text = format!(
            "the schema has version {schema}, and this Posthaste knows {schema_supported}: upgrade Posthaste"
        );
        Finding::new("store", Verdict::Broken, text)
    } else if schema < schema_supported {
        let text = format!(
            "the schema has version {schema} of {schema_supported}; the next start upgrades it, or `posthaste migrate`"
        );
        Finding::new("store", Verdict::Careful, text)
    } else {
        Finding::new("store", Verdict::Good, format!("answers, schema version {schema}"))
    }
}

/// This host's clock against the store's, or at least against the day on which this program was made.
fn clock(host: Timestamp, store: Option<Timestamp>) -> Finding {
    let made = Timestamp::from_secs(MADE_NO_EARLIER_THAN);
    if host < made {
        let text =
            "this host's clock is years behind: receivers will refuse our signatures; synchronise it (NTP)";
        return Finding::new("clock", Verdict::Broken, text);
    }
    let Some(store) = store else {
        return Finding::new(
            "clock",
            Verdict::Good,
            "this host's is plausible; no other clock is there to compare it with",
        );
    };
    let skew = host.since(store).max(store.since(host));
    let verdict = match skew {
        skew if skew >= SKEW_BROKEN => Verdict::Broken,
        skew if skew >= SKEW_MAX => Verdict::Careful,
        _ => return Finding::new("clock", Verdict::Good, "agrees with the store's"),
    };
    let text = format!(
        "this host's clock and the store's lie {skew:.1?} apart: signatures carry this host's time, and receivers refuse \
         those that are more than 5 minutes off; synchronise both (NTP)"
    );
    Finding::new("clock", verdict, text)
}
