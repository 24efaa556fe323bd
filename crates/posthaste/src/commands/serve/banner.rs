//! What a person sees who has just started it: where it is, where its data are, and what to try next.

use std::net::SocketAddr;

use posthaste::config::{Config, Database};

use crate::commands::running;

/// Where `posthaste listen` listens unless told otherwise.
const RECEIVER: &str = "http://127.0.0.1:8700/";

pub(super) fn banner(config: &Config, address: SocketAddr) -> String {
    let key = if config.api_keys.is_some() { " \\\n    -H 'authorization: Bearer YOUR_KEY'" } else { "" };
    format!(
        "Posthaste {version} listens on http://{address}/
  data     {data}
  docs     http://{address}/docs
  try      posthaste listen --secret \"$(posthaste secret)\"     (a receiver, in another terminal)
then
  curl http://{address}/v1/webhook-outbox/events \\
    -H 'content-type: application/json'{key} \\
    -d '{{\"destination_url\": \"{RECEIVER}\", \"event_type\": \"invoice.paid\", \"payload\": {{\"invoice\": 17}}}}'
",
        version = env!("CARGO_PKG_VERSION"),
        data = data(config),
    )
}

fn data(config: &Config) -> String {
    match &config.database {
        Database::Sqlite(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{} (SQLite)", absolute.display())
        }
        Database::Postgres(_) => running::place(config).to_owned(),
    }
}
