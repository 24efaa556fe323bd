//! Logs on standard error: text on a terminal, JSON elsewhere.

use std::io::IsTerminal as _;

use posthaste_config::LogFormat;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Returns the configured format. The default is text if standard error is a terminal, or else JSON.
pub(crate) fn choose_format(configured: Option<LogFormat>) -> LogFormat {
    let default = if std::io::stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json };
    configured.unwrap_or(default)
}

/// Installs the log for the whole process. A second call has no effect. `color` applies to text only.
pub(crate) fn init(targets: &Targets, format: LogFormat, color: bool) {
    let registry = tracing_subscriber::registry();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Pretty => registry.with(layer.with_ansi(color).with_filter(targets.clone())).try_init(),
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_filter(targets.clone())).try_init()
        }
    };
}
