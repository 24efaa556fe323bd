//! The DNS client: hickory's resolver with our own timeouts and cache.
//!
//! Concurrent lookups of one name share their queries, and a slow name does not delay others. The resolver follows at
//! most eight aliases. The cache keeps only the addresses of a response, because a zone can make whole messages large.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};
use lru::LruCache;

use super::cache::CachedAddresses;
use super::{LookupError, addresses_in};
use crate::deadline::{Deadline, now};
use crate::shortage::{current_shortage, shortage_of};

/// Upper bound of name servers that are queried, the same as in the C library.
const SERVERS_MAX: usize = 3;
/// Timeout of one query, including UDP retransmissions.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of times that an unanswered query is repeated.
const RETRIES_MAX: usize = 1;
/// How much longer the second address family may take once the first has returned addresses.
const SECOND_FAMILY_TIMEOUT: Duration = Duration::from_secs(1);

/// Upper bound of the TTL of cached addresses, so that the sender follows a receiver that moves within minutes.
const CACHE_TTL_MAX: Duration = Duration::from_secs(300);
/// Upper bound of the TTL of a cached negative answer, so that a new name is found soon after it is created.
const CACHE_NEGATIVE_TTL_MAX: Duration = Duration::from_secs(10);
/// Upper bound of cached answers. A name has two, one per address family.
const CACHE_ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(2_048).expect("the number is not zero");
/// Concurrent queries over one TCP connection. Over UDP each query has its own socket.
const TCP_QUERIES_MAX: usize = 1_024;

/// Queries name servers and caches their answers.
pub(super) struct DnsClient {
    /// Queries all servers, the two fastest in parallel.
    all_servers: TokioResolver,
    /// One resolver for each server. Empty if there is only one server.
    single_servers: Vec<TokioResolver>,
    cache: Mutex<LruCache<CacheKey, CachedAddresses>>,
}

type CacheKey = (Name, RecordType);

