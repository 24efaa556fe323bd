//! Settings of the views for SQL clients, which cannot read this program's configuration.

use rusqlite::Connection;

/// Defaults and limits that the views `webhook_publish` and `webhook_enqueue` apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlProducerDefaults {
    /// Maximum number of attempts of an event whose producer sets none.
    pub max_attempts: u32,
    /// Largest payload that the views accept.
    pub payload_bytes_max: usize,
}

/// Stores the settings. Skips equal values, so that a start of the service writes nothing.
pub(crate) fn store_defaults(db: &Connection, defaults: SqlProducerDefaults) -> rusqlite::Result<()> {
    let payload_bytes_max = i64::try_from(defaults.payload_bytes_max).unwrap_or(i64::MAX);
    let mut update =
        db.prepare_cached("UPDATE webhook_settings SET value = ?2 WHERE name = ?1 AND value <> ?2")?;
    update.execute(("max_attempts", defaults.max_attempts))?;
    update.execute(("payload_bytes_max", payload_bytes_max))?;
    Ok(())
}
