//! One case: a destination, a value of the setting, and the expected result.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use posthaste_domain::{DestinationUrl, ErrorClass, Outcome};
use posthaste_sender::HttpSender;

use crate::harness::{Canaries, ScriptedResolver, send, sender};

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The value of `ALLOW_PRIVATE_NETWORKS`.
    pub(crate) allowed: String,
    /// The destination; `{port}` stands for the port of the canaries.
    pub(crate) url: String,
    pub(crate) source: UrlSource,
    /// A name and the addresses that the resolver returns for it.
    pub(crate) answer: Option<(String, Vec<IpAddr>)>,
    pub(crate) expected: Expected,
}

/// How the sender gets a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UrlSource {
    /// Validated and normalised, as when an event is accepted.
    Accepted,
    /// Written to the store by another program.
    Stored,
}

/// The expected result of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The guard refuses the address.
    Blocked,
    /// The URL is invalid: it is not accepted, and not sent if it is in the store anyway.
    InvalidUrl,
}

impl Case {
    /// A URL that the guard blocks under the setting `false`.
    pub(crate) fn blocked(url: impl Into<String>) -> Self {
        let (allowed, url) = ("false".to_owned(), url.into());
        Self { allowed, url, source: UrlSource::Accepted, answer: None, expected: Expected::Blocked }
    }

    /// A name that resolves to these addresses, which the guard blocks.
    pub(crate) fn blocked_name(name: &str, addresses: Vec<IpAddr>) -> Self {
        let answer = Some((name.to_owned(), addresses));
        Self { answer, ..Self::blocked(format!("http://{name}:{{port}}/hook")) }
    }

    pub(crate) fn with_allowed(self, allowed: &str) -> Self {
        Self { allowed: allowed.to_owned(), ..self }
    }

    pub(crate) fn stored(self) -> Self {
        Self { source: UrlSource::Stored, ..self }
    }

    pub(crate) fn url(&self, port: u16) -> String {
        self.url.replace("{port}", &port.to_string())
    }

    async fn run(&self, sender: &HttpSender, port: u16) {
        let url = self.url(port);
        let accepted = DestinationUrl::parse(&url);
        let url = match self.source {
            UrlSource::Stored => DestinationUrl::from_stored(url),
            UrlSource::Accepted => match (accepted, self.expected) {
                (Err(_), Expected::InvalidUrl) => return,
                (Ok(url), Expected::Blocked) => url,
                (accepted, _) => panic!("{self}: parsing returned {accepted:?}"),
            },
        };
        let outcome = send(sender, url).await;
        match self.expected {
            Expected::Blocked => assert_blocked(&outcome, self),
            Expected::InvalidUrl => {
                assert_eq!(outcome.error_class(), Some(ErrorClass::Unsendable), "{self}: {outcome:?}");
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Some((_, addresses)) => write!(f, "a name that resolves to {addresses:?}")?,
            None => write!(f, "{:?}, {:?}", self.url, self.source)?,
        }
        write!(f, ", with {} allowed", self.allowed)
    }
}

/// Asserts that the guard blocked the attempt, and that its message does not contain the address.
pub(crate) fn assert_blocked(outcome: &Outcome, case: &dyn fmt::Display) {
    assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{case}: {outcome:?}");
    let text = outcome.last_error().unwrap();
    assert!(text.contains("allow_private_networks"), "{case}: {text:?} does not name the setting");
    let words = text.split(|c: char| c.is_whitespace() || "();,[]".contains(c));
    let mut shown = words.filter(|word| word.parse::<IpAddr>().is_ok());
    assert_eq!(shown.next(), None, "{case}: an address is shown in {text:?}");
}

/// Runs all cases concurrently and asserts that no canary was dialled.
pub(crate) async fn run_all(cases: Vec<Case>) {
    let canaries = Canaries::listen().await;
    let resolver = Arc::new(ScriptedResolver::default());
    let mut senders = BTreeMap::new();
    for case in &cases {
        if let Some((name, addresses)) = &case.answer {
            resolver.set_answers(name, [addresses.clone()]);
        }
        senders.entry(&case.allowed).or_insert_with(|| sender(&case.allowed, resolver.clone()));
    }
    join_all(cases.iter().map(|case| case.run(&senders[&case.allowed], canaries.port))).await;
    assert_eq!(canaries.connections().await, 0, "a canary was dialled");
}