/// A server's answer to one query. It may contain no addresses.
struct DnsAnswer {
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl DnsClient {
    pub(super) fn new(servers: &[NameServerConfig]) -> Self {
        let servers = &servers[..servers.len().min(SERVERS_MAX)];
        let singly_queried = if servers.len() > 1 { servers } else { &[] };
        Self {
            all_servers: build_resolver(servers.to_vec()),
            single_servers: singly_queried
                .iter()
                .map(|server| build_resolver(vec![server.clone()]))
                .collect(),
            cache: Mutex::new(LruCache::new(CACHE_ENTRIES_MAX)),
        }
    }

    /// Returns the addresses of both families. `name` is the text for error messages.
    ///
    /// If one family fails or times out, returns the addresses of the other. The guard does not check addresses that did
    /// not arrive, but the sender does not dial them either.
    pub(super) async fn lookup(&self, name: &str, qualified: &Name) -> Result<Vec<IpAddr>, LookupError> {
        let v4 = Box::pin(self.lookup_family(qualified, RecordType::A));
        let v6 = Box::pin(self.lookup_family(qualified, RecordType::AAAA));
        let (Either::Left((first, second)) | Either::Right((first, second))) = select(v4, v6).await;
        let second = match &first {
            Ok(found) if !found.is_empty() => Deadline::after(SECOND_FAMILY_TIMEOUT).within(second).await,
            _ => Some(second.await),
        };
        let (mut addresses, mut last_error) = (Vec::new(), None);
        for result in [Some(first), second].into_iter().flatten() {
            match result {
                Ok(found) => addresses.extend(found),
                Err(error) => last_error = Some(error),
            }
        }
        // IPv4 first, whichever family answered first: a caller that tries only one address always tries the same one.
        addresses.sort_by_key(IpAddr::is_ipv6);
        match last_error {
            _ if !addresses.is_empty() => Ok(addresses),
            Some(error) => Err(lookup_error(name, &error)),
            None => Err(LookupError::NoAddress(name.to_owned())),
        }
    }

    /// Returns the addresses of one family, from the cache or from the servers. Does not cache failures.
    async fn lookup_family(&self, name: &Name, family: RecordType) -> Result<Vec<IpAddr>, NetError> {
        let key = (name.clone(), family);
        let cached = self.cache().get(&key).and_then(|cached| cached.get(now()));
        if let Some(addresses) = cached {
            return Ok(addresses);
        }
        let DnsAnswer { addresses, ttl } = self.query(name, family).await?;
        if let Some(cacheable) = CachedAddresses::new(&addresses, ttl, now()) {
            self.cache().put(key, cacheable);
        }
        Ok(addresses)
    }

    /// Queries the servers. hickory returns an error response of one server without trying the others, so after an
    /// error this queries each server separately.
    async fn query(&self, name: &Name, family: RecordType) -> Result<DnsAnswer, NetError> {
        let mut answer = parse_response(self.all_servers.lookup(name.clone(), family).await);
        for server in &self.single_servers {
            match answer {
                Err(NetError::Dns(_) | NetError::Proto(_)) => {
                    answer = parse_response(server.lookup(name.clone(), family).await);
                }
                _ => break,
            }
        }
        answer
    }

    fn cache(&self) -> MutexGuard<'_, LruCache<CacheKey, CachedAddresses>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds a resolver without the domain and search list of the system's configuration.
fn build_resolver(servers: Vec<NameServerConfig>) -> TokioResolver {
    let config = ResolverConfig::from_name_servers(servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = resolver_options();
    builder.build().expect("only TLS to name servers could fail, and none is configured")
}

fn resolver_options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = RETRIES_MAX;
    // hickory's cache would keep whole messages.
    options.cache_size = 0;
    options.max_active_requests = TCP_QUERIES_MAX;
    // Aliases stay in the response, so that the TTL of an alias also bounds how long its addresses are cached.
    options.preserve_intermediates = true;
    // A forwarder that responds in lower case would make hickory repeat each query over TCP.
    options.case_randomization = false;
    // Our own hosts file lookup runs first; hickory's would look at one address family at a time.
    options.use_hosts_file = ResolveHosts::Never;
    options
}

/// Converts hickory's result. A response without records is an answer without addresses.
fn parse_response(response: Result<Lookup, NetError>) -> Result<DnsAnswer, NetError> {
    match response {
        Ok(lookup) => {
            let ttl = lookup.answers().iter().map(|record| record.ttl).min();
            Ok(DnsAnswer { addresses: addresses_in(&lookup).collect(), ttl: cap_ttl(ttl, CACHE_TTL_MAX) })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            Ok(DnsAnswer { addresses: Vec::new(), ttl: cap_ttl(none.negative_ttl, CACHE_NEGATIVE_TTL_MAX) })
        }
        Err(error) => Err(error),
    }
}

/// Caps a TTL. A missing TTL counts as zero: without one, an answer may not be cached.
fn cap_ttl(ttl: Option<u32>, max: Duration) -> Duration {
    Duration::from_secs(ttl.unwrap_or(0).into()).min(max)
}

fn lookup_error(name: &str, error: &NetError) -> LookupError {
    let shortage = match error {
        NetError::Io(error) => shortage_of(error),
        // hickory reports this instead of the error of the last socket that it could not open.
        NetError::NoConnections => current_shortage(),
        _ => None,
    };
    shortage.map_or_else(|| LookupError::failed(name, describe(error)), LookupError::Shortage)
}

fn describe(error: &NetError) -> &'static str {
    match error {
        NetError::Timeout => "the name servers do not answer",
        NetError::Io(_) | NetError::NoConnections => "the name servers cannot be reached",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)) => "the name server failed",
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => "the name server refused",
        NetError::Busy => "too many names are being looked up",
        NetError::Truncated => "the response was truncated",
        _ => "the name server's response is invalid",
    }
}
