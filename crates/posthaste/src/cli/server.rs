//! Which server a client command talks to, and as whom.

use clap::Args;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The server's URL [default: where the configuration says that it listens, http://127.0.0.1:8600]
    #[arg(long, value_name = "URL", env = "POSTHASTE_SERVER")]
    pub(crate) server: Option<String>,
    /// The API key, where the server asks for one
    #[arg(long, value_name = "KEY", env = "POSTHASTE_API_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
}
