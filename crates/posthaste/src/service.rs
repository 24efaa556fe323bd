//! What a running process needs beside the engine: chance, logs, traces, a place to listen, a way to stop.

pub mod chance;
pub mod http;
pub mod logs;
pub(crate) mod own_runtime;
pub mod page;
pub mod readiness;
pub mod stop;
pub mod traces;
