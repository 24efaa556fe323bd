//! Commands of PostgreSQL, run as a user whom it accepts: it refuses root, so root becomes `postgres`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::install::Install;

const USER: &str = "postgres";

/// A command that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{program} could not be run: {reason}")]
    NotRun { program: String, reason: io::Error },
    #[error("{program} failed: {output}")]
    Failed { program: String, output: String },
}

/// Where a server's files are, and as whom its commands run.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    install: Install,
    is_root: bool,
}

impl Account {
    pub(crate) fn new(install: Install, is_root: bool) -> Self {
        Self { install, is_root }
    }

    pub(crate) fn install(&self) -> &Install {
        &self.install
    }

    /// Any program, as the server's user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        without_pg_variables(&mut command);
        command
    }

    /// One of PostgreSQL's programs, as the server's user.
    pub(crate) fn postgres_command(&self, name: &str) -> Command {
        self.command(&self.install.program(name))
    }

    /// Makes the server's user the owner of everything under a path.
    pub(crate) fn own(&self, path: &Path) -> Result<(), CommandError> {
        if self.is_root {
            run("chown", Command::new("chown").arg("-R").arg(format!("{USER}:")).arg(path))?;
        }
        Ok(())
    }
}

/// PGHOST and its like would lead a command to somebody else's server.
pub(crate) fn without_pg_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
}

/// What it printed, if it succeeded.
pub(crate) fn run(program: &str, command: &mut Command) -> Result<String, CommandError> {
    let output = command.stdin(Stdio::null()).output().map_err(|reason| not_run(program, reason))?;
    printed(program, &output)
}

/// The same for a command that reads its work.
pub(crate) fn run_with_input(
    program: &str,
    command: &mut Command,
    input: &str,
) -> Result<String, CommandError> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|reason| not_run(program, reason))?;
    let mut stdin = child.stdin.take().expect("stdin was asked for above");
    // Written beside the reading below: long input and long output would otherwise wait for each other. A command that
    // ended before it read everything says why itself.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    });
    printed(program, &output.map_err(|reason| not_run(program, reason))?)
}

fn printed(program: &str, output: &Output) -> Result<String, CommandError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let output = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    Err(CommandError::Failed { program: program.to_owned(), output: output.trim().to_owned() })
}

pub(crate) fn not_run(program: &str, reason: io::Error) -> CommandError {
    CommandError::NotRun { program: program.to_owned(), reason }
}
