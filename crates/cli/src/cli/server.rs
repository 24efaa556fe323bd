//! Which server a client command talks to, and as whom.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// What client commands read from the environment; these are no settings.
pub(crate) const CLIENT_VARIABLES: [&str; 2] = [SERVER_VARIABLE, KEY_VARIABLE];
const SERVER_VARIABLE: &str = "POSTHASTE_SERVER";
const KEY_VARIABLE: &str = "POSTHASTE_API_KEY";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The server's URL [env: POSTHASTE_SERVER] [default: http:// and the configuration's listen, 127.0.0.1:8600]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// The API key, where the server asks for one [env: POSTHASTE_API_KEY]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,
}

impl ServerArgs {
    pub(crate) fn server(&self) -> Option<String> {
        self.server.clone().or_else(|| variable(SERVER_VARIABLE))
    }

    pub(crate) fn key(&self) -> Option<String> {
        self.key.clone().or_else(|| variable(KEY_VARIABLE))
    }
}

/// A variable that is empty is not set. An empty flag is a mistake: what it was to hold is missing.
pub(super) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    if value.is_empty() { None } else { Some(value) }
}
