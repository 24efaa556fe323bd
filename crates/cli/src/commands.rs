//! One module per command. A command returns its exit code, or an error that `main` prints.

mod completions;
mod config;
mod config_sources;
mod destinations;
mod dispatch;
mod dlq;
mod doctor;
mod events;
mod http_listener;
mod lifecycle;
mod listen;
mod migrate;
mod open;
mod openapi;
mod operations;
mod overview;
mod pages;
mod registry;
mod secret;
mod secrets;
mod send;
mod serve;
mod spinner;
mod token;
mod worker;
mod workers;

use std::process::ExitCode;

pub(crate) use config_sources::ConfigSources;

use crate::cli::{Cli, Command, SecretsCommand, ServerArgs, SettingFlags};
use crate::client::{ApiClient, ServerUrl};
use crate::terminal::{self, OutputStyle};

/// Runs the command of the command line.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let style = OutputStyle::for_stdout(cli.no_color);
    let file = cli.config.clone();
    let sources = |flags: &SettingFlags| ConfigSources::new(file.clone(), flags);
    let no_color = cli.no_color;
    // For the commands that deliver: they log what they do.
    let load_and_init_log = |flags: &SettingFlags| {
        sources(flags)
            .load()
            .inspect(|config| lifecycle::init_log(config, terminal::log_uses_color(no_color)))
    };
    let client = |args: &ServerArgs| client(args, &sources(&SettingFlags::default()));
    match cli.into_command() {
        Command::Serve(args) => serve::run(&args, file.as_deref(), load_and_init_log(&args.settings)?).await,
        Command::Worker(flags) => worker::run(load_and_init_log(&flags)?).await,
        Command::Dispatch(args) => {
            dispatch::ensure_once(&args)?;
            dispatch::run(load_and_init_log(&args.settings)?).await
        }
        Command::Migrate(flags) => migrate::run(sources(&flags).load_for_store()?).await,
        Command::Send(args) => send::run(&args, &client(&args.server)?).await,
        Command::Listen(args) => listen::run(&args, client, style).await,
        Command::Overview(args) => overview::run(args.json, &client(&args.server)?, style).await,
        Command::Workers(args) => workers::run(args.json, &client(&args.server)?, style).await,
        Command::Dlq(command) => dlq::run(&command, &client(command.server())?, style).await,
        Command::Events(command) => events::run(&command, &client(command.server())?, style).await,
        Command::Destinations(command) => {
            destinations::run(&command, client, |flags| sources(flags).load_for_store(), style).await
        }
        Command::Apps(command) => registry::apps::run(&command, &client(command.server())?, style).await,
        Command::Endpoints(command) => {
            registry::endpoints::run(&command, &client(command.server())?, style).await
        }
        Command::EventTypes(command) => {
            registry::event_types::run(&command, &client(command.server())?, style).await
        }
        Command::Messages(command) => {
            registry::messages::run(&command, &client(command.server())?, style).await
        }
        Command::Token(args) => token::run(&args, sources(&args.settings).load_for_store()?).await,
        Command::Operations(command) => {
            operations::run(&command, sources(command.settings()).load_for_store()?, style).await
        }
        Command::Secrets(SecretsCommand::Reseal(args)) => {
            secrets::reseal(&args, sources(&args.settings).load_for_store()?).await
        }
        Command::Doctor(args) => doctor::run(&args, &sources(&args.settings), style).await,
        Command::Openapi(args) => openapi::run(&args),
        Command::Config(args) => config::run(&args, &sources(&args.settings), style).await,
        Command::Secret(args) => secret::run(&args, sources(&args.settings()).load_for_store()?, style).await,
        Command::Completions(args) => completions::run(args.shell),
    }
}

/// Creates a client of the server that `--server` or its variable names, or else of the server that the configuration
/// describes. A named server may be on another host, so the configuration is then not read.
fn client(args: &ServerArgs, sources: &ConfigSources) -> anyhow::Result<ApiClient> {
    let server = match args.server() {
        Some(url) => ServerUrl::parse(&url)?,
        None => ServerUrl::listening_at(sources.parse()?.listen),
    };
    Ok(ApiClient::new(server, args.key().as_deref())?)
}
