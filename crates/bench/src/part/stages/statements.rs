//! The statements that PostgreSQL ran, from `pg_stat_statements`, by stage of an event.

use std::time::Duration;

use crate::database::Database;

/// What a statement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Grant,
    Settle,
    Notices,
    Discover,
    Commit,
    Other,
}

/// The time and the write-ahead log of some statements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StatementTimes {
    /// Contains waiting for a core and for the disk.
    pub(crate) took: Duration,
    pub(crate) wal_bytes: f64,
}

impl Stage {
    pub(crate) const ALL: [Self; 6] =
        [Self::Grant, Self::Settle, Self::Notices, Self::Discover, Self::Commit, Self::Other];

    const fn key(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Settle => "settle",
            Self::Notices => "notices",
            Self::Discover => "discover",
            Self::Commit => "commit",
            Self::Other => "other",
        }
    }

    pub(crate) fn time_key(self) -> String {
        format!("stage_{}", self.key())
    }

    pub(crate) fn wal_key(self) -> String {
        format!("stage_{}_wal", self.key())
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Grant => "PostgreSQL: grant leases, and read what is sent",
            Self::Settle => "PostgreSQL: settle (queue, attempt, counts, notice)",
            Self::Notices => "PostgreSQL: give notices their positions, and broadcast them",
            Self::Discover => "PostgreSQL: discover claimable rows",
            Self::Commit => "PostgreSQL: begin and commit",
            Self::Other => "PostgreSQL: all other statements",
        }
    }

    /// Returns the stage of a statement, by the tables that it writes or else reads.
    fn of(statement: &str) -> Self {
        let has = |text: &str| statement.contains(text);
        if has("INSERT INTO app.webhook_attempts") {
            Self::Settle
        } else if has("INSERT INTO app.webhook_claims") {
            Self::Grant
        } else if has("webhook_notice") || has("pg_notify") {
            Self::Notices
        } else if has("app.webhook_queue") || has("pg_current_snapshot") {
            Self::Discover
        } else if ["BEGIN", "COMMIT", "START TRANSACTION"].iter().any(|text| statement.starts_with(text)) {
            Self::Commit
        } else {
            Self::Other
        }
    }
}

/// Statements with their times.
#[derive(Debug, Default)]
pub(crate) struct Statements(Vec<(String, StatementTimes)>);

/// Forgets the statements so far. Does nothing on SQLite.
pub(super) fn reset(database: &Database) {
    database.sql("SELECT pg_stat_statements_reset();");
}

/// Reads the statements since the last reset; none on SQLite.
pub(super) fn read(database: &Database) -> Statements {
    let rows = database.sql(
        "SELECT round((total_exec_time * 1000)::numeric), wal_bytes, regexp_replace(query, '\\s+', ' ', 'g')
         FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database());",
    );
    Statements(rows.unwrap_or_default().lines().filter_map(parse).collect())
}

fn parse(row: &str) -> Option<(String, StatementTimes)> {
    let mut fields = row.splitn(3, '|');
    let took = Duration::from_micros(fields.next()?.parse().ok()?);
    let wal_bytes = fields.next()?.parse().ok()?;
    Some((fields.next()?.trim().to_owned(), StatementTimes { took, wal_bytes }))
}

impl Statements {
    /// Adds up the statements of a stage.
    pub(super) fn of(&self, stage: Stage) -> StatementTimes {
        let of_stage = self.0.iter().filter(|(statement, _)| Stage::of(statement) == stage);
        of_stage.fold(StatementTimes::default(), |sum, (_, times)| StatementTimes {
            took: sum.took + times.took,
            wal_bytes: sum.wal_bytes + times.wal_bytes,
        })
    }

    /// Prints the longest of the statements without a stage of their own.
    pub(super) fn print_largest_of_other(&self) {
        let mut other: Vec<_> = self.0.iter().filter(|(text, _)| Stage::of(text) == Stage::Other).collect();
        other.sort_by_key(|(_, times)| std::cmp::Reverse(times.took));
        for (statement, times) in other.into_iter().take(3) {
            let text: String = statement.chars().take(60).collect();
            println!("  of the other statements: {text} took {:?}", times.took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_added_by_stage() {
        let rows = "1500|300|WITH x AS (INSERT INTO app.webhook_attempts (a) SELECT 1 | 2) SELECT 1\n\
                    500|100|INSERT INTO app.webhook_attempts SELECT 2\n\
                    40|0|COMMIT\nnot a row";
        let statements = Statements(rows.lines().filter_map(parse).collect());
        let settle = statements.of(Stage::Settle);
        assert_eq!((settle.took, settle.wal_bytes), (Duration::from_micros(2_000), 400.0));
        assert_eq!(statements.of(Stage::Commit).took, Duration::from_micros(40));
        assert_eq!(statements.of(Stage::Other), StatementTimes::default());
    }
}
