//! The `posthaste` command.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod commands;
mod http_client;
mod service;
mod terminal;
mod timers;

use std::process::ExitCode;

use mimalloc::MiMalloc;
use tokio::runtime::{Builder, Runtime};

use crate::cli::Cli;

/// Every attempt allocates its request, its response and its strings, on several threads at once, which mimalloc serves in
/// less time than the allocator of the C library.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(error) => return terminal::print_usage(&error),
    };
    service::open_files::raise_limit();
    let result = runtime(&cli).and_then(|runtime| {
        let result = runtime.block_on(commands::run(cli));
        // Does not wait for name lookups that still block a thread. The command has waited for everything else.
        runtime.shutdown_background();
        result
    });
    result.unwrap_or_else(|error| terminal::report_error(&error))
}

/// Creates a runtime: a thread per core for a service, one thread for a command that only calls a server.
fn runtime(cli: &Cli) -> anyhow::Result<Runtime> {
    let mut builder =
        if cli.opens_database() { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    Ok(builder.enable_all().build()?)
}
