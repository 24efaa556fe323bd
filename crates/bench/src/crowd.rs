//! The crowds: receivers that must not delay the deliveries to healthy ones.

use std::time::Duration;

use crate::scale::Scale;
use crate::sink::{Behaviour, Sink};

/// A crowd of events beside the traffic to healthy receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// One destination that hangs, with a million due events.
    HangOne,
    /// Hosts that hang, with 200 events each.
    HangHosts(usize),
    /// One host that hangs, under 600 URLs.
    HangUrls,
    /// One host that responds 500 at once, with a million due events.
    Fail,
    /// 10,000 destinations with one event each.
    Singles,
    /// 520 events of 256 KB over a link of 6 MB/s to PostgreSQL.
    LargePayloads,
}

/// The group of a crowd's destinations at the sink.
pub(crate) const GROUP: &str = "crowd";

const EVENTS_PER_HOST: usize = 200;
const EVENTS_PER_URL: usize = 20;

/// The events of a crowd.
pub(crate) struct CrowdEvents {
    pub(crate) urls: Vec<String>,
    pub(crate) count: usize,
    pub(crate) payload_bytes: usize,
}

impl Crowd {
    pub(crate) const ALL: [Self; 8] = [
        Self::HangOne,
        Self::HangHosts(40),
        Self::HangHosts(200),
        Self::HangHosts(1_000),
        Self::HangUrls,
        Self::Fail,
        Self::Singles,
        Self::LargePayloads,
    ];

    /// Returns the crowd of this name.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|crowd| crowd.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("{name:?} is not a crowd: there are {}", names()))
    }

    /// Bytes per second of the link to PostgreSQL, if it is throttled.
    pub(crate) fn link_bytes_per_second(self) -> Option<f64> {
        (self == Self::LargePayloads).then_some(6e6)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::HangOne => "hang_one".to_owned(),
            Self::HangHosts(hosts) => format!("hang_{hosts}"),
            Self::HangUrls => "hang_urls".to_owned(),
            Self::Fail => "fail".to_owned(),
            Self::Singles => "singles".to_owned(),
            Self::LargePayloads => "large".to_owned(),
        }
    }

    pub(crate) fn title(self) -> String {
        match self {
            Self::HangOne => "one destination that hangs, a million due".to_owned(),
            Self::HangHosts(hosts) => format!("{hosts} hosts that hang, {EVENTS_PER_HOST} due each"),
            Self::HangUrls => "one host that hangs, under 600 URLs".to_owned(),
            Self::Fail => "a host that responds 500 at once, a million due".to_owned(),
            Self::Singles => "10,000 destinations of one event each".to_owned(),
            Self::LargePayloads => "520 events of 256 KB over a link of 6 MB/s".to_owned(),
        }
    }

    /// Describes the progress of the crowd's own events, if its receivers accept them.
    pub(crate) fn progress_title(self) -> Option<&'static str> {
        match self {
            Self::Singles => Some("share of destinations reached"),
            Self::LargePayloads => Some("share of the large events delivered"),
            _ => None,
        }
    }

    /// Returns the key of a figure of this crowd.
    pub(crate) fn figure_key(self, workers: usize, figure: &str) -> String {
        let workers = if workers == 1 { String::new() } else { format!("_{workers}_workers") };
        format!("crowd_{}{workers}_{figure}", self.name())
    }

    /// Returns the events of the crowd.
    pub(crate) fn events(self, sink: &Sink, scale: Scale) -> CrowdEvents {
        let (urls, count): (Vec<String>, usize) = match self {
            Self::HangOne => (vec![sink.url(GROUP, Behaviour::Hang, 0)], scale.count(1_000_000)),
            Self::HangHosts(hosts) => {
                let urls = (0..hosts).map(|host| sink.host_url(host, GROUP, Behaviour::Hang)).collect();
                (urls, hosts * EVENTS_PER_HOST)
            }
            Self::HangUrls => {
                let urls: Vec<_> = (0..600).map(|number| sink.url(GROUP, Behaviour::Hang, number)).collect();
                let count = urls.len() * EVENTS_PER_URL;
                (urls, count)
            }
            Self::Fail => (vec![sink.host_url(0, GROUP, Behaviour::Fail)], scale.count(1_000_000)),
            Self::Singles => {
                let urls: Vec<_> = (0..scale.count(10_000))
                    .map(|number| sink.url(GROUP, Behaviour::Accept, number))
                    .collect();
                let count = urls.len();
                (urls, count)
            }
            Self::LargePayloads => {
                let urls = (0..26)
                    .map(|number| sink.url(GROUP, Behaviour::Delay(Duration::from_millis(20)), number));
                (urls.collect(), 520)
            }
        };
        let payload_bytes = if self == Self::LargePayloads { 256_000 } else { crate::payload::PAYLOAD_BYTES };
        CrowdEvents { urls, count, payload_bytes }
    }
}
