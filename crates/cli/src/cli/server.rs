//! The server and the API key of a client command.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// The environment variables of client commands, which are not settings of the configuration.
pub(crate) const CLIENT_VARIABLES: [&str; 2] = [SERVER_VARIABLE, KEY_VARIABLE];
const SERVER_VARIABLE: &str = "POSTHASTE_SERVER";
const KEY_VARIABLE: &str = "POSTHASTE_API_KEY";

/// The arguments that all client commands share.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// URL of the server [env: POSTHASTE_SERVER] [default: http:// and the configured listen address, 127.0.0.1:8600]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// API key, if the server requires one [env: POSTHASTE_API_KEY]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,
}

impl ServerArgs {
    /// Returns the server's URL from `--server` or, without that flag, from the environment. None if neither sets it.
    pub(crate) fn server(&self) -> Option<String> {
        self.server.clone().or_else(server_variable)
    }

    /// Returns the API key from `--key` or, without that flag, from the environment. None if neither sets it.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.clone().or_else(key_variable)
    }
}

/// Returns the server's URL from the environment.
pub(super) fn server_variable() -> Option<String> {
    variable(SERVER_VARIABLE)
}

/// Returns the API key from the environment.
pub(crate) fn key_variable() -> Option<String> {
    variable(KEY_VARIABLE)
}

/// Returns the value of an environment variable, or None if it is not set or empty. (An empty flag is an error
/// instead.)
pub(super) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    if value.is_empty() { None } else { Some(value) }
}
