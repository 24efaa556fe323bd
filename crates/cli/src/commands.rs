//! One module per command. Each says how it went with its exit code; an error is told to the person by `main`.

mod completions;
mod config;
mod dispatch;
mod dlq;
mod doctor;
mod events;
mod front;
mod given;
mod listen;
mod migrate;
mod openapi;
mod opening;
mod overview;
mod pages;
mod running;
mod secret;
mod send;
mod serve;
mod worker;
mod working;

use std::process::ExitCode;

pub(crate) use given::Given;

use crate::cli::{Cli, Command, ServerArgs, SettingFlags};
use crate::client::{Client, Server};
use crate::terminal::{self, Look};

pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let look = Look::of_stdout(cli.no_color);
    let file = cli.config.clone();
    let given = |flags: &SettingFlags| Given::new(file.clone(), flags);
    let no_color = cli.no_color;
    // What it takes to run, for commands that log what they do.
    let begin = |flags: &SettingFlags| {
        given(flags).load().inspect(|config| running::begin(config, terminal::log_is_coloured(no_color)))
    };
    let client = |args: &ServerArgs| client(args, &given(&SettingFlags::default()));
    match cli.into_command() {
        Command::Serve(args) => serve::run(&args, file.as_deref(), begin(&args.settings)?).await,
        Command::Worker(flags) => worker::run(begin(&flags)?).await,
        Command::Dispatch(args) => {
            dispatch::ensure_once(&args)?;
            dispatch::run(begin(&args.settings)?).await
        }
        Command::Migrate(flags) => migrate::run(given(&flags).load_for_store()?).await,
        Command::Send(args) => send::run(&args, &client(&args.server)?).await,
        Command::Listen(args) => listen::run(&args, look).await,
        Command::Overview(args) => overview::run(args.json, &client(&args.server)?, look).await,
        Command::Dlq(command) => dlq::run(&command, &client(command.server())?, look).await,
        Command::Events(command) => events::run(&command, &client(command.server())?, look).await,
        Command::Doctor(args) => doctor::run(&args, &given(&args.settings), look).await,
        Command::Openapi => openapi::run(),
        Command::Config(args) => config::run(&args, &given(&args.settings), look),
        Command::Secret(flags) => secret::run(given(&flags).load_for_store()?).await,
        Command::Completions(args) => completions::run(args.shell),
    }
}

/// The configuration is looked at only where no server is named: it may be on another machine.
fn client(args: &ServerArgs, given: &Given) -> anyhow::Result<Client> {
    let server = match args.server() {
        Some(url) => Server::parse(&url)?,
        None => Server::listening_at(given.judge()?.listen),
    };
    Ok(Client::new(server, args.key().as_deref())?)
}
