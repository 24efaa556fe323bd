//! The first event of whoever has just started it: commands that send one and receive it, on this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use posthaste::sender::AddressGuard;
use posthaste_config::{Config, DatabaseUrl, Source};

use crate::cli::ServeArgs;
use crate::client::Server;
use crate::commands::opening;
use crate::terminal::quoted;

/// Where `posthaste listen` listens unless told otherwise.
const RECEIVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8700);

pub(super) struct FirstEvent {
    /// Where the receiver is to be started.
    pub(super) place: &'static str,
    pub(super) listen: String,
    /// Its arguments.
    pub(super) curl: Vec<String>,
}

impl FirstEvent {
    /// None where what is sent would not arrive: a worker must be here, and dial this machine by itself.
    pub(super) fn of(
        args: &ServeArgs,
        file: Option<&Path>,
        config: &Config,
        server: &Server,
    ) -> Option<Self> {
        let dialled = AddressGuard::new(config.allowed_networks.clone()).permit(RECEIVER).is_ok();
        let arrives = !args.no_worker && dialled && config.egress_proxy.is_none();
        arrives.then(|| Self {
            place: place(config),
            listen: listen(args, file, config),
            curl: curl(config, server),
        })
    }
}

/// What `posthaste secret` reads must be what this process reads.
fn place(config: &Config) -> &'static str {
    let by_environment = |name| matches!(source(config, name), Some(Source::Environment(_)));
    if by_environment("database_url") || by_environment("signing_secret") {
        "in this directory, with this environment"
    } else {
        "in this directory"
    }
}

fn listen(args: &ServeArgs, file: Option<&Path>, config: &Config) -> String {
    if let Some(Source::Flag(_)) = source(config, "signing_secret") {
        return "posthaste listen --secret YOUR_SIGNING_SECRET".to_owned();
    }
    let mut secret = "posthaste secret".to_owned();
    if let Some(file) = file {
        secret.push_str(&format!(" --config {}", quoted(&file.to_string_lossy())));
    }
    if let Some((_, url)) = args.settings.given().find(|(name, _)| *name == "database_url") {
        // What is not shown as it was given has a password in it.
        let is_open = matches!(config.database, DatabaseUrl::Sqlite(_)) || opening::place(config) == url;
        let url = if is_open { quoted(url) } else { "YOUR_DATABASE_URL".to_owned() };
        secret.push_str(&format!(" --database-url {url}"));
    }
    format!("posthaste listen --secret \"$({secret})\"")
}

fn curl(config: &Config, server: &Server) -> Vec<String> {
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
