//! The declared command line: commands, arguments and their help.
//!
//! This module only parses. It reads the command line and the environment, and no files.

mod bulk;
mod operate;
mod produce;
mod registry;
mod secret;
mod server;
mod settings;
mod tokens;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use bulk::{BulkArgs, BulkCommand, BulkIdArgs, FilterArgs};
pub(crate) use operate::{
    CancelArgs, ContentArgs, DestinationArgs, DestinationsCommand, DestinationsListArgs, DlqCommand,
    EventsCommand, EventsListArgs, ListArgs, OverviewArgs, PauseArgs, ReplayArgs, ShowArgs, Status,
    WorkersArgs,
};
pub(crate) use produce::{ListenArgs, SendArgs, require_secret, split_secrets};
pub(crate) use registry::{
    AppAddArgs, AppDeleteArgs, AppUpdateArgs, AppsCommand, EndpointAddArgs, EndpointArgs, EndpointDeleteArgs,
    EndpointFields, EndpointRotateArgs, EndpointUpdateArgs, EndpointsCommand, EventTypeAddArgs,
    EventTypesCommand, MessageArgs, MessagesCommand, MessagesListArgs, OperationArgs, PeriodArgs,
    PublishArgs, ResendArgs, SendExampleArgs,
};
pub(crate) use secret::{SecretArgs, SecretCommand, SecretListArgs, SecretRotateArgs};
pub(crate) use server::{CLIENT_VARIABLES, ServerArgs, key_variable};
pub(crate) use settings::SettingFlags;
use settings::show_only_store_settings;
pub(crate) use tokens::{
    DestinationSecretArgs, OperationStopArgs, OperationsCommand, OperationsListArgs, ResealArgs,
    SecretsCommand, TokenArgs,
};

/// The help heading of the flags that every command takes.
const GLOBAL_HEADING: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  posthaste                                   serve with the settings of posthaste.toml
  posthaste listen                            run a receiver for development, in another terminal
  posthaste send --url http://127.0.0.1:8700/ --type invoice.paid --data '{\"invoice\": 17}' --wait
  posthaste overview                          count the events in each state
  posthaste dlq list                          list the events that could not be delivered";

/// Help text of the `listen` setting for `worker`, which serves only metrics and health probes at that address.
const WORKER_LISTEN_HELP: &str = "Address that serves /metrics, /healthz and /readyz, and nothing else; without \
                                  api_keys, only a loopback address [default: none; the worker does not listen]";

