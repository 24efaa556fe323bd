//! The DNS client: its timeouts and its cache are ours.
//!
//! Lookups of one name at one time share their questions, and a slow name does not hold up others. A chain of aliases
//! ends after eight. Of an answer only the addresses are kept: whole messages would be as large as a zone makes them.

use std::net::IpAddr;
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

use super::recent::{Answer, Recent};
use super::{LookupError, addresses_in};
use crate::deadline::{Deadline, now};

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
/// Answers, of which a name has two.
const CACHE_SIZE: usize = 2_048;
/// Questions at once over one TCP connection; over UDP each has a socket of its own.
const TCP_QUESTIONS_MAX: usize = 1_024;

pub(super) struct DnsClient {
    /// Asks two servers at once, the quickest ones.
    all: TokioResolver,
    /// Where there are several: one for each server.
    each: Vec<TokioResolver>,
    cache: Mutex<Recent<Question, Answer>>,
}

type Question = (Name, RecordType);

/// What servers say to one question, and for how long they stand by it.
struct Found {
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl DnsClient {
    pub(super) fn new(servers: &[NameServerConfig]) -> Self {
        let servers = &servers[..servers.len().min(SERVERS_MAX)];
        let each = if servers.len() > 1 { servers } else { &[] };
        Self {
            all: resolver(servers.to_vec()),
            each: each.iter().map(|server| resolver(vec![server.clone()])).collect(),
            cache: Mutex::new(Recent::new(CACHE_SIZE)),
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

    /// From the cache, or from the servers. A failure is not remembered.
    async fn family(&self, name: &Name, family: RecordType) -> Result<Vec<IpAddr>, NetError> {
        let question = (name.clone(), family);
        let remembered = self.cache().get(&question).and_then(|answer| answer.addresses(now()));
        if let Some(addresses) = remembered {
            return Ok(addresses);
        }
        let Found { addresses, ttl } = self.ask(name, family).await?;
        if let Some(answer) = Answer::worth_keeping(&addresses, ttl, now()) {
            self.cache().put(question, answer);
        }
        Ok(addresses)
    }

    /// A server that says it failed is believed at once, although another may know better: so each is asked by itself.
    async fn ask(&self, name: &Name, family: RecordType) -> Result<Found, NetError> {
        let mut answer = found(self.all.lookup(name.clone(), family).await);
        for server in &self.each {
            match answer {
                Err(NetError::Dns(_) | NetError::Proto(_)) => {
                    answer = found(server.lookup(name.clone(), family).await);
                }
                _ => break,
            }
        }
        answer
    }

    fn cache(&self) -> MutexGuard<'_, Recent<Question, Answer>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
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
    // It would keep whole messages.
    options.cache_size = 0;
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
fn found(answer: Result<Lookup, NetError>) -> Result<Found, NetError> {
    match answer {
        Ok(lookup) => {
            let ttl = lookup.answers().iter().map(|record| record.ttl).min();
            Ok(Found { addresses: addresses_in(&lookup).collect(), ttl: bounded(ttl, CACHE_TTL_MAX) })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            Ok(Found { addresses: Vec::new(), ttl: bounded(none.negative_ttl, CACHE_NEGATIVE_TTL_MAX) })
        }
        Err(error) => Err(error),
    }
}

/// Who does not say for how long does not say that it may be kept.
fn bounded(ttl: Option<u32>, max: Duration) -> Duration {
    Duration::from_secs(ttl.unwrap_or(0).into()).min(max)
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
