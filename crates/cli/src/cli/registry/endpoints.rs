//! Arguments of `posthaste endpoints`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::{AppArgs, ItemArgs, metadata_pair};
use crate::cli::{ListArgs, ServerArgs};

/// The grace periods of a rotation that the API accepts, in seconds.
const GRACE_SECONDS: std::ops::RangeInclusive<i64> = 0..=604_800;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EndpointsCommand {
    /// List the endpoints of an application, newest first
    #[command(after_help = "Example:\n  posthaste endpoints list customer-17")]
    List(EndpointsListArgs),
    /// Add an endpoint to an application and print its id
    #[command(after_help = "Examples:\n  posthaste endpoints add customer-17 https://shop.example/hooks\n  \
                            posthaste endpoints add customer-17 https://shop.example/hooks --type invoice.paid --fifo \
                            --ed25519")]
    Add(EndpointAddArgs),
    /// Show an endpoint
    #[command(after_help = "Example:\n  posthaste endpoints show customer-17 ep_0000000000000011")]
    Show(EndpointArgs),
    /// Change some fields of an endpoint; a new URL also applies to pending messages
    #[command(
        after_help = "Examples:\n  posthaste endpoints update customer-17 billing --url https://shop.example/v2\n  \
                            posthaste endpoints update customer-17 billing --all-types --no-throttle"
    )]
    Update(EndpointUpdateArgs),
    /// Hold the messages of an endpoint, and publish no further ones to it
    #[command(after_help = "Example:\n  posthaste endpoints disable customer-17 billing")]
    Disable(EndpointArgs),
    /// Send the messages that a disabled endpoint has held
    #[command(after_help = "Example:\n  posthaste endpoints enable customer-17 billing")]
    Enable(EndpointArgs),
    /// Delete an endpoint; its pending messages are cancelled
    #[command(after_help = "Example:\n  posthaste endpoints delete customer-17 billing --yes")]
    Delete(EndpointDeleteArgs),
    /// Print the secret, or the public key, with which the receiver verifies requests
    #[command(after_help = "Example:\n  posthaste endpoints secret customer-17 billing")]
    Secret(EndpointArgs),
    /// Replace the secret of an endpoint; the one before it stays valid for a grace period
    #[command(after_help = "Examples:\n  posthaste endpoints rotate customer-17 billing\n  \
                            posthaste endpoints rotate customer-17 billing --grace 604800\n  \
                            posthaste endpoints rotate customer-17 billing --secret-file new-secret")]
    Rotate(EndpointRotateArgs),
    /// Count the messages of an endpoint by state
    #[command(after_help = "Example:\n  posthaste endpoints stats customer-17 billing")]
    Stats(EndpointArgs),
    /// Send an example of an event type to one endpoint
    #[command(
        after_help = "Example:\n  posthaste endpoints send-example customer-17 billing --type invoice.paid \
                            --data '{\"invoice\": 17}'"
    )]
    SendExample(SendExampleArgs),
    /// Send the messages of a period that failed at an endpoint again, in the background
    #[command(
        after_help = "Example:\n  posthaste endpoints recover customer-17 billing --since 2026-01-31T11:00:00Z"
    )]
    Recover(PeriodArgs),
    /// Send the messages of a period that were never published to an endpoint, in the background
    #[command(after_help = "Example:\n  posthaste endpoints replay-missing customer-17 billing \
                            --since 2026-01-31T11:00:00Z --until 2026-01-31T12:00:00Z")]
    ReplayMissing(PeriodArgs),
    /// Show the progress of a background operation that `recover` or `replay-missing` has started
    #[command(after_help = "Example:\n  posthaste endpoints operation qtask_0000000000000001")]
    Operation(OperationArgs),
}

/// An endpoint, and the arguments of a command for it.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Id or uid of the endpoint
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointsListArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// The fields of an endpoint that `add` and `update` set.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointFields {
    /// Id of your own for the endpoint, which every command accepts in place of its id
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// Description, for people
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Send only messages of this registered event type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_types: Vec<String>,
    /// Send only messages on this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub(crate) channels: Vec<String>,
    /// Messages per second that the endpoint gets
    #[arg(long, value_name = "N")]
    pub(crate) throttle: Option<u32>,
    /// Text of your own to keep with the endpoint; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata_pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Send one message at a time, in the order of publishing; a message that fails holds those behind it
    #[arg(long)]
    pub(crate) fifo: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointAddArgs {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// URL that gets the messages
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) fields: EndpointFields,
    /// Add the endpoint disabled
    #[arg(long)]
    pub(crate) disabled: bool,
    /// Sign with an Ed25519 key instead of a shared secret: the receiver gets the public key and cannot sign itself
    #[arg(long, conflicts_with = "secret_file")]
    pub(crate) ed25519: bool,
    /// File with the secret to use, whsec_… or whsk_…; - reads standard input [default: the server generates one]
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// File with headers that every request gets, one `Name: value` per line; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) header_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("order").args(["fifo", "any_order"]))]
pub(crate) struct EndpointUpdateArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// New URL
    #[arg(long)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) fields: EndpointFields,
    /// Send messages of all event types
    #[arg(long, conflicts_with = "event_types")]
    pub(crate) all_types: bool,
    /// Send messages on all channels and on none
    #[arg(long, conflicts_with = "channels")]
    pub(crate) all_channels: bool,
    /// Remove the limit of messages per second
    #[arg(long, conflicts_with = "throttle")]
    pub(crate) no_throttle: bool,
    /// Send messages as they become due, many at once
    #[arg(long)]
    pub(crate) any_order: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointDeleteArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointRotateArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// How long the secret before the new one stays valid, 0 to 604800 [default: 86400, a day]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(GRACE_SECONDS))]
    pub(crate) grace: Option<u32>,
    /// File with the new secret, whsec_… or whsk_…; - reads standard input [default: the server generates one]
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SendExampleArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Event type of the example
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: String,
    /// Payload, as JSON [default: an example of the event type's schema]
    #[arg(long, value_name = "JSON")]
    pub(crate) data: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PeriodArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Begin of the period, as in 2026-01-31T11:00:00Z; at most 14 days before its end
    #[arg(long, value_name = "TIME")]
    pub(crate) since: String,
    /// End of the period [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OperationArgs {
    /// Id of the operation, as `recover` prints it
    #[arg(value_name = "ID")]
    pub(crate) operation: String,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

impl EndpointsCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Add(args) => &args.app.item.server,
            Self::Show(args)
            | Self::Disable(args)
            | Self::Enable(args)
            | Self::Secret(args)
            | Self::Stats(args) => &args.item.server,
            Self::Update(args) => &args.endpoint.item.server,
            Self::Delete(args) => &args.endpoint.item.server,
            Self::Rotate(args) => &args.endpoint.item.server,
            Self::SendExample(args) => &args.endpoint.item.server,
            Self::Recover(args) | Self::ReplayMissing(args) => &args.endpoint.item.server,
            Self::Operation(args) => &args.item.server,
        }
    }
}
