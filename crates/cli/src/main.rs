//! The `posthaste` command.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod commands;
mod service;
mod terminal;

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(shown) => return terminal::usage(&shown),
    };
    let result = runtime(&cli).and_then(|runtime| {
        let ended = runtime.block_on(commands::run(cli));
        // Not even for a name lookup that blocks its thread: what matters has been waited for.
        runtime.shutdown_background();
        ended
    });
    result.unwrap_or_else(|error| terminal::report(&error))
}

/// One thread is enough to talk to a server; a service takes all there are.
fn runtime(cli: &Cli) -> anyhow::Result<Runtime> {
    let mut builder =
        if cli.runs_here() { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    Ok(builder.enable_all().build()?)
}
