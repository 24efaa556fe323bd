//! Which text wins: flag over environment over file.

use std::ffi::OsStr;

use super::error::{ConfigError, Meant, Written};
use super::file::entries;
use super::mask::{holds_secret, shortened, shown};
use super::nearest::nearest;
use super::reading::Reading;
use super::source::{Source, Sources};
use super::table::{SETTINGS, Setting, setting};

const ENV_PREFIX: &str = "POSTHASTE_";
/// Kubernetes sets these in every pod beside a service that is named `posthaste`.
const ENV_OF_KUBERNETES: [&str; 2] = ["POSTHASTE_SERVICE_", "POSTHASTE_PORT"];

/// Weaker sources first, so that stronger ones replace what they gave.
pub(super) fn gather(sources: &Sources<'_>) -> Reading {
    let mut reading = Reading::default();
    gather_file(sources, &mut reading);
    gather_env(sources, &mut reading);
    warn_of_unknown_env(sources, &mut reading);
    gather_flags(sources, &mut reading);
    reading
}

fn gather_file(sources: &Sources<'_>, reading: &mut Reading) {
    let Some(file) = sources.file else { return };
    let entries = entries(file, &mut reading.errors);
    reading.lacks_file = reading.errors.iter().any(|error| matches!(error, ConfigError::Malformed { .. }));
    for entry in entries {
        let source = Source::File { path: file.path.clone(), line: entry.line };
        reading.give(entry.setting, source, entry.text);
    }
}

fn gather_env(sources: &Sources<'_>, reading: &mut Reading) {
    for setting in SETTINGS {
        let canonical = variable(sources, setting, setting.env, reading);
        let also = setting.env_also.and_then(|name| variable(sources, setting, name, reading));
        match (canonical, also) {
            (Some(first), Some(second)) if first.1 != second.1 => {
                let written = |(name, text): (_, String)| Written {
                    setting,
                    source: Source::Environment(name),
                    shown: shown(setting, &text),
                };
                let both = Box::new([written(first), written(second)]);
                reading.errors.push(ConfigError::TwoNames(both));
            }
            (Some((name, text)), _) | (None, Some((name, text))) => {
                reading.give(setting, Source::Environment(name), text);
            }
            (None, None) => {}
        }
    }
}

/// An empty variable counts as none: that is how one is switched off in a unit file or a compose file.
fn variable(
    sources: &Sources<'_>,
    setting: &'static Setting,
    name: &'static str,
    reading: &mut Reading,
) -> Option<(&'static str, String)> {
    let value = sources.env.get(OsStr::new(name))?;
    match value.to_str().map(str::trim) {
        Some("") => None,
        Some(text) => Some((name, text.to_owned())),
        None => {
            reading.errors.push(ConfigError::NotUnicode { name, setting });
            None
        }
    }
}

/// Not an error: others may set variables that begin like ours, and a downgrade must start.
fn warn_of_unknown_env(sources: &Sources<'_>, reading: &mut Reading) {
    for name in sources.env.keys().map(|name| name.to_string_lossy()) {
        let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
        let known = SETTINGS.into_iter().any(|setting| setting.env == name);
        let elsewhere = sources.env_elsewhere.contains(&&*name)
            || ENV_OF_KUBERNETES.iter().any(|start| name.starts_with(start));
        if !known && !elsewhere {
            let nearest = nearest(rest, SETTINGS.into_iter().map(|setting| setting.name)).and_then(setting);
            let (name, meant) = (shortened(&name), Meant(nearest.map(|setting| setting.env)));
            reading.warnings.push(format!("the environment variable {name} is not a setting; {meant}"));
        }
    }
}

fn gather_flags(sources: &Sources<'_>, reading: &mut Reading) {
    for (name, text) in sources.flags {
        let Some(setting) = setting(name) else {
            let nearest = nearest(name, SETTINGS.into_iter().map(|setting| setting.name));
            reading.errors.push(ConfigError::UnknownFlag { name: shortened(name), nearest });
            continue;
        };
        if holds_secret(setting, text.trim()) {
            reading.warnings.push(format!(
                "{} can be read by everyone on this host, in the list of processes; use {} or the file",
                setting.flag, setting.env
            ));
        }
        match text.trim() {
            "" => reading.errors.push(ConfigError::EmptyFlag { setting }),
            text => reading.give(setting, Source::Flag(setting.flag), text.to_owned()),
        }
    }
}
