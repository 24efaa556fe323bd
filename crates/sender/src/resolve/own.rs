//! Our own DNS client: its timeouts and its cache are ours, and no lookup blocks a thread.
//!
//! Lookups of one name share one question, and slow names do not hold up others. A chain of aliases ends after eight.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::read_system_conf;

use super::hosts::{self, HostsFile};
use super::qualified::qualified;
use super::{LookupError, Resolve, SystemResolver};
use crate::deadline::Deadline;

/// How long one question may take, with the retransmissions that UDP needs.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions after the first one failed, other than by an answer.
const REPEATS_MAX: usize = 1;
/// How much longer the second family may take once the first has given addresses.
const SECOND_FAMILY_TIMEOUT: Duration = Duration::from_secs(1);

/// A receiver that moves is found again within minutes, whatever its zone promises.
const CACHE_TTL_MAX: Duration = Duration::from_secs(300);
/// A name that comes into being is found soon.
const CACHE_NEGATIVE_TTL_MAX: Duration = Duration::from_secs(10);
/// Answers, of which a name has two. Each is at most 64 KiB long, and typically 200 bytes.
const CACHE_SIZE: u64 = 2_048;
/// Questions at once over one TCP connection; over UDP each has a socket of its own.
const TCP_QUESTIONS_MAX: usize = 1_024;

/// Asks the name servers in the system's configuration. The hosts file is read once.
pub struct OwnResolver {
    source: Source,
}

enum Source {
    Dns { resolver: TokioResolver, hosts: HostsFile },
    System(SystemResolver),
}

impl OwnResolver {
    /// Where the system's configuration names no server that can be asked, the system's resolver is used instead.
    pub fn new() -> Self {
        let built = read_system_conf().and_then(|(config, _)| resolver(config.name_servers().to_vec()));
        let source = match built {
            Ok(resolver) => Source::Dns { resolver, hosts: HostsFile::of_system() },
            Err(error) => {
                tracing::warn!(%error, "/etc/resolv.conf cannot be used; names are looked up by the host's resolver");
                Source::System(SystemResolver::new())
            }
        };
        Self { source }
    }

    /// Asks these servers and no others, over UDP and TCP, and not the hosts file.
    pub fn with_servers(servers: &[SocketAddr]) -> Self {
        let servers = servers.iter().map(|server| {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
            NameServerConfig::new(server.ip(), true, connections.to_vec())
        });
        let resolver = resolver(servers.collect()).expect("nothing is read that could be missing");
        Self { source: Source::Dns { resolver, hosts: HostsFile::empty() } }
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
            Source::Dns { resolver, hosts } => {
                let asked = qualified(name)?;
                if let Some(addresses) = hosts.addresses(&asked) {
                    return Ok(addresses);
                }
                match both_families(resolver, &asked).await {
                    Ok(addresses) if addresses.is_empty() => Err(LookupError::NoAddress(name.to_owned())),
                    Ok(addresses) => Ok(addresses),
                    Err(error) => Err(classified(name, &error)),
                }
            }
        }
    }
}

fn resolver(servers: Vec<NameServerConfig>) -> Result<TokioResolver, NetError> {
    // Without the domain and the search list of the system's configuration.
    let config = ResolverConfig::from_name_servers(servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options();
    builder.build()
}

fn options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = QUESTION_TIMEOUT;
    options.attempts = REPEATS_MAX;
    options.cache_size = CACHE_SIZE;
    options.positive_max_ttl = Some(CACHE_TTL_MAX);
    options.negative_max_ttl = Some(CACHE_NEGATIVE_TTL_MAX);
    options.max_active_requests = TCP_QUESTIONS_MAX;
    // Aliases stay in the answer, so that an answer is kept no longer than the alias that led to it.
    options.preserve_intermediates = true;
    // A forwarder that answers in lower case would have to be asked again over TCP, each time.
    options.case_randomization = false;
    // Ours is consulted before; this one knows each family by itself.
    options.use_hosts_file = ResolveHosts::Never;
    options
}

/// All addresses that arrive, so that all can be judged. A family that fails does not lose the other's addresses, and
/// one that dawdles does not hold them up: what has not arrived is not dialled either.
async fn both_families(resolver: &TokioResolver, name: &Name) -> Result<Vec<IpAddr>, NetError> {
    let v4 = Box::pin(resolver.lookup(name.clone(), RecordType::A));
    let v6 = Box::pin(resolver.lookup(name.clone(), RecordType::AAAA));
    let (first, second) = match select(v4, v6).await {
        Either::Left((first, second)) | Either::Right((first, second)) => (first, second),
    };
    let first = family(first);
    let second = match &first {
        Ok(found) if !found.is_empty() => Deadline::after(SECOND_FAMILY_TIMEOUT).within(second).await,
        _ => Some(second.await),
    };
    let (mut addresses, mut failed) = (Vec::new(), None);
    for answer in [Some(first), second.map(family)].into_iter().flatten() {
        match answer {
            Ok(found) => addresses.extend(found),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

/// That there are no records is an answer, and an empty one.
fn family(answer: Result<Lookup, NetError>) -> Result<Vec<IpAddr>, NetError> {
    match answer {
        Ok(lookup) => Ok(hosts::addresses(&lookup).collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn classified(name: &str, error: &NetError) -> LookupError {
    let reason = match error {
        NetError::Timeout => "the name servers do not answer",
        NetError::Io(_) | NetError::NoConnections => "the name servers cannot be reached",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)) => "the name server failed",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => "the name server refused",
        NetError::Busy => "too many names are being looked up",
        NetError::Truncated => "the answer does not arrive whole",
        _ => "the name server's answer cannot be used",
    };
    LookupError::failed(name, reason)
}
