//! The settings under which statements run: index plans, durable commits and bounded waits.
//!
//! On a small or fresh table the planner would choose sequential scans, and a prepared statement would keep them when the
//! table has grown. So the settings pin the plans.
//!
//! A connection sets them once, with its startup packet, and a single statement then needs no transaction around it. Behind
//! a pooler such settings do not reach every server session; there each transaction sets them for itself.

/// How long a statement waits for a lock.
macro_rules! lock_timeout {
    () => {
        "5s"
    };
}

/// How long a statement waits for a lock that others may hold for any length of time.
macro_rules! short_lock_timeout {
    () => {
        "250ms"
    };
}
pub(crate) use {lock_timeout, short_lock_timeout};

/// How long the server waits for a client that does not read, in milliseconds.
macro_rules! client_timeout {
    () => {
        "20000"
    };
}

/// The settings of a connection, by name and as PostgreSQL displays their values.
///
/// The timeout of a statement is set beside them. It is longer than [`CALL_TIMEOUT`](super::CALL_TIMEOUT). It ends a COMMIT that
/// waits for a synchronous standby with a success, although the standby has not confirmed; by then the caller has given the call
/// up as failed.
///
/// A worker may be stopped in the middle of a transaction that holds locks. PostgreSQL then ends the session, so that the others
/// continue.
const PINNED_SETTINGS: [(&str, &str); 9] = [
    ("default_transaction_isolation", "read committed"),
    ("lock_timeout", lock_timeout!()),
    ("idle_in_transaction_session_timeout", "10s"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// The timeouts of the sessions of a pool.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    /// Of a statement, as PostgreSQL displays it.
    statement: &'static str,
    /// How long the server waits for a client that does not read the rows that it has requested, in milliseconds: they may be those
    /// of leases that are not committed yet. Zero is the default of the operating system. It has no effect over a Unix socket.
    client: &'static str,
}

pub(super) const TIMEOUTS: Timeouts = Timeouts { statement: "20s", client: client_timeout!() };

/// The timeouts of sessions that read payloads, and hold no locks. A row that crosses a slow link counts as running until its last
/// byte is sent. Longer than [`PAYLOAD_TIMEOUT`](super::shared::PAYLOAD_TIMEOUT).
pub(super) const PAYLOAD_TIMEOUTS: Timeouts = Timeouts { statement: "150s", client: "0" };

/// Returns the settings of a connection whose statements have this timeout.
fn pinned_settings(timeouts: Timeouts) -> impl Iterator<Item = (&'static str, &'static str)> {
    PINNED_SETTINGS.into_iter().chain([("statement_timeout", timeouts.statement)])
}

/// Returns the pinned settings as the parameter `options` of a startup packet, after the options of the database URL.
pub(super) fn startup_options(of_url: Option<&str>, timeouts: Timeouts) -> String {
    let pinned =
        pinned_settings(timeouts).map(|(name, value)| format!("-c {name}={}", value.replace(' ', "\\ ")));
    of_url.into_iter().map(str::to_owned).chain(pinned).collect::<Vec<_>>().join(" ")
}

/// Returns a statement that tells whether the session has the pinned settings. If it has, the statement also makes all
/// commits of the session durable: PostgreSQL then acknowledges a commit after it has flushed it to disk, here and on
/// synchronous standbys. A stronger setting stays. A later change of the server's configuration does not weaken it.
pub(super) fn check_session(timeouts: Timeouts) -> String {
    let has_settings: Vec<_> = pinned_settings(timeouts)
        .map(|(name, value)| format!("current_setting('{name}') = '{value}'"))
        .collect();
    let has_settings = has_settings.join(" AND ");
    format!(
        "SELECT CASE WHEN {has_settings} THEN
             set_config('tcp_user_timeout', '{}', false) ||
             set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply')
                 THEN current_setting('synchronous_commit') ELSE 'on' END, false) END IS NOT NULL",
        timeouts.client
    )
}

