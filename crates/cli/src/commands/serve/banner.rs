//! The banner that `posthaste serve` prints at its start: its URL, its database, and commands to try.
//!
//! It is text to read and to copy. If standard output is no terminal and the log is JSON, a collector often merges the
//! two: then the banner is one line of JSON with the field names of the log.

mod first_event;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::Path;

use crate::service::logs;
use posthaste_config::{Config, DatabaseUrl, LogFormat};
use serde::Serialize;

use crate::cli::ServeArgs;
use crate::client::ServerUrl;
use crate::commands::open;
use crate::terminal::time;
use first_event::FirstEventCommands;

/// The contents of the banner.
pub(super) struct Banner {
    message: String,
    url: String,
    /// The path or masked URL of the database.
    data: String,
    docs: String,
    first_event: Option<FirstEventCommands>,
}

/// The banner as one line of JSON.
#[derive(Serialize)]
struct BannerJson<'a> {
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
    pub(super) fn new(args: &ServeArgs, file: Option<&Path>, config: &Config, address: SocketAddr) -> Self {
        let server = ServerUrl::listening_at(address);
        let others =
            if address.ip().is_unspecified() { " and on every other address of this host" } else { "" };
        Self {
            message: format!("Posthaste {} listens on {server}/{others}", env!("CARGO_PKG_VERSION")),
            url: format!("{server}/"),
            data: describe_database(config),
            docs: format!("{server}/docs"),
            first_event: FirstEventCommands::new(args, file, config, &server),
        }
    }

    /// Renders the banner as text or as JSON, depending on standard output and the format of the log.
    pub(super) fn render(&self, config: &Config) -> String {
        let as_text =
            io::stdout().is_terminal() || logs::choose_format(config.log_format) == LogFormat::Pretty;
        if as_text { self.text() } else { self.json_line(time::format_rfc3339(time::now())) }
    }

    fn text(&self) -> String {
        let Self { message, data, docs, .. } = self;
        let mut text = format!("{message}\n  data     {data}\n  docs     {docs}\n");
        if let Some(FirstEventCommands { location, listen, curl }) = &self.first_event {
            let curl = curl.join(" \\\n               ");
            text.push_str(&format!(
                "  try      a receiver, in another terminal {location}:\n             {listen}\n"
            ));
            text.push_str(&format!("           then\n             curl {curl}\n"));
        }
        text
    }

    fn json_line(&self, timestamp: String) -> String {
        let Self { message, url, data, docs, first_event } = self;
        let commands = first_event.as_ref();
        let commands = commands.map(|first| [first.listen.clone(), format!("curl {}", first.curl.join(" "))]);
        let line = BannerJson { timestamp, level: "INFO", message, url, data, docs, commands };
        serde_json::to_string(&line).expect("strings serialize")
    }
}

/// Returns the path of the SQLite file or the masked URL of the PostgreSQL database.
fn describe_database(config: &Config) -> String {
    match &config.database_url {
        DatabaseUrl::Sqlite(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{} (SQLite)", absolute.display())
        }
        DatabaseUrl::Postgres(_) => open::database_name(config),
    }
}

#[cfg(test)]
mod tests;
