//! The parts of a running process around the engine: HTTP server, dashboard, readiness, logs, traces and shutdown.

pub(crate) mod dashboard;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod open_files;
pub(crate) mod phase_router;
pub(crate) mod readiness;
pub(crate) mod shutdown;
pub(crate) mod traces;
