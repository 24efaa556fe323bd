//! The table of settings. A setting is described here and nowhere else.

pub(super) mod dispatch;
mod form;
pub(super) mod receivers;
pub(super) mod retries;
pub(super) mod service;

use std::fmt;

pub use form::Form;

/// What is known of a setting before it has a value.
#[derive(PartialEq, Eq)]
pub struct Setting {
    /// The key in the file, and what messages call it.
    pub name: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// A second environment variable, from before there was a canonical one.
    pub env_also: Option<&'static str>,
    /// The flag, with its two hyphens.
    pub flag: &'static str,
    pub section: Section,
    pub form: Form,
    pub default: Fallback,
    /// What a value must be, to follow "must be".
    pub rule: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    pub secrecy: Secrecy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Storage,
    Service,
    Retries,
    Dispatch,
    Receivers,
    Watching,
}

/// What holds where nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    Text(&'static str),
    /// No value; `then` says what happens instead. The example of a secret is one that is refused, so that nobody
    /// runs with it.
    Unset {
        then: &'static str,
        example: &'static str,
    },
    ByStrategy {
        exponential: &'static str,
        schedule: &'static str,
    },
    /// What it is if all else is left out too, and what it depends on.
    Computed {
        usual: &'static str,
        otherwise: &'static str,
    },
}

/// How much of a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    Open,
    /// A URL that may hold a password.
    Credentials,
    Secret,
}

/// Every setting, by section.
pub static SETTINGS: [&Setting; 32] = [
    &service::DATABASE_URL,
    &service::RETENTION_DAYS,
    &service::LISTEN,
    &service::API_KEYS,
    &service::PAYLOAD_BYTES_MAX,
    &service::IDEMPOTENCY_HOURS,
    &service::SHUTDOWN_SECONDS,
    &retries::RETRY_STRATEGY,
    &retries::RETRY_BASE_SECONDS,
    &retries::RETRY_MAX_BACKOFF_SECONDS,
    &retries::RETRY_JITTER_BPS,
    &retries::RETRY_SCHEDULE_SECONDS,
    &retries::MAX_RETRY_ATTEMPTS,
    &retries::RETRY_BUDGET,
    &retries::ALLOW_FAST_RETRIES,
    &dispatch::TIMEOUT_SECONDS,
    &dispatch::RETRY_BATCH_SIZE,
    &dispatch::HTTP_POOL_SIZE,
    &dispatch::CONCURRENCY,
    &dispatch::LEASE_SECONDS,
    &dispatch::POLL_INTERVAL_MS,
    &dispatch::ABANDON_AFTER,
    &dispatch::CYCLE_SECONDS,
    &dispatch::WORKER_ID,
    &receivers::SIGNING_SECRET,
    &receivers::ALLOW_PRIVATE_NETWORKS,
    &receivers::CA_FILE,
    &receivers::EGRESS_PROXY,
    &receivers::DNS,
    &service::LOG,
    &service::LOG_FORMAT,
    &service::OTLP_ENDPOINT,
];

/// The setting of that name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.into_iter().find(|setting| setting.name == name)
}

impl Setting {
    /// The default, or an example where there is none, as it stands in the file.
    pub(super) fn example_in_file(&self) -> String {
        let text = match self.default {
            Fallback::Unset { example, .. } => example,
            default => default.usual().unwrap_or_default(),
        };
        self.form.in_file(text)
    }
}

/// By its name: the rest is in the table.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.name).finish()
    }
}

/// What most settings are; each names the rest.
const PLAIN: Setting = Setting {
    name: "",
    env: "",
    env_also: None,
    flag: "",
    section: Section::Service,
    form: Form::Text,
    default: Fallback::Text(""),
    rule: "",
    help: "",
    secrecy: Secrecy::Open,
};

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "Storage",
            Self::Service => "The service",
            Self::Retries => "Retries",
            Self::Dispatch => "Dispatch",
            Self::Receivers => "Reaching receivers",
            Self::Watching => "Watching it",
        })
    }
}

/// In words, to follow "left out, it is".
impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Unset { then, .. } => f.write_str(then),
            Self::ByStrategy { exponential, schedule } => {
                write!(f, "{exponential} ({schedule} if retry_strategy is schedule)")
            }
            Self::Computed { usual, otherwise } => write!(f, "{usual} ({otherwise})"),
        }
    }
}

impl Fallback {
    /// The value in a configuration where everything is left out.
    pub fn usual(&self) -> Option<&'static str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Unset { .. } => None,
            Self::ByStrategy { exponential, .. } => Some(exponential),
            Self::Computed { usual, .. } => Some(usual),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_names_of_a_setting_follow_from_each_other() {
        for setting in SETTINGS {
            assert_eq!(setting.env, format!("POSTHASTE_{}", setting.name.to_ascii_uppercase()));
            assert_eq!(setting.flag, format!("--{}", setting.name.replace('_', "-")));
        }
    }

    #[test]
    fn no_two_settings_share_a_name() {
        let names =
            |of: fn(&Setting) -> Vec<&'static str>| SETTINGS.into_iter().flat_map(of).collect::<Vec<_>>();
        for names in [names(|s| vec![s.name]), names(|s| s.env_also.into_iter().chain([s.env]).collect())] {
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn every_setting_says_what_it_does_and_what_it_must_be() {
        for setting in SETTINGS {
            assert!(!setting.help.is_empty() && !setting.rule.is_empty(), "{}", setting.name);
            assert!(!setting.help.contains('\n') && !setting.rule.contains('\n'), "{}", setting.name);
        }
    }

    #[test]
    fn settings_of_a_section_stand_together() {
        let mut sections: Vec<_> = SETTINGS.iter().map(|setting| setting.section).collect();
        sections.dedup();
        assert_eq!(sections.len(), 6, "{sections:?}");
    }
}
