//! Arguments of the commands of the registry that open the database: `token`, `secrets`, `operations` and
//! `destinations secret`.

use std::time::Duration;

use clap::{Args, Subcommand};
use posthaste::store::KeyGrace;

use super::SettingFlags;
use super::settings::show_only_store_settings;

#[derive(Debug, Clone, Args)]
pub(crate) struct TokenArgs {
    /// Id or uid of the application to which the token is bound [default: none; the token has the whole organisation]
    #[arg(long, value_name = "ID")]
    pub(crate) app: Option<String>,
    /// Organisation of the token
    #[arg(long, value_name = "ORG", default_value = "org_default")]
    pub(crate) org: String,
    /// How long the token is valid, 60 to 315360000 [default: 2419200, 28 days]
    #[arg(long, value_name = "SECONDS", default_value_t = 2_419_200, hide_default_value = true,
          value_parser = clap::value_parser!(u64).range(60..=315_360_000))]
    pub(crate) expires: u64,
    /// Let the bearer only read, and no secrets
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print the token, its subject and its expiry as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Seal every secret of endpoints again under the first of the master keys
    ///
    /// Workers and servers that run need both keys while it runs: put the new key first in master_keys of every process, restart
    /// each, run this command, then remove the old key.
    #[command(after_help = "Example:\n  posthaste secrets reseal", mut_args(show_only_store_settings))]
    Reseal(ResealArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ResealArgs {
    /// Print the counts as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum OperationsCommand {
    /// List the newest background operations with their progress
    #[command(
        after_help = "Example:\n  posthaste operations list --running",
        mut_args(show_only_store_settings)
    )]
    List(OperationsListArgs),
    /// Stop a background operation; the messages that it has sent stay sent
    #[command(
        after_help = "Example:\n  posthaste operations stop qtask_0000000000000001",
        mut_args(show_only_store_settings)
    )]
    Stop(OperationStopArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OperationsListArgs {
    /// List only operations that are running
    #[arg(long)]
    pub(crate) running: bool,
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OperationStopArgs {
    /// Id of the operation, from `posthaste operations list`
    #[arg(value_name = "ID")]
    pub(crate) operation: String,
    /// Print the operation as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

impl OperationsCommand {
    pub(crate) fn settings(&self) -> &SettingFlags {
        match self {
            Self::List(args) => &args.settings,
            Self::Stop(args) => &args.settings,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DestinationSecretArgs {
    /// URL of the destination, as events name it
    pub(crate) url: String,
    /// Give the destination a new secret of its own; the one before it stays valid for a grace period
    #[arg(long)]
    pub(crate) rotate: bool,
    /// How long the secret before the new one stays valid, 0 to 604800 [default: 86400, a day]
    #[arg(long, value_name = "SECONDS", requires = "rotate", value_parser = parse_grace)]
    pub(crate) grace: Option<KeyGrace>,
    /// Sign with an Ed25519 key, of which the receiver gets the public part
    #[arg(long, requires = "rotate")]
    pub(crate) ed25519: bool,
    /// Print the secrets and their times as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

fn parse_grace(text: &str) -> Result<KeyGrace, String> {
    let seconds = text.parse().map_err(|_| "it must be a whole number of seconds".to_owned())?;
    KeyGrace::new(Duration::from_secs(seconds)).map_err(|error| error.to_string())
}