/// The settings of a transaction, local to it. One statement sets all of them, because each statement has a cost.
macro_rules! local_settings {
    ($lock_timeout:expr) => {
        concat!(
            "SELECT set_config('statement_timeout', '20s', true), set_config('lock_timeout', '",
            $lock_timeout,
            "', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), ",
            "set_config('tcp_user_timeout', '",
            client_timeout!(),
            "', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
        )
    };
}

/// An expression that makes the commit of its transaction durable, unless a stronger setting does.
macro_rules! durable_commit {
    () => {
        "CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            THEN set_config('synchronous_commit', 'on', true) END"
    };
}

/// An expression that lets the commit of its transaction return before it is on the disk, here and on standbys. A crash of the
/// server may then lose the transaction, but never a part of it, nor one that was committed before it. For changes that workers
/// repeat: decision 25.
macro_rules! asynchronous_commit {
    () => {
        "set_config('synchronous_commit', 'off', true)"
    };
}

pub(crate) use {asynchronous_commit, durable_commit};

/// Begins a transaction whose commit is durable, whose lock waits are bounded, and whose plans use indexes.
macro_rules! begin_local {
    ($lock_timeout:expr) => {
        concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; ",
            local_settings!($lock_timeout),
            ", ",
            durable_commit!()
        )
    };
}

/// How a transaction begins: on a connection whose settings are pinned, and behind a pooler.
pub(crate) struct Begin {
    pub(super) pinned: &'static str,
    pub(super) local: &'static str,
}

/// Begins a transaction with index plans, a durable commit and bounded lock waits.
pub(crate) static BEGIN: Begin =
    Begin { pinned: "BEGIN ISOLATION LEVEL READ COMMITTED", local: begin_local!(lock_timeout!()) };

/// Begins a transaction on a connection whose settings are pinned, with short waits for locks.
macro_rules! begin_short_lock_wait {
    () => {
        concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('lock_timeout', '",
            short_lock_timeout!(),
            "', true)"
        )
    };
}

/// Like [`BEGIN`], but soon gives up on a row lock. Another worker may have been stopped while it holds it.
pub(crate) static BEGIN_SHORT_LOCK_WAIT: Begin =
    Begin { pinned: begin_short_lock_wait!(), local: begin_local!(short_lock_timeout!()) };

/// Begins a transaction that has its id before its first statement reads a destination: the removal of unused destinations
/// waits for such transactions.
pub(crate) static BEGIN_ENQUEUE: Begin = Begin {
    pinned: "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_current_xact_id()",
    local: concat!(begin_local!(lock_timeout!()), ", pg_current_xact_id()"),
};

/// Like [`BEGIN_ENQUEUE`], but soon gives up on a row lock. Transactions of producers may hold such a lock for any length
/// of time.
pub(crate) static BEGIN_ENQUEUE_SHORT_LOCK_WAIT: Begin = Begin {
    pinned: concat!(begin_short_lock_wait!(), ", pg_current_xact_id()"),
    local: concat!(begin_local!(short_lock_timeout!()), ", pg_current_xact_id()"),
};

/// Begins a read-only transaction whose statements share one snapshot.
pub(super) static BEGIN_SNAPSHOT: Begin = Begin {
    pinned: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    local: concat!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ", local_settings!(lock_timeout!())),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_url_come_first_and_spaces_are_escaped() {
        let options = startup_options(Some("-c search_path=shop"), TIMEOUTS);
        assert!(
            options.starts_with("-c search_path=shop -c default_transaction_isolation=read\\ committed ")
        );
        assert!(startup_options(None, TIMEOUTS).starts_with("-c default_transaction_isolation"));
    }

    #[test]
    fn a_transaction_behind_a_pooler_has_every_setting_of_a_pinned_connection() {
        for (name, value) in pinned_settings(TIMEOUTS) {
            let is_set = BEGIN.local.contains(&format!("set_config('{name}', '{value}', true)"));
            assert!(is_set || name == "default_transaction_isolation", "{name}");
        }
        let client_timeout = format!("set_config('tcp_user_timeout', '{}', true)", TIMEOUTS.client);
        assert!(BEGIN.local.contains(&client_timeout));
    }
}
