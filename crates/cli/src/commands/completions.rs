//! `posthaste completions`: generates shell completions from the declared command line.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::{Cli, CompletionShell};
use crate::terminal;

pub(crate) fn run(shell: CompletionShell) -> anyhow::Result<ExitCode> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "posthaste", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
