//! Logs, to standard error: for people on a terminal, for machines elsewhere.

use std::io::IsTerminal as _;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use posthaste_config::LogFormat;

/// The configured format, or else what suits where the log goes.
pub(crate) fn format(configured: Option<LogFormat>) -> LogFormat {
    let usual = if std::io::stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json };
    configured.unwrap_or(usual)
}

/// Once per process; a second call changes nothing. Whether colours show is for the caller to say, who writes beside
/// the log; JSON has none.
pub(crate) fn init(targets: &Targets, format: LogFormat, colours: bool) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Pretty => registry.with(layer.with_ansi(colours).with_filter(targets.clone())).try_init(),
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_filter(targets.clone())).try_init()
        }
    };
}
