//! Settings of a worker: how much it takes, and how long it holds it.

use super::{Fallback, Form, PLAIN, Section, Setting};

pub(crate) static TIMEOUT_SECONDS: Setting = Setting {
    name: "timeout_seconds",
    env: "POSTHASTE_TIMEOUT_SECONDS",
    env_also: Some("WEBHOOK_TIMEOUT_SECONDS"),
    flag: "--timeout-seconds",
    section: Section::Dispatch,
    form: Form::Seconds,
    default: Fallback::Text("30"),
    rule: "a number of seconds, more than 0 and 86400 at most",
    help: "For one request as a whole, from the name lookup to the last byte of the response",
    ..PLAIN
};

pub(crate) static RETRY_BATCH_SIZE: Setting = Setting {
    name: "retry_batch_size",
    env: "POSTHASTE_RETRY_BATCH_SIZE",
    env_also: Some("RETRY_BATCH_SIZE"),
    flag: "--retry-batch-size",
    section: Section::Dispatch,
    form: Form::Whole,
    default: Fallback::Text("100"),
    rule: "a whole number from 1 to 10000",
    help: "Retries in flight in one worker, so that they never crowd out first attempts",
    ..PLAIN
};

pub(crate) static HTTP_POOL_SIZE: Setting = Setting {
    name: "http_pool_size",
    env: "POSTHASTE_HTTP_POOL_SIZE",
    env_also: Some("HTTP_POOL_SIZE"),
    flag: "--http-pool-size",
    section: Section::Dispatch,
    form: Form::Whole,
    default: Fallback::Text("20"),
    rule: "a whole number from 1 to 10000",
    help: "Connections, and so requests in flight, per destination in one worker",
    ..PLAIN
};

pub(crate) static CONCURRENCY: Setting = Setting {
    name: "concurrency",
    env: "POSTHASTE_CONCURRENCY",
    flag: "--concurrency",
    section: Section::Dispatch,
    form: Form::Whole,
    default: Fallback::Text("512"),
    rule: "a whole number from 1 to 100000",
    help: "Requests in flight in one worker",
    ..PLAIN
};

pub(crate) static LEASE_SECONDS: Setting = Setting {
    name: "lease_seconds",
    env: "POSTHASTE_LEASE_SECONDS",
    flag: "--lease-seconds",
    section: Section::Dispatch,
    form: Form::Seconds,
    default: Fallback::Text("30"),
    rule: "a number of seconds from 1 to 86400",
    help: "How long an event waits for a worker that died; leases are renewed every third of it",
    ..PLAIN
};

pub(crate) static POLL_INTERVAL_MS: Setting = Setting {
    name: "poll_interval_ms",
    env: "POSTHASTE_POLL_INTERVAL_MS",
    flag: "--poll-interval-ms",
    section: Section::Dispatch,
    form: Form::Whole,
    default: Fallback::Text("1000"),
    rule: "a whole number from 10 to 60000",
    help: "How often the store is asked, in milliseconds, when nothing wakes the worker",
    ..PLAIN
};

pub(crate) static ABANDON_AFTER: Setting = Setting {
    name: "abandon_after",
    env: "POSTHASTE_ABANDON_AFTER",
    flag: "--abandon-after",
    section: Section::Dispatch,
    form: Form::Whole,
    default: Fallback::Text("5"),
    rule: "a whole number from 1 to 1000",
    help: "Leases in a row that an event may lose before it is dead-lettered as abandoned",
    ..PLAIN
};

pub(crate) static CYCLE_SECONDS: Setting = Setting {
    name: "cycle_seconds",
    env: "POSTHASTE_CYCLE_SECONDS",
    flag: "--cycle-seconds",
    section: Section::Dispatch,
    form: Form::Seconds,
    default: Fallback::Text("60"),
    rule: "a number of seconds from 1 to 86400",
    help: "How often a worker logs what it did",
    ..PLAIN
};

pub(crate) static WORKER_ID: Setting = Setting {
    name: "worker_id",
    env: "POSTHASTE_WORKER_ID",
    flag: "--worker-id",
    section: Section::Dispatch,
    default: Fallback::Unset {
        then: "the host's name and a part that differs at every start",
        example: "worker-1",
    },
    rule: "1 to 256 visible ASCII characters without spaces",
    help: "Names this worker in reports, histories and logs; in leases, a part that differs at every start follows",
    ..PLAIN
};
