//! Settings of the store, the API, and of what is told about them.

use super::{Fallback, Form, PLAIN, Secrecy, Section, Setting};

pub(crate) static DATABASE_URL: Setting = Setting {
    name: "database_url",
    env: "POSTHASTE_DATABASE_URL",
    flag: "--database-url",
    section: Section::Storage,
    default: Fallback::Text("sqlite://posthaste.db"),
    rule: "sqlite://PATH or postgres://user:password@host:port/database",
    help: "Where events are kept: a SQLite file, or PostgreSQL for many workers",
    secrecy: Secrecy::Credentials,
    ..PLAIN
};

pub(crate) static RETENTION_DAYS: Setting = Setting {
    name: "retention_days",
    env: "POSTHASTE_RETENTION_DAYS",
    flag: "--retention-days",
    section: Section::Storage,
    form: Form::Whole,
    default: Fallback::Text("30"),
    rule: "a whole number from 0 to 36500; 0 keeps all",
    help: "How long delivered events and attempts are kept",
    ..PLAIN
};

pub(crate) static LISTEN: Setting = Setting {
    name: "listen",
    env: "POSTHASTE_LISTEN",
    flag: "--listen",
    section: Section::Service,
    default: Fallback::Text("127.0.0.1:8600"),
    rule: "an address and a port, such as 127.0.0.1:8600 or [::1]:8600; port 0 takes a free one",
    help: "Where the API and the dashboard answer; without api_keys only a loopback address",
    ..PLAIN
};

pub(crate) static API_KEYS: Setting = Setting {
    name: "api_keys",
    env: "POSTHASTE_API_KEYS",
    flag: "--api-keys",
    section: Section::Service,
    form: Form::TextList,
    default: Fallback::Unset {
        then: "none, and anyone who can connect may do everything",
        example: "name:role:key",
    },
    rule: "name:role:key, several separated by commas; keys have 16 characters or more, roles are producer, \
           operator and viewer",
    help: "Who may call the API, and as what",
    secrecy: Secrecy::Secret,
    ..PLAIN
};

pub(crate) static PAYLOAD_BYTES_MAX: Setting = Setting {
    name: "payload_bytes_max",
    env: "POSTHASTE_PAYLOAD_BYTES_MAX",
    flag: "--payload-bytes-max",
    section: Section::Service,
    form: Form::Whole,
    default: Fallback::Text("262144"),
    rule: "a whole number from 1 to 16777216",
    help: "Largest payload that the API accepts",
    ..PLAIN
};

pub(crate) static IDEMPOTENCY_HOURS: Setting = Setting {
    name: "idempotency_hours",
    env: "POSTHASTE_IDEMPOTENCY_HOURS",
    flag: "--idempotency-hours",
    section: Section::Service,
    form: Form::Whole,
    default: Fallback::Text("24"),
    rule: "a whole number from 1 to 8760",
    help: "How long an Idempotency-Key is remembered",
    ..PLAIN
};

pub(crate) static SHUTDOWN_SECONDS: Setting = Setting {
    name: "shutdown_seconds",
    env: "POSTHASTE_SHUTDOWN_SECONDS",
    flag: "--shutdown-seconds",
    section: Section::Service,
    form: Form::Seconds,
    default: Fallback::Text("30"),
    rule: "a number of seconds from 0 to 3600",
    help: "How long requests in flight may take to finish when the process is told to stop",
    ..PLAIN
};

pub(crate) static LOG: Setting = Setting {
    name: "log",
    env: "POSTHASTE_LOG",
    flag: "--log",
    section: Section::Watching,
    default: Fallback::Text("info"),
    rule: "off, error, warn, info, debug or trace, or such as info,posthaste_engine=debug",
    help: "What is logged",
    ..PLAIN
};

pub(crate) static LOG_FORMAT: Setting = Setting {
    name: "log_format",
    env: "POSTHASTE_LOG_FORMAT",
    flag: "--log-format",
    section: Section::Watching,
    default: Fallback::Unset { then: "pretty on a terminal, else json", example: "json" },
    rule: "pretty or json",
    help: "How log lines are written",
    ..PLAIN
};

pub(crate) static OTLP_ENDPOINT: Setting = Setting {
    name: "otlp_endpoint",
    env: "POSTHASTE_OTLP_ENDPOINT",
    flag: "--otlp-endpoint",
    section: Section::Watching,
    default: Fallback::Unset { then: "none, and no traces are sent", example: "http://127.0.0.1:4318" },
    rule: "a URL such as http://127.0.0.1:4318",
    help: "The collector that traces are sent to, as OTLP over HTTP",
    secrecy: Secrecy::Credentials,
    ..PLAIN
};