/// Deliver webhooks: signed, retried with backoff, and dead-lettered when all attempts fail
///
/// Without a command, posthaste runs `posthaste serve`: API, dashboard and worker in one process.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Configuration file [default: posthaste.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL_HEADING)]
    pub(crate) config: Option<PathBuf>,
    /// Print without colours, as with NO_COLOR in the environment
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub(crate) no_color: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands; these doc comments are their help.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Serve the API and the dashboard and deliver events, in one process
    ///
    /// Creates or upgrades the database first.
    #[command(after_help = "Examples:\n  posthaste serve\n  posthaste serve --listen 127.0.0.1:9000 \
                            --database-url postgres://db.example/posthaste --no-worker")]
    Serve(ServeArgs),
    /// Deliver events, without API and dashboard
    ///
    /// With --listen, it also serves metrics and health probes.
    #[command(
        after_help = "Example:\n  posthaste worker --database-url postgres://db.example/posthaste",
        mut_arg("listen", |listen| listen.help(WORKER_LISTEN_HELP))
    )]
    Worker(SettingFlags),
    /// Deliver the events that are due now, print a report as one line of JSON, and exit
    ///
    /// Events that have expired are dead-lettered instead of delivered.
    #[command(
        override_usage = "posthaste dispatch --once [OPTIONS]",
        after_help = "Example:\n  posthaste dispatch --once"
    )]
    Dispatch(DispatchArgs),
    /// Create or upgrade the database and report what was done
    #[command(
        after_help = "Example:\n  posthaste migrate --database-url sqlite://posthaste.db",
        mut_args(show_only_store_settings)
    )]
    Migrate(SettingFlags),
    /// Send an event to the server and print its id
    Send(SendArgs),
    /// Receive deliveries on this machine, check their signatures and print them
    Listen(ListenArgs),
    /// Show how many events are pending, due, retrying, failed and delivered
    Overview(OverviewArgs),
    /// List the workers with the age of their last report and their requests in flight
    Workers(WorkersArgs),
    /// List and requeue the events in the dead-letter queue
    #[command(subcommand, after_help = "Example:\n  posthaste dlq list")]
    Dlq(DlqCommand),
    /// List, explain and cancel events
    #[command(subcommand, after_help = "Example:\n  posthaste events list --status pending")]
    Events(EventsCommand),
    /// List destinations, show one, and pause or resume it
    #[command(subcommand, after_help = "Example:\n  posthaste destinations list --state circuit_open")]
    Destinations(DestinationsCommand),
    /// List, add, show, change and delete applications, each of which has endpoints of its own
    #[command(subcommand, after_help = "Example:\n  posthaste apps add 'Customer 17' --uid customer-17")]
    Apps(AppsCommand),
    /// Manage the endpoints of an application: their state, secrets and missed messages
    #[command(
        subcommand,
        after_help = "Example:\n  posthaste endpoints add customer-17 https://shop.example/hooks"
    )]
    Endpoints(EndpointsCommand),
    /// Register and describe the types of messages to which endpoints subscribe
    #[command(subcommand, after_help = "Example:\n  posthaste event-types add invoice.paid")]
    EventTypes(EventTypesCommand),
    /// Publish messages to the endpoints of an application, list them, and send them again
    #[command(
        subcommand,
        after_help = "Example:\n  posthaste messages publish customer-17 --type invoice.paid --data '{\"invoice\": 17}'"
    )]
    Messages(MessagesCommand),
    /// Check configuration, database, clock and network access, and report what to fix
    ///
    /// Prints the checks of a running server, if one answers at the configured address: its environment may differ from this
    /// shell's. Otherwise checks with the configuration of this shell.
    #[command(
        after_help = "Examples:\n  posthaste doctor\n  posthaste doctor --local\n  posthaste doctor --server https://hooks.example"
    )]
    Doctor(DoctorArgs),
    /// Print the OpenAPI document of the API
    #[command(
        after_help = "Examples:\n  posthaste openapi > openapi.json\n  posthaste openapi --registry > registry.json"
    )]
    Openapi(OpenapiArgs),
    /// Print the effective configuration of this shell and the source of each value, with secrets masked
    ///
    /// A running server may have another one: `posthaste doctor` prints the server's own checks.
    #[command(after_help = "Example:\n  posthaste config --config production.toml")]
    Config(ConfigArgs),
    /// Print the secrets that sign deliveries, with which receivers verify them; list or rotate them
    ///
    /// Without a subcommand, prints every valid secret, the newest first.
    #[command(
        after_help = "Examples:\n  posthaste secret\n  posthaste secret | posthaste listen --secret-file -\n  \
                      posthaste secret rotate",
        mut_args(show_only_store_settings)
    )]
    Secret(SecretArgs),
    /// Make a token for an application or an organisation, signed with jwt_secret
    ///
    /// The bearer of an application's token manages the endpoints of that application only, with the SDKs or the portal.
    #[command(
        after_help = "Examples:\n  posthaste token --app customer-17\n  \
                      posthaste token --app customer-17 --read-only --expires 3600",
        mut_args(show_only_store_settings)
    )]
    Token(TokenArgs),
    /// List and stop background operations, such as the recovery of an endpoint
    #[command(subcommand, after_help = "Example:\n  posthaste operations list")]
    Operations(OperationsCommand),
    /// Manage how the secrets of endpoints are sealed in the database
    #[command(subcommand, after_help = "Example:\n  posthaste secrets reseal")]
    Secrets(SecretsCommand),
    /// Print a shell script that completes commands and flags
    #[command(after_help = "Examples:\n  source <(posthaste completions bash)\n  \
                            posthaste completions zsh > ~/.zfunc/_posthaste\n  \
                            posthaste completions fish > ~/.config/fish/completions/posthaste.fish")]
    Completions(CompletionsArgs),
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Serve API and dashboard only; workers run in other processes
    #[arg(long)]
    pub(crate) no_worker: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DispatchArgs {
    /// Run one cycle and exit (required; to deliver continuously, run `posthaste worker`)
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Print the checks that a server makes of itself [default: the one at the configured listen address, if it answers]
    /// [env: POSTHASTE_SERVER]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "local")]
    server: Option<String>,
    /// Check with the configuration of this shell, also if a server answers
    #[arg(long)]
    pub(crate) local: bool,
    /// API key of a viewer or operator, if the server requires one [env: POSTHASTE_API_KEY]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

impl DoctorArgs {
    /// Returns whether the command line or the environment asks for the checks of a server.
    pub(crate) fn asks_for_server(&self) -> bool {
        self.server.is_some() || (!self.local && self.server_url().is_some())
    }

    /// Returns the URL of the server, if the command line or the environment names one.
    pub(crate) fn server_url(&self) -> Option<String> {
        self.server.clone().filter(|url| !url.is_empty()).or_else(server::server_variable)
    }

    /// Returns the API key from `--key` or, without that flag, from the environment.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.clone().or_else(key_variable)
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OpenapiArgs {
    /// Print the document of the API under /api/v1: applications, endpoints, event types and messages
    #[arg(long)]
    pub(crate) registry: bool,
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
    /// Shell to generate the script for
    #[arg(value_enum)]
    pub(crate) shell: CompletionShell,
}

/// The shells that `posthaste completions` supports.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

impl Cli {
    /// Parses the arguments of this process.
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        // clap prints help and errors while it parses, before the parsed flag is available.
        let no_color = std::env::args_os().any(|argument| argument == "--no-color");
        let choice = if no_color { clap::ColorChoice::Never } else { clap::ColorChoice::Auto };
        let matches = Self::command().color(choice).try_get_matches()?;
        Self::from_arg_matches(&matches)
    }

    /// Returns the command, which is `serve` if none is named.
    pub(crate) fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Serve(ServeArgs::default()))
    }

    /// Returns whether the command opens the database in this process instead of calling a server.
    pub(crate) fn opens_database(&self) -> bool {
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
                    | Command::Secrets(_)
                    | Command::Token(_)
                    | Command::Operations(_)
                    | Command::Destinations(DestinationsCommand::Secret(_))
            ),
        }
    }
}
