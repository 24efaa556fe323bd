//! `posthaste secret`: what receivers check signatures with.

use std::process::ExitCode;

use posthaste::Posthaste;
use posthaste::config::Config;

use crate::commands::running;
use crate::terminal;

/// One per line, the newest first. Makes one where there is none, as the first start would.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let posthaste = Posthaste::open(running::options(&config)?).await?;
    for secret in posthaste.signing_keys().secrets() {
        terminal::print(&secret.reveal())?;
    }
    Ok(ExitCode::SUCCESS)
}
