//! What a running process needs beside the engine: chance, logs, traces, a place to listen, a way to stop.

pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod page;
pub(crate) mod readiness;
pub(crate) mod stop;
pub(crate) mod traces;
