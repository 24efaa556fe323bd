//! Runs PostgreSQL's programs. PostgreSQL refuses to run as root, so root runs them as the user `postgres`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::install::Install;

/// The user that runs the server in place of root.
const USER: &str = "postgres";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{program} could not be run: {reason}")]
    NotRun { program: String, reason: io::Error },
    #[error("{program} failed: {output}")]
    Failed { program: String, output: String },
}

/// An installation of PostgreSQL, and the user that runs its programs.
#[derive(Debug, Clone)]
pub(crate) struct CommandRunner {
    install: Install,
    is_root: bool,
}

impl CommandRunner {
    pub(crate) fn new(install: Install, is_root: bool) -> Self {
        Self { install, is_root }
    }

    pub(crate) fn install(&self) -> &Install {
        &self.install
    }

    /// Returns a command that runs any program as the server's user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        remove_pg_variables(&mut command);
        command
    }

    /// Returns a command that runs one of PostgreSQL's programs as the server's user.
    pub(crate) fn postgres_command(&self, name: &str) -> Command {
        self.command(&self.install.program(name))
    }

    /// Makes the server's user the owner of a path and of all files below it.
    pub(crate) fn change_owner(&self, path: &Path) -> Result<(), CommandError> {
        if self.is_root {
            run("chown", Command::new("chown").arg("-R").arg(format!("{USER}:")).arg(path))?;
        }
        Ok(())
    }
}

/// Removes the variables of the environment that libpq reads: PGHOST, for one, would direct a command to another
/// server.
pub(crate) fn remove_pg_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
}

/// Runs a command and returns its standard output.
pub(crate) fn run(program: &str, command: &mut Command) -> Result<String, CommandError> {
    let output = command.stdin(Stdio::null()).output().map_err(|reason| not_run(program, reason))?;
    parse_output(program, &output)
}

/// Runs a command with `input` on its standard input, and returns its standard output.
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
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // Write concurrently with the reads below: otherwise a full output pipe and a full input pipe would deadlock.
    // Ignore write errors: a command that exits before it has read its input reports the reason itself.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    });
    parse_output(program, &output.map_err(|reason| not_run(program, reason))?)
}

/// Returns the standard output of a successful command, or all output of a failed one as an error.
fn parse_output(program: &str, output: &Output) -> Result<String, CommandError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let output = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    Err(CommandError::Failed { program: program.to_owned(), output: output.trim().to_owned() })
}

/// Returns the error of a program that could not be started.
pub(crate) fn not_run(program: &str, reason: io::Error) -> CommandError {
    CommandError::NotRun { program: program.to_owned(), reason }
}
