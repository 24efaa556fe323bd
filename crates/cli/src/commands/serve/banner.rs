//! What is told at the start on standard output: where it is, where its data are, and what to try next.
//!
//! People get lines to read and to copy. Where nobody watches and the log is JSON, standard output often ends up in the
//! same place as the log: there it is one line of JSON, in the log's words.

mod first_event;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::Path;

use crate::service::logs;
use posthaste_config::{Config, DatabaseUrl, LogFormat};
use serde::Serialize;

use crate::cli::ServeArgs;
use crate::client::Server;
use crate::commands::opening;
use crate::terminal::time;
use first_event::FirstEvent;

pub(super) struct Banner {
    message: String,
    url: String,
    data: String,
    docs: String,
    first_event: Option<FirstEvent>,
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    message: &'a str,
    url: &'a str,
    data: &'a str,
    docs: &'a str,
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    commands: Option<[String; 2]>,
}

impl Banner {
    pub(super) fn of(args: &ServeArgs, file: Option<&Path>, config: &Config, address: SocketAddr) -> Self {
        let server = Server::listening_at(address);
        let others =
            if address.ip().is_unspecified() { " and on every other address of this host" } else { "" };
        Self {
            message: format!("Posthaste {} listens on {server}/{others}", env!("CARGO_PKG_VERSION")),
            url: format!("{server}/"),
            data: data(config),
            docs: format!("{server}/docs"),
            first_event: FirstEvent::of(args, file, config, &server),
        }
    }

    pub(super) fn shown(&self, config: &Config) -> String {
        let watched = io::stdout().is_terminal() || logs::format(config.log_format) == LogFormat::Pretty;
        if watched { self.text() } else { self.line(time::rfc3339(time::now())) }
    }

    fn text(&self) -> String {
        let Self { message, data, docs, .. } = self;
        let mut text = format!("{message}\n  data     {data}\n  docs     {docs}\n");
        if let Some(FirstEvent { place, listen, curl }) = &self.first_event {
            let curl = curl.join(" \\\n               ");
            text.push_str(&format!(
                "  try      a receiver, in another terminal {place}:\n             {listen}\n"
            ));
            text.push_str(&format!("           then\n             curl {curl}\n"));
        }
        text
    }

    fn line(&self, timestamp: String) -> String {
        let Self { message, url, data, docs, first_event } = self;
        let commands = first_event.as_ref();
        let commands = commands.map(|first| [first.listen.clone(), format!("curl {}", first.curl.join(" "))]);
        let line = Line { timestamp, level: "INFO", message, url, data, docs, commands };
        serde_json::to_string(&line).expect("text can be written")
    }
}

fn data(config: &Config) -> String {
    match &config.database {
        DatabaseUrl::Sqlite(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{} (SQLite)", absolute.display())
        }
        DatabaseUrl::Postgres(_) => opening::place(config).to_owned(),
    }
}

#[cfg(test)]
mod tests;
