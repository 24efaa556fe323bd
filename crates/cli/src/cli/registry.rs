//! Arguments of the commands for applications, endpoints, event types and messages.

mod apps;
mod endpoints;
mod event_types;
mod messages;

use clap::Args;

pub(crate) use apps::{AppAddArgs, AppDeleteArgs, AppUpdateArgs, AppsCommand};
pub(crate) use endpoints::{
    EndpointAddArgs, EndpointArgs, EndpointDeleteArgs, EndpointFields, EndpointRotateArgs,
    EndpointUpdateArgs, EndpointsCommand, OperationArgs, PeriodArgs, SendExampleArgs,
};
pub(crate) use event_types::{EventTypeAddArgs, EventTypesCommand};
pub(crate) use messages::{MessageArgs, MessagesCommand, MessagesListArgs, PublishArgs, ResendArgs};

use super::{ListArgs, ServerArgs};

/// The arguments that the commands for one resource share.
#[derive(Debug, Clone, Args)]
pub(crate) struct ItemArgs {
    /// Print the server's JSON response unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// The arguments of a list without filters.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlainListArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// An application, and the arguments of a command for it.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppArgs {
    /// Id or uid of the application
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

/// Accepts a pair of metadata, such as `region=eu`.
fn metadata_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}
