//! Arguments of `posthaste apps`.

use clap::{Args, Subcommand};

use super::{AppArgs, ItemArgs, PlainListArgs, metadata_pair};
use crate::cli::ServerArgs;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AppsCommand {
    /// List applications, oldest first
    #[command(after_help = "Example:\n  posthaste apps list --all --json | jq -r '.data[].uid'")]
    List(PlainListArgs),
    /// Create an application and print its id
    #[command(after_help = "Examples:\n  posthaste apps add 'Customer 17' --uid customer-17\n  \
                            posthaste apps add Acme --uid acme --throttle 50 --metadata plan=pro")]
    Add(AppAddArgs),
    /// Show an application
    #[command(after_help = "Example:\n  posthaste apps show customer-17")]
    Show(AppArgs),
    /// Change some fields of an application
    #[command(after_help = "Examples:\n  posthaste apps update customer-17 --throttle 100\n  \
                            posthaste apps update customer-17 --no-throttle --name 'Customer 17 (pro)'")]
    Update(AppUpdateArgs),
    /// Delete an application with its endpoints; their pending messages are cancelled
    #[command(after_help = "Example:\n  posthaste apps delete customer-17 --yes")]
    Delete(AppDeleteArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AppAddArgs {
    /// Name of the application, for people
    pub(crate) name: String,
    /// Id of your own for the application, which every command accepts in place of its id
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// Messages per second that all endpoints of the application get together
    #[arg(long, value_name = "N")]
    pub(crate) throttle: Option<u32>,
    /// Text of your own to keep with the application; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata_pair)]
    pub(crate) metadata: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) item: ItemArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AppUpdateArgs {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// New name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// New uid
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// Messages per second that all endpoints of the application get together
    #[arg(long, value_name = "N", conflicts_with = "no_throttle")]
    pub(crate) throttle: Option<u32>,
    /// Remove the limit of messages per second
    #[arg(long)]
    pub(crate) no_throttle: bool,
    /// Replace the metadata by these pairs; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata_pair)]
    pub(crate) metadata: Vec<(String, String)>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AppDeleteArgs {
    #[command(flatten)]
    pub(crate) app: AppArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

impl AppsCommand {
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            Self::List(args) => &args.server,
            Self::Add(args) => &args.item.server,
            Self::Show(args) => &args.item.server,
            Self::Update(args) => &args.app.item.server,
            Self::Delete(args) => &args.app.item.server,
        }
    }
}
