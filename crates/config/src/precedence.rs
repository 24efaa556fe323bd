//! Precedence: a flag overrides the environment, and the environment overrides the file.

use std::ffi::OsStr;

use super::error::{ConfigError, DisplayValue, Hint};
use super::file::parse_file;
use super::mask::{contains_secret, display_text, shorten};
use super::setting::Setting;
use super::settings::{setting, settings};
use super::sources::{Source, Sources};
use super::suggestion::nearest_setting;
use super::values::Values;

const ENV_PREFIX: &str = "POSTHASTE_";
/// Prefixes of the environment variables that Kubernetes sets in every pod beside a service named `posthaste`.
const KUBERNETES_PREFIXES: [&str; 2] = ["POSTHASTE_SERVICE_", "POSTHASTE_PORT"];

/// Collects the text of every setting. Reads weaker sources first, so that stronger ones replace their values.
pub(crate) fn collect(sources: &Sources<'_>) -> Values {
    let mut values = Values::default();
    collect_file(sources, &mut values);
    collect_env(sources, &mut values);
    warn_of_unknown_variables(sources, &mut values);
    collect_flags(sources, &mut values);
    values
}

fn collect_file(sources: &Sources<'_>, values: &mut Values) {
    let Some(file) = sources.file else { return };
    let entries = parse_file(file, &mut values.errors);
    values.file_is_malformed =
        values.errors.iter().any(|error| matches!(error, ConfigError::Malformed { .. }));
    for entry in entries {
        let source = Source::File { path: file.path.clone(), line: entry.line };
        values.set(entry.setting, source, entry.text);
    }
}

fn collect_env(sources: &Sources<'_>, values: &mut Values) {
    for setting in settings() {
        let canonical = variable(sources, setting, &setting.env, values);
        let alias = setting.env_alias.and_then(|name| variable(sources, setting, name, values));
        match (canonical, alias) {
            (Some(first), Some(second)) if first.1 != second.1 => {
                let both = [first, second].map(|(name, text)| DisplayValue {
                    setting,
                    source: Source::Environment(name),
                    shown: display_text(setting, &text),
                });
                values.errors.push(ConfigError::AliasConflict(Box::new(both)));
            }
            (Some((name, text)), _) | (None, Some((name, text))) => {
                values.set(setting, Source::Environment(name), text);
            }
            (None, None) => {}
        }
    }
}

/// Returns the name and the text of an environment variable, or None if it is not set. An empty variable counts as not
/// set, because unit files and compose files cannot remove one. A variable that is not UTF-8 is recorded as an error.
fn variable(
    sources: &Sources<'_>,
    setting: &'static Setting,
    name: &'static str,
    values: &mut Values,
) -> Option<(&'static str, String)> {
    let value = sources.env.get(OsStr::new(name))?;
    match value.to_str().map(str::trim) {
        Some("") => None,
        Some(text) => Some((name, text.to_owned())),
        None => {
            values.errors.push(ConfigError::NotUnicode { name, setting });
            None
        }
    }
}

/// Warns of variables that start with `POSTHASTE_` and are not settings. They are no errors: other programs may set
/// them, and an older version must start with the variables of a newer one.
fn warn_of_unknown_variables(sources: &Sources<'_>, values: &mut Values) {
    for name in sources.env.keys().map(|name| name.to_string_lossy()) {
        let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
        let is_setting = settings().any(|setting| setting.env == name);
        let is_foreign = sources.command_variables.contains(&&*name)
            || KUBERNETES_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if !is_setting && !is_foreign {
            let hint = Hint(nearest_setting(rest).map(|setting| setting.env.as_str()));
            let name = shorten(&name);
            values.warnings.push(format!("the environment variable {name} is not a setting; {hint}"));
        }
    }
}

fn collect_flags(sources: &Sources<'_>, values: &mut Values) {
    for (name, text) in sources.flags {
        let Some(setting) = setting(name) else {
            let nearest = nearest_setting(name).map(|setting| setting.name);
            values.errors.push(ConfigError::UnknownFlag { name: shorten(name), nearest });
            continue;
        };
        if contains_secret(setting, text.trim()) {
            values.warnings.push(format!(
                "every user of this host can read {} in the list of processes; use {} or the file",
                setting.flag, setting.env
            ));
        }
        match text.trim() {
            "" => values.errors.push(ConfigError::EmptyFlag { setting }),
            text => values.set(setting, Source::Flag(&setting.flag), text.to_owned()),
        }
    }
}
