//! `posthaste completions`: generates shell completions from the declared command line.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, CompletedShell};
use crate::terminal;

pub(crate) fn run(shell: CompletedShell) -> anyhow::Result<ExitCode> {
    let shell = match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "posthaste", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
