//! The default resolver: the hosts file, then DNS.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig};
use hickory_resolver::system_conf::read_system_conf;

use super::dns_client::DnsClient;
use super::hosts::HostsFile;
use super::{LookupError, Resolver, SystemResolver, parse_host_name};

/// Queries the name servers in the system's configuration, without blocking a thread. It reads the configuration and the
/// hosts file once.
pub struct DnsResolver {
    source: Source,
}

/// The source of addresses: DNS, or the host's resolver as the fallback.
enum Source {
    Dns { hosts: HostsFile, client: Box<DnsClient> },
    System(SystemResolver),
}

impl DnsResolver {
    /// Creates a resolver from the system's configuration. If that names no usable server, falls back to the
    /// [`SystemResolver`].
    pub fn new() -> Self {
        let source = match read_system_conf() {
            Ok((config, _)) => Source::Dns {
                hosts: HostsFile::from_system(),
                client: Box::new(DnsClient::new(config.name_servers())),
            },
            Err(error) => {
                tracing::warn!(%error, "/etc/resolv.conf cannot be used; falling back to the host's resolver");
                Source::System(SystemResolver::new())
            }
        };
        Self { source }
    }

    /// Creates a resolver that queries only these servers, over UDP and TCP, and does not read the hosts file.
    pub fn with_servers(servers: &[SocketAddr]) -> Self {
        let servers: Vec<_> = servers.iter().copied().map(server_config).collect();
        Self { source: Source::Dns { hosts: HostsFile::empty(), client: Box::new(DnsClient::new(&servers)) } }
    }
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolver for DnsResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        match &self.source {
            Source::System(resolver) => resolver.lookup(name).await,
            Source::Dns { hosts, client } => {
                let qualified = parse_host_name(name)?;
                match hosts.addresses(&qualified) {
                    Some(addresses) => Ok(addresses),
                    None => client.lookup(name, &qualified).await,
                }
            }
        }
    }
}

fn server_config(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.to_vec())
}
