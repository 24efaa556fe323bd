//! The DNS client: its timeouts and its cache are ours.
//!
//! Lookups of one name at one time share their questions, and a slow name does not hold up others. A chain of aliases
//! ends after eight.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::{Either, select};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};

use super::{LookupError, addresses_in};
use crate::deadline::Deadline;

/// Name servers that are asked, as many as the C library asks.
const SERVERS_MAX: usize = 3;
/// How long one question may take, with the retransmissions that UDP needs.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a question is asked again that was not answered.
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

pub(super) struct DnsClient {
    /// Asks two servers at once, the quickest ones.
    all: TokioResolver,
    /// Where there are several: one for each server.
    each: Vec<TokioResolver>,
}

impl DnsClient {
    pub(super) fn new(servers: &[NameServerConfig]) -> Self {
        let servers = &servers[..servers.len().min(SERVERS_MAX)];
        let each = if servers.len() > 1 { servers } else { &[] };
        Self {
            all: resolver(servers.to_vec()),
            each: each.iter().map(|server| resolver(vec![server.clone()])).collect(),
        }
    }

    /// All addresses that arrive, so that all can be judged. A family that fails does not lose the other's addresses,
    /// and one that dawdles does not hold them up: what has not arrived is not dialled either.
    pub(super) async fn lookup(&self, name: &str, asked: &Name) -> Result<Vec<IpAddr>, LookupError> {
        let v4 = Box::pin(self.family(asked, RecordType::A));
        let v6 = Box::pin(self.family(asked, RecordType::AAAA));
        let (Either::Left((first, second)) | Either::Right((first, second))) = select(v4, v6).await;
        let second = match &first {
            Ok(found) if !found.is_empty() => Deadline::after(SECOND_FAMILY_TIMEOUT).within(second).await,
            _ => Some(second.await),
        };
        let (mut addresses, mut failed) = (Vec::new(), None);
        for family in [Some(first), second].into_iter().flatten() {
            match family {
                Ok(found) => addresses.extend(found),
                Err(error) => failed = Some(error),
            }
        }
        // Whichever family was quicker: where only one address is tried, it is always the same one.
        addresses.sort_by_key(IpAddr::is_ipv6);
        match failed {
            _ if !addresses.is_empty() => Ok(addresses),
            Some(error) => Err(LookupError::failed(name, in_words(&error))),
            None => Err(LookupError::NoAddress(name.to_owned())),
        }
    }

    /// A server that says it failed is believed at once, although another may know better: so each is asked by itself.
    async fn family(&self, name: &Name, family: RecordType) -> Result<Vec<IpAddr>, NetError> {
        let mut answer = addresses(self.all.lookup(name.clone(), family).await);
        for server in &self.each {
            match answer {
                Err(NetError::Dns(_) | NetError::Proto(_)) => {
                    answer = addresses(server.lookup(name.clone(), family).await);
                }
                _ => break,
            }
        }
        answer
    }
}

/// Without the domain and the search list of the system's configuration.
fn resolver(servers: Vec<NameServerConfig>) -> TokioResolver {
    let config = ResolverConfig::from_name_servers(servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options();
    builder.build().expect("only TLS to name servers could fail to be set up")
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
    // Ours comes first; this one knows each family by itself.
    options.use_hosts_file = ResolveHosts::Never;
    options
}

/// That there are no records is an answer, and an empty one.
fn addresses(answer: Result<Lookup, NetError>) -> Result<Vec<IpAddr>, NetError> {
    match answer {
        Ok(lookup) => Ok(addresses_in(&lookup).collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn in_words(error: &NetError) -> &'static str {
    match error {
        NetError::Timeout => "the name servers do not answer",
        NetError::Io(_) | NetError::NoConnections => "the name servers cannot be reached",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)) => "the name server failed",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => "the name server refused",
        NetError::Busy => "too many names are being looked up",
        NetError::Truncated => "the answer does not arrive whole",
        _ => "the name server's answer cannot be used",
    }
}
