//! The sink: a process of its own that receives all requests of a run.

mod delay;
mod request;
mod server;
mod statistics;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, ChildStdout, Command as ProcessCommand, Stdio};
use std::time::Duration;

pub(crate) use request::Behaviour;
pub(crate) use server::run;
pub(crate) use statistics::GroupReport;

use crate::process;
use statistics::SinkReport;

/// Name of the hidden subcommand that runs the sink.
pub(crate) const SUBCOMMAND: &str = "sink";

/// Most hosts that a sink has.
pub(crate) const HOSTS_MAX: usize = 1_000;

/// A running sink process. It is killed when this value is dropped.
pub(crate) struct Sink {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    port: u16,
}

/// A command to the sink, one line on its standard input.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    /// Responds with the number of distinct events of a group.
    Count(String),
    /// Responds with a [`SinkReport`].
    Report,
    /// Forgets all counts. Connections stay open.
    Reset,
}

impl Command {
    fn parse(line: &str) -> Self {
        match line.split_once(' ') {
            Some(("count", group)) => Self::Count(group.to_owned()),
            _ if line == "reset" => Self::Reset,
            _ => Self::Report,
        }
    }
}

/// Returns the address of a numbered host. Linux answers on all addresses of 127.0.0.0/8.
fn host_address(host: usize) -> Ipv4Addr {
    let octet = |number: usize| u8::try_from(number).expect("there are at most 250 × 250 hosts");
    Ipv4Addr::new(127, 1, octet(host / 250), octet(host % 250 + 1))
}

impl Sink {
    /// Starts a sink on 127.0.0.1 and on [`HOSTS_MAX`] other addresses.
    pub(crate) fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = ProcessCommand::new(program)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let stdin = process.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut sink = Self { process, stdin, stdout, port: 0 };
        sink.port = sink.read_line().parse().expect("the sink prints its port");
        sink
    }

    /// Returns the URL of a destination on 127.0.0.1.
    pub(crate) fn url(&self, group: &str, behaviour: Behaviour, number: usize) -> String {
        self.url_at(Ipv4Addr::LOCALHOST, group, behaviour, number)
    }

    /// Returns the URL of a destination on a numbered host.
    pub(crate) fn host_url(&self, host: usize, group: &str, behaviour: Behaviour) -> String {
        self.url_at(host_address(host), group, behaviour, 0)
    }

    fn url_at(&self, address: Ipv4Addr, group: &str, behaviour: Behaviour, number: usize) -> String {
        format!("http://{address}:{}/{group}/{}/{number}", self.port, behaviour.segment())
    }

    /// Returns the number of distinct events of a group that arrived since the last reset.
    pub(crate) fn count(&mut self, group: &str) -> usize {
        self.ask(&format!("count {group}")).parse().expect("the sink responds with a number")
    }

    /// Returns the connections accepted since the last reset.
    pub(crate) fn connections(&mut self) -> u64 {
        self.report().connections
    }

    /// Returns what arrived at a group since the last reset.
    pub(crate) fn group(&mut self, group: &str) -> GroupReport {
        self.report().groups.remove(group).unwrap_or_default()
    }

    fn report(&mut self) -> SinkReport {
        let line = self.ask("report");
        serde_json::from_str(&line).expect("the sink responds with a report")
    }

    pub(crate) fn reset(&mut self) {
        self.ask("reset");
    }

    /// Returns the processor time that the sink has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        process::process_time(self.process.id()).unwrap_or_default()
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.stdin, "{command}").expect("the sink reads its commands");
        self.read_line()
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the sink responds");
        assert!(!line.is_empty(), "the sink has ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        assert_eq!(Command::parse("count drain"), Command::Count("drain".to_owned()));
        assert_eq!(Command::parse("report"), Command::Report);
        assert_eq!(Command::parse("reset"), Command::Reset);
    }

    #[test]
    fn every_host_has_its_own_address() {
        let addresses: std::collections::BTreeSet<_> = (0..HOSTS_MAX).map(host_address).collect();
        assert_eq!(addresses.len(), HOSTS_MAX);
        assert_eq!(host_address(0), Ipv4Addr::new(127, 1, 0, 1));
        assert_eq!(host_address(250), Ipv4Addr::new(127, 1, 1, 1));
    }
}
