//! Arguments of `posthaste messages`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::ItemArgs;
use crate::cli::{ListArgs, ServerArgs};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List the messages of an application, newest first
    #[command(after_help = "Example:\n  posthaste messages list customer-17 --type invoice.paid")]
    List(MessagesListArgs),
    /// Publish a message to the subscribed endpoints of an application and print its id
    #[command(after_help = "Examples:\n  posthaste messages publish customer-17 --type invoice.paid \
                            --data '{\"invoice\": 17}'\n  \
                            posthaste messages publish customer-17 --type report.ready --file report.json --uid report-17")]
    Publish(PublishArgs),
    /// Show a message, the endpoints that get it, and the attempts so far
    #[command(
        after_help = "Example:\n  posthaste messages show customer-17 msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5"
    )]
    Show(MessageArgs),
    /// Send a message to an endpoint again
    #[command(after_help = "Example:\n  posthaste messages resend customer-17 \
                            msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5 billing")]
    Resend(ResendArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MessagesListArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// List only messages of this event type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// List only messages on this channel
    #[arg(long)]
    pub(crate) channel: Option<String>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("payload").required(true))]
pub(crate) struct PublishArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Event type of the message, such as invoice.paid
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: String,
    /// Payload, as a JSON object
    #[arg(long, value_name = "JSON", group = "payload")]
    pub(crate) data: Option<String>,
    /// File with the payload, as a JSON object; - reads standard input
    #[arg(long, value_name = "FILE", group = "payload")]
    pub(crate) file: Option<PathBuf>,
    /// Id of your own for the message, unique in the application
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// Channel of the message; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub(crate) channels: Vec<String>,
    /// Tag of the message; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Time of the first attempt, as in 2026-01-31T11:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) deliver_at: Option<String>,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MessageArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Id or uid of the message
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: String,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ResendArgs {
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    /// Id or uid of the endpoint
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
}

impl MessagesCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Publish(args) => &args.item.server,
            Self::Show(args) => &args.item.server,
            Self::Resend(args) => &args.message.item.server,
        }
    }
}
