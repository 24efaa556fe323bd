//! Arguments of `posthaste event-types`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ItemArgs;
use crate::cli::{ListArgs, ServerArgs};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EventTypesCommand {
    /// List event types by name
    #[command(after_help = "Example:\n  posthaste event-types list --archived")]
    List(EventTypesListArgs),
    /// Register an event type; an archived one with this name comes back
    #[command(
        after_help = "Examples:\n  posthaste event-types add invoice.paid --description 'An invoice was paid'\n  \
                            posthaste event-types add invoice.paid --schema-file invoice-paid.json"
    )]
    Add(EventTypeAddArgs),
    /// Show an event type
    #[command(after_help = "Example:\n  posthaste event-types show invoice.paid --json | jq .schemas")]
    Show(EventTypeArgs),
    /// Change the description, the group or the schemas of an event type
    #[command(
        after_help = "Example:\n  posthaste event-types update invoice.paid --description 'Paid in full'"
    )]
    Update(EventTypeAddArgs),
    /// Archive an event type: lists hide it, endpoints keep their subscriptions
    #[command(after_help = "Example:\n  posthaste event-types archive invoice.paid")]
    Archive(EventTypeArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventTypesListArgs {
    /// List archived event types too
    #[arg(long)]
    pub(crate) archived: bool,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventTypeArgs {
    /// Name of the event type, such as invoice.paid
    #[arg(value_name = "TYPE")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EventTypeAddArgs {
    #[command(flatten)]
    pub(crate) event_type: EventTypeArgs,
    /// Description, for people
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Name of the group under which it is shown
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Mark the event type as deprecated
    #[arg(long)]
    pub(crate) deprecated: bool,
    /// File with a JSON object of JSON schemas by version
    #[arg(long, value_name = "FILE")]
    pub(crate) schema_file: Option<PathBuf>,
}

impl EventTypesCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Add(args) | Self::Update(args) => &args.event_type.item.server,
            Self::Show(args) | Self::Archive(args) => &args.item.server,
        }
    }
}
