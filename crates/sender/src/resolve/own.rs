//! The resolver that is used unless another is chosen: the hosts file, then DNS.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig};
use hickory_resolver::system_conf::read_system_conf;

use super::client::DnsClient;
use super::hosts::HostsFile;
use super::qualified::qualified;
use super::{LookupError, Resolve, SystemResolver};

/// Asks the name servers in the system's configuration, and nothing blocks a thread. The configuration and the hosts
/// file are read once.
pub struct OwnResolver {
    source: Source,
}

enum Source {
    Dns { hosts: HostsFile, client: Box<DnsClient> },
    System(SystemResolver),
}

impl OwnResolver {
    /// Where the system's configuration names no server that can be asked, the system's resolver is used instead.
    pub fn new() -> Self {
        let source = match read_system_conf() {
            Ok((config, _)) => Source::Dns {
                hosts: HostsFile::of_system(),
                client: Box::new(DnsClient::new(config.name_servers())),
            },
            Err(error) => {
                tracing::warn!(%error, "/etc/resolv.conf cannot be used; the host's resolver looks names up instead");
                Source::System(SystemResolver::new())
            }
        };
        Self { source }
    }

    /// Asks these servers and no others, over UDP and TCP, and not the hosts file.
    pub fn with_servers(servers: &[SocketAddr]) -> Self {
        let servers: Vec<_> = servers.iter().copied().map(server).collect();
        Self { source: Source::Dns { hosts: HostsFile::empty(), client: Box::new(DnsClient::new(&servers)) } }
    }
}

impl Default for OwnResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolve for OwnResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        match &self.source {
            Source::System(resolver) => resolver.lookup(name).await,
            Source::Dns { hosts, client } => {
                let asked = qualified(name)?;
                match hosts.addresses(&asked) {
                    Some(addresses) => Ok(addresses),
                    None => client.lookup(name, &asked).await,
                }
            }
        }
    }
}

fn server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.to_vec())
}
