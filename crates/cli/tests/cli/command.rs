//! Runs the built command in an empty directory, with an empty environment.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a command may run before its test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The exit code and the output of a command that has ended.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Builds a command that captures its output. Run it with [`run_command`].
pub(crate) fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).env_clear().current_dir(directory("empty")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a directory with this name for the files of a test, and creates it.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs `posthaste` with these arguments.
pub(crate) fn run(arguments: &[&str]) -> CommandOutput {
    run_command(&mut posthaste(arguments))
}

/// Runs a command to its end.
pub(crate) fn run_command(command: &mut Command) -> CommandOutput {
    wait_for_output(command.spawn().unwrap(), "")
}

/// Runs `posthaste` with these arguments and this standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> CommandOutput {
    wait_for_output(posthaste(arguments).stdin(Stdio::piped()).spawn().unwrap(), input)
}

/// Builds a command that runs `posthaste` in a terminal with this number of columns, or of unknown width. The terminal
/// merges standard output and standard error; both are in `stdout` of the result.
pub(crate) fn posthaste_on_terminal(columns: Option<u16>, arguments: &[&str]) -> Command {
    let size = columns.map_or_else(String::new, |columns| format!("stty cols {columns} rows 24; "));
    let words = [env!("CARGO_BIN_EXE_posthaste")].into_iter().chain(arguments.iter().copied());
    let words: Vec<_> = words.map(|word| format!("'{word}'")).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{size}exec {}", words.join(" ")), "/dev/null"]);
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("TERM", "xterm")]).stdin(Stdio::null());
    command.current_dir(directory("empty")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes the input and waits for the end. Kills the command and fails the test after [`TIMEOUT`].
#[track_caller]
fn wait_for_output(mut child: Child, input: &str) -> CommandOutput {
    let (id, input) = (child.id().to_string(), input.to_owned());
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).expect("the command reads its standard input");
        }
        sender.send(child.wait_with_output().unwrap())
    });
    let Ok(Output { status, stdout, stderr }) = output.recv_timeout(TIMEOUT) else {
        let _ = Command::new("kill").args(["-KILL", &id]).status();
        panic!("the command did not end within {TIMEOUT:?}");
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

impl CommandOutput {
    /// Asserts that the command exited with this code, wrote these texts to standard error, and printed no data.
    #[track_caller]
    pub(crate) fn assert_failure(&self, code: i32, texts: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("Error: "), "{}", self.stderr);
    }

    /// Asserts that the command succeeded and printed exactly this.
    #[track_caller]
    pub(crate) fn assert_stdout(&self, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(0), stdout), "{}", self.stderr);
    }
}
