//! Logs, to standard error: for people on a terminal, for machines elsewhere.

use std::io::IsTerminal as _;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// Once per process; a second call changes nothing.
pub fn init(targets: &Targets, format: Option<LogFormat>) {
    let terminal = std::io::stderr().is_terminal();
    let usual = if terminal { LogFormat::Pretty } else { LogFormat::Json };
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = match format.unwrap_or(usual) {
        LogFormat::Pretty => {
            let colours = terminal && std::env::var_os("NO_COLOR").is_none();
            registry.with(layer.with_ansi(colours).with_filter(targets.clone())).try_init()
        }
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_filter(targets.clone())).try_init()
        }
    };
}
