//! Runs the command in an empty directory and an empty environment.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).env_clear().current_dir(directory("empty")).stdin(Stdio::null());
    command
}

/// A directory for a test that has files, by the test's name.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    finish(&mut posthaste(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    ran(output)
}

pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> Ran {
    let mut command = posthaste(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

/// Runs the command in a terminal, of so many columns or of a width that it does not tell. What it shows there, on both
/// of its outputs, is the standard output here.
pub(crate) fn on_terminal(columns: Option<u16>, arguments: &[&str]) -> Command {
    let size = columns.map_or_else(String::new, |columns| format!("stty cols {columns} rows 24; "));
    let words = [env!("CARGO_BIN_EXE_posthaste")].into_iter().chain(arguments.iter().copied());
    let words: Vec<_> = words.map(|word| format!("'{word}'")).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{size}exec {}", words.join(" ")), "/dev/null"]);
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("TERM", "xterm")]).stdin(Stdio::null());
    command.current_dir(directory("empty"));
    command
}

fn ran(output: std::process::Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
    /// Failed with this code, said so on standard error, and printed no data.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, told: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        for part in told {
            assert!(self.stderr.contains(part), "{part:?} is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("Error: "), "{}", self.stderr);
    }

    #[track_caller]
    pub(crate) fn printed(&self, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(0), stdout), "{}", self.stderr);
    }
}
