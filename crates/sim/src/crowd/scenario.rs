//! The parameters of a crowd simulation, derived from its seed.

use std::time::Duration;

use posthaste_domain::WorkerId;
use posthaste_engine::Settings;

use crate::random::SeededRandom;

/// How the receivers of a crowd behave until they recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrowdBehavior {
    /// Never answers.
    Hanging,
    /// Answers 200 just before the timeout.
    Crawling,
    /// Answers 500 at once.
    Failing,
    /// Answers 200 promptly, as a healthy receiver does.
    Answering,
}

/// The receivers around the prompt ones.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    pub behavior: CrowdBehavior,
    pub hosts: usize,
    pub urls_per_host: usize,
    pub events_per_url: usize,
    /// Whether the crowd answers promptly at first, so that its windows grow before it hangs, crawls or fails. One host may
    /// then use half of the slots, and several hosts all of them.
    pub answers_first: bool,
}

/// The parameters of one crowd simulation.
#[derive(Debug, Clone)]
pub struct CrowdScenario {
    pub crowd: Crowd,
    /// Receivers that answer within milliseconds, each on a host of its own.
    pub prompt_receivers: usize,
    pub settings: Settings,
}

impl CrowdScenario {
    /// Derives a scenario from a seed.
    pub fn from_seed(seed: u64) -> Self {
        let random = SeededRandom::new(seed, 6);
        let behavior =
            random.pick(&[CrowdBehavior::Hanging, CrowdBehavior::Crawling, CrowdBehavior::Failing]);
        let (hosts, urls_per_host, events_per_url) = match random.index(4) {
            // Many hosts.
            0 => (random.index(300) + 100, 1, random.index(5) + 1),
            // One host under many URLs.
            1 => (1, random.index(50) + 10, random.index(5) + 1),
            // One destination with a large backlog.
            2 => (1, 1, random.index(1_500) + 500),
            _ => (random.index(30) + 10, random.index(10) + 1, random.index(5) + 1),
        };
        let mut settings = Settings::new(WorkerId::new("worker").expect("visible ASCII"));
        settings.concurrency = random.index(64) + 48;
        settings.per_destination = random.index(12) + 4;
        settings.retry_batch = settings.concurrency / 4;
        settings.timeout = random.millis(5_000..15_000);
        Self {
            crowd: Crowd {
                behavior,
                hosts,
                urls_per_host,
                events_per_url,
                answers_first: hosts == 1 && random.chance(700),
            },
            prompt_receivers: random.index(4) + 1,
            settings,
        }
    }

    /// Derives a scenario with one host that answers, under many URLs that are all new, with one event each.
    pub fn of_new_destinations(seed: u64) -> Self {
        let scenario = Self::from_seed(seed);
        let urls_per_host = SeededRandom::new(seed, 7).index(1_500) + 500;
        let behavior = CrowdBehavior::Answering;
        let crowd = Crowd { behavior, hosts: 1, urls_per_host, events_per_url: 1, answers_first: false };
        Self { crowd, ..scenario }
    }

    /// Derives a scenario with hosts that answer, and that all stop answering at the same moment, with more events due than the
    /// engine has slots. One request to each host needs all slots in some of the scenarios.
    pub fn of_stalled_hosts(seed: u64) -> Self {
        let scenario = Self::from_seed(seed);
        let random = SeededRandom::new(seed, 9);
        let hosts = random.index(scenario.settings.concurrency) + 8;
        let urls_per_host = random.index(3) + 1;
        let events_per_url = scenario.settings.concurrency * 4 / (hosts * urls_per_host) + 1;
        let behavior = CrowdBehavior::Hanging;
        let crowd = Crowd { behavior, hosts, urls_per_host, events_per_url, answers_first: true };
        Self { crowd, ..scenario }
    }

    /// Returns how long hosts that stop answering together may hold all slots: until their requests count as slow.
    pub(crate) fn stall_max(&self) -> Duration {
        if self.crowd.answers_first && self.crowd.hosts > 1 {
            self.settings.slow_after * 5 / 4
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn prompt_urls(&self) -> Vec<String> {
        (0..self.prompt_receivers).map(|number| format!("https://prompt-{number}.test/hook")).collect()
    }

    /// Returns the URLs of all events of the crowd, the destinations in turn.
    pub(crate) fn crowd_urls(&self) -> Vec<String> {
        let Crowd { hosts, urls_per_host, events_per_url, .. } = self.crowd;
        let destinations = move || {
            (0..hosts).flat_map(move |host| {
                (0..urls_per_host).map(move |url| format!("https://crowd-{host}.test/{url}"))
            })
        };
        (0..events_per_url).flat_map(|_| destinations()).collect()
    }

    pub(crate) fn destinations(&self) -> usize {
        self.crowd.hosts * self.crowd.urls_per_host
    }

    /// Returns how long it may take until every destination has got a request. A quarter of the slots is for new hosts, and
    /// each gets as many requests as its first window allows, which may last until the timeout. A host that hangs gets one
    /// request at a time.
    pub(crate) fn turn_max(&self) -> Duration {
        if self.crowd.behavior == CrowdBehavior::Answering {
            return self.answered_turn_max();
        }
        let requests = self.crowd.hosts * self.settings.window_start;
        let rounds = requests.div_ceil(self.settings.concurrency / 4) * self.crowd.urls_per_host;
        self.settings.timeout * (u32::try_from(rounds).unwrap_or(u32::MAX) + 2) + Duration::from_secs(10)
    }

    /// Returns how long it may take until every destination of a host that answers has got a request. The window of the host
    /// grows to its maximum first; then half of it is used for new destinations. A claim and its answers take less than 60 ms.
    fn answered_turn_max(&self) -> Duration {
        let growth = 20;
        let rounds = growth + self.crowd.urls_per_host.div_ceil(self.settings.per_host().div_ceil(2));
        Duration::from_millis(60) * u32::try_from(rounds).unwrap_or(u32::MAX) + Duration::from_secs(1)
    }

    /// Returns how long it may take until a crowd that answers again has got its events: the circuits close, and the
    /// windows grow.
    pub(crate) fn recovery_max(&self) -> Duration {
        self.settings.breaker.cool_down() * 3 + self.settings.timeout * 2 + Duration::from_secs(120)
    }
}
