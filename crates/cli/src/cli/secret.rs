//! Arguments of `posthaste secret` and its subcommands.

use std::time::Duration;

use clap::{Args, Subcommand};
use posthaste::GracePeriod;

use super::SettingFlags;
use super::settings::show_only_store_settings;

#[derive(Debug, Clone, Args)]
pub(crate) struct SecretArgs {
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
    #[command(subcommand)]
    pub(crate) command: Option<SecretCommand>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SecretCommand {
    /// List the valid secrets, shortened, with the time at which each retires
    #[command(after_help = "Example:\n  posthaste secret list", mut_args(show_only_store_settings))]
    List(SecretListArgs),
    /// Add a new secret and print it; the one before it stays valid for a grace period
    ///
    /// Deliveries carry a signature for each valid secret, so receivers can switch at any time within the grace period.
    /// Running workers need no restart: the command waits until all sign with the new secret, then prints it.
    #[command(
        after_help = "Examples:\n  posthaste secret rotate\n  posthaste secret rotate --grace 604800",
        mut_args(show_only_store_settings)
    )]
    Rotate(SecretRotateArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SecretListArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SecretRotateArgs {
    /// How long the secret before the new one stays valid, 60 to 31536000 [default: 86400, a day]
    #[arg(long, value_name = "SECONDS", value_parser = parse_grace)]
    pub(crate) grace: Option<GracePeriod>,
    /// Print the new secret and the times as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

impl SecretArgs {
    /// Returns the settings that the command line sets, before or after the subcommand.
    pub(crate) fn settings(&self) -> SettingFlags {
        let of_command = match &self.command {
            None => SettingFlags::default(),
            Some(SecretCommand::List(args)) => args.settings.clone(),
            Some(SecretCommand::Rotate(args)) => args.settings.clone(),
        };
        self.settings.clone().overridden_by(of_command)
    }
}

fn parse_grace(text: &str) -> Result<GracePeriod, String> {
    let seconds = text.parse().map_err(|_| "it must be a whole number of seconds".to_owned())?;
    GracePeriod::new(Duration::from_secs(seconds)).map_err(|error| error.to_string())
}
