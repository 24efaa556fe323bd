//! The command line: what can be asked for, and the help that says so.
//!
//! Nothing is done here and nothing is looked up but the command line and the environment.

mod operate;
mod produce;
mod server;
mod settings;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use operate::{
    CancelArgs, DlqCommand, EventsCommand, EventsListArgs, ListArgs, OverviewArgs, RequeueArgs, ShowArgs,
};
pub(crate) use produce::{ListenArgs, SendArgs};
pub(crate) use server::{CLIENT_VARIABLES, ServerArgs};
pub(crate) use settings::SettingFlags;

/// Heads the flags that every command takes.
const GLOBAL: &str = "Everywhere";

const EXAMPLES: &str = "\
Examples:
  posthaste                                   serve with what posthaste.toml and the environment say
  posthaste listen                            a receiver to develop against, in another terminal
  posthaste send --url http://127.0.0.1:8700/ --type invoice.paid --data '{\"invoice\": 17}' --wait
  posthaste overview                          how deliveries are doing
  posthaste dlq list                          what could not be delivered";

/// Of `worker`, where the setting means something else than for `serve`.
const WORKER_LISTEN: &str = "Where /metrics, /healthz and /readyz answer, and nothing else; without api_keys only a \
                             loopback address [default: it does not listen]";

/// Delivers webhooks: signed, retried on a contract that protects receivers, dead-lettered when they cannot be.
///
/// Without a command, it serves: API, dashboard and worker in one process.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration file [default: posthaste.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) config: Option<PathBuf>,
    /// Print without colours, as with NO_COLOR in the environment
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_color: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Serve the API and the dashboard and deliver events, in one process
    ///
    /// Creates its database and brings it up to date first.
    #[command(after_help = "Examples:\n  posthaste serve\n  posthaste serve --listen 127.0.0.1:9000 \
                            --database-url postgres://db.example/posthaste --no-worker")]
    Serve(ServeArgs),
    /// Deliver events, without API and dashboard
    ///
    /// It listens only when told where, and then only for probes and scrapes.
    #[command(
        after_help = "Example:\n  posthaste worker --database-url postgres://db.example/posthaste",
        mut_arg("listen", |listen| listen.help(WORKER_LISTEN))
    )]
    Worker(SettingFlags),
    /// Deliver what is due now, once, and print the cycle's report as one line of JSON
    #[command(
        override_usage = "posthaste dispatch --once [OPTIONS]",
        after_help = "Example:\n  posthaste dispatch --once"
    )]
    Dispatch(DispatchArgs),
    /// Create the database or bring it up to date, and say what was done
    #[command(after_help = "Example:\n  posthaste migrate --database-url sqlite://posthaste.db")]
    Migrate(SettingFlags),
    /// Hand an event to the server and print its id
    Send(SendArgs),
    /// Receive deliveries on this machine, check their signatures and print them
    Listen(ListenArgs),
    /// Show how many events are pending, due, retrying, failed and delivered
    Overview(OverviewArgs),
    /// See and repair the dead-letter queue
    #[command(subcommand, after_help = "Example:\n  posthaste dlq list")]
    Dlq(DlqCommand),
    /// See events and why they are where they are, and end them
    #[command(subcommand, after_help = "Example:\n  posthaste events list --status pending")]
    Events(EventsCommand),
    /// Check configuration, database, clock and network guard, and say what to fix
    #[command(after_help = "Example:\n  posthaste doctor")]
    Doctor(DoctorArgs),
    /// Print the OpenAPI document of the API
    #[command(after_help = "Example:\n  posthaste openapi > openapi.json")]
    Openapi,
    /// Print the configuration that holds and where each value comes from, secrets masked
    #[command(after_help = "Example:\n  posthaste config --config production.toml")]
    Config(ConfigArgs),
    /// Print the secret that deliveries are signed with, for receivers to check them
    #[command(
        after_help = "Examples:\n  posthaste secret\n  posthaste listen --secret \"$(posthaste secret)\""
    )]
    Secret(SettingFlags),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = "Examples:\n  source <(posthaste completions bash)\n  \
                            posthaste completions zsh > ~/.zfunc/_posthaste\n  \
                            posthaste completions fish > ~/.config/fish/completions/posthaste.fish")]
    Completions(CompletionsArgs),
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Serve API and dashboard only; workers run elsewhere
    #[arg(long)]
    pub(crate) no_worker: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DispatchArgs {
    /// One cycle, then exit. Without it nothing is done: to go on delivering is what `posthaste worker` is for
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// Print the configuration as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete in
    #[arg(value_enum)]
    pub(crate) shell: CompletedShell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

impl Cli {
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        // Help and refusals are printed before a flag could be looked at.
        let plain = std::env::args_os().any(|word| word == "--no-color");
        let choice = if plain { clap::ColorChoice::Never } else { clap::ColorChoice::Auto };
        let matches = Self::command().color(choice).try_get_matches()?;
        Self::from_arg_matches(&matches)
    }

    pub(crate) fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Serve(ServeArgs::default()))
    }

    /// Whether the command works on a database in this process, rather than ask a server.
    pub(crate) fn runs_here(&self) -> bool {
        match &self.command {
            None => true,
            Some(command) => matches!(
                command,
                Command::Serve(_)
                    | Command::Worker(_)
                    | Command::Dispatch(_)
                    | Command::Migrate(_)
                    | Command::Doctor(_)
                    | Command::Secret(_)
            ),
        }
    }
}
