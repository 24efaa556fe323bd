//! One case: a destination under a setting, and what must become of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use posthaste_domain::{DestinationUrl, ErrorClass, Outcome};
use posthaste_sender::HttpSender;

use crate::stage::{Canaries, Script, send, sender};

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The value of `ALLOW_PRIVATE_NETWORKS`.
    pub(crate) allowed: String,
    /// With `{port}` where the canaries listen.
    pub(crate) url: String,
    pub(crate) entry: Entry,
    /// The name that the script knows, and its answer.
    pub(crate) answer: Option<(String, Vec<IpAddr>)>,
    pub(crate) end: End,
}

/// How a URL comes into the sender's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Judged and normalised, as every event's is.
    Accepted,
    /// Written into a store by other hands.
    Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The guard refuses the address.
    Blocked,
    /// It is no destination: not accepted, and not sent if it is in a store all the same.
    NoDestination,
}

impl Case {
    /// Blocked although nothing but the public internet is asked for.
    pub(crate) fn blocked(url: impl Into<String>) -> Self {
        let (allowed, url) = ("false".to_owned(), url.into());
        Self { allowed, url, entry: Entry::Accepted, answer: None, end: End::Blocked }
    }

    /// A name that resolves to these addresses.
    pub(crate) fn answered(name: &str, addresses: Vec<IpAddr>) -> Self {
        let answer = Some((name.to_owned(), addresses));
        Self { answer, ..Self::blocked(format!("http://{name}:{{port}}/hook")) }
    }

    pub(crate) fn under(self, allowed: &str) -> Self {
        Self { allowed: allowed.to_owned(), ..self }
    }

    pub(crate) fn stored(self) -> Self {
        Self { entry: Entry::Stored, ..self }
    }

    pub(crate) fn url(&self, port: u16) -> String {
        self.url.replace("{port}", &port.to_string())
    }

    async fn play(&self, sender: &HttpSender, port: u16) {
        let url = self.url(port);
        let accepted = DestinationUrl::parse(&url);
        let url = match self.entry {
            Entry::Stored => DestinationUrl::stored(url),
            Entry::Accepted => match (accepted, self.end) {
                (Err(_), End::NoDestination) => return,
                (Ok(url), End::Blocked) => url,
                (accepted, _) => panic!("{self}: acceptance gave {accepted:?}"),
            },
        };
        let outcome = send(sender, url).await;
        match self.end {
            End::Blocked => assert_blocked(&outcome, self),
            End::NoDestination => {
                assert_eq!(outcome.error_class(), Some(ErrorClass::Unsendable), "{self}: {outcome:?}");
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Some((_, addresses)) => write!(f, "a name that resolves to {addresses:?}")?,
            None => write!(f, "{:?}, {:?}", self.url, self.entry)?,
        }
        write!(f, ", with {} allowed", self.allowed)
    }
}

/// The guard refused, and says so without giving the address away.
pub(crate) fn assert_blocked(outcome: &Outcome, case: &dyn fmt::Display) {
    assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{case}: {outcome:?}");
    let text = outcome.last_error().unwrap();
    assert!(text.contains("allow_private_networks"), "{case}: no way out in {text:?}");
    let words = text.split(|c: char| c.is_whitespace() || "();,[]".contains(c));
    let mut shown = words.filter(|word| word.parse::<IpAddr>().is_ok());
    assert_eq!(shown.next(), None, "{case}: an address is shown in {text:?}");
}

/// Plays all cases side by side; not one may be heard of by the canaries.
pub(crate) async fn play(cases: Vec<Case>) {
    let canaries = Canaries::listen().await;
    let script = Arc::new(Script::default());
    let mut senders = BTreeMap::new();
    for case in &cases {
        if let Some((name, addresses)) = &case.answer {
            script.tell(name, [addresses.clone()]);
        }
        senders.entry(&case.allowed).or_insert_with(|| sender(&case.allowed, script.clone()));
    }
    join_all(cases.iter().map(|case| case.play(&senders[&case.allowed], canaries.port))).await;
    assert_eq!(canaries.connections().await, 0, "a canary was dialled");
}
