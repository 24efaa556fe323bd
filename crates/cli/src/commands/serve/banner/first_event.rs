//! The commands of the banner: a receiver on this machine, and a request that sends a first event to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use posthaste::domain::DestinationUrl;
use posthaste::sender::AddressGuard;
use posthaste_config::{Config, DatabaseUrl, Source};

use crate::cli::ServeArgs;
use crate::client::ServerUrl;
use crate::commands::open;
use crate::terminal::shell_quote;

/// Address of the suggested receiver: the default of `posthaste listen`.
const RECEIVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8700);

/// The two commands that the banner suggests: one runs a receiver, the other sends it a first event.
pub(super) struct FirstEventCommands {
    /// Where to run the receiver: its directory and environment.
    pub(super) location: &'static str,
    /// The command that runs the receiver.
    pub(super) listen: String,
    /// The arguments of `curl` that send the event.
    pub(super) curl: Vec<String>,
}

impl FirstEventCommands {
    /// Returns the commands, or None if the event would not arrive: this process must have a worker, which may dial
    /// loopback and uses no proxy.
    pub(super) fn new(
        args: &ServeArgs,
        file: Option<&Path>,
        config: &Config,
        server: &ServerUrl,
    ) -> Option<Self> {
        let is_permitted = is_receiver_permitted(config);
        let arrives = !args.no_worker && is_permitted && config.egress_proxy.is_none();
        arrives.then(|| Self {
            location: receiver_location(config),
            listen: listen_command(args, file, config),
            curl: curl_arguments(config, server),
        })
    }
}

/// Returns whether the address guard lets events to the receiver through.
fn is_receiver_permitted(config: &Config) -> bool {
    let receiver = DestinationUrl::parse(&format!("http://{RECEIVER}/"));
    receiver.is_ok_and(|url| AddressGuard::new(&config.sender_options()).check_destination(&url).is_ok())
}

/// Returns where to run the receiver, in words. Mentions the environment if it sets the database or the secret, because
/// `posthaste secret` must print the secret of this process.
fn receiver_location(config: &Config) -> &'static str {
    let is_from_environment = |name| matches!(source(config, name), Some(Source::Environment(_)));
    if ["database_url", "database_schema", "signing_secret"].into_iter().any(is_from_environment) {
        "in this directory, with this environment"
    } else {
        "in this directory"
    }
}

/// Returns the command of the receiver, with the flags of this process that determine the secret.
fn listen_command(args: &ServeArgs, file: Option<&Path>, config: &Config) -> String {
    if let Some(Source::Flag(_)) = source(config, "signing_secret") {
        return "posthaste listen --secret-file FILE_WITH_YOUR_SIGNING_SECRET".to_owned();
    }
    let mut secret = "posthaste secret".to_owned();
    if let Some(file) = file {
        secret.push_str(&format!(" --config {}", shell_quote(&file.to_string_lossy())));
    }
    if let Some((_, url)) = args.settings.iter().find(|(name, _)| *name == "database_url") {
        // A URL that differs from its masked form contains a password.
        let is_public =
            matches!(config.database_url, DatabaseUrl::Sqlite(_)) || open::masked_url(config) == url;
        let url = if is_public { shell_quote(url) } else { "YOUR_DATABASE_URL".to_owned() };
        secret.push_str(&format!(" --database-url {url}"));
    }
    if let Some((_, schema)) = args.settings.iter().find(|(name, _)| *name == "database_schema") {
        secret.push_str(&format!(" --database-schema {schema}"));
    }
    format!("{secret} | posthaste listen --secret-file -")
}

fn curl_arguments(config: &Config, server: &ServerUrl) -> Vec<String> {
    let key = config.api_keys.as_ref().map(|_| "-H 'authorization: Bearer YOUR_KEY'".to_owned());
    let event = format!(
        r#"{{"destination_url": "http://{RECEIVER}/", "event_type": "invoice.paid", "payload": {{"invoice": 17}}}}"#
    );
    [format!("{server}/v1/webhook-outbox/events"), "-H 'content-type: application/json'".to_owned()]
        .into_iter()
        .chain(key)
        .chain([format!("-d '{event}'")])
        .collect()
}

fn source<'a>(config: &'a Config, name: &str) -> Option<&'a Source> {
    config.setting(name).map(|effective| &effective.source)
}
