//! The text and the source of every value while a configuration is parsed.
//!
//! An invalid value is recorded as an error and replaced by its default, so that all problems of a configuration are
//! reported at once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::declaration::TypedSetting;
use super::effective::EffectiveSetting;
use super::error::{ConfigError, DisplayValue};
use super::mask::{mask_value, shorten};
use super::parse::RetryStrategy;
use super::setting::{DefaultValue, Setting};
use super::settings::{Config, settings};
use super::sources::Source;

/// The values that the sources set, and the problems found so far.
#[derive(Default)]
pub(crate) struct Values {
    texts: BTreeMap<&'static str, SourcedText>,
    effective: BTreeMap<&'static str, EffectiveSetting>,
    /// Whether the file is not TOML. Its values are unknown then, so values are not compared with each other.
    pub(crate) file_is_malformed: bool,
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) warnings: Vec<String>,
}

/// The text of a value and its source.
struct SourcedText {
    text: Zeroizing<String>,
    source: Source,
}

impl Values {
    /// Sets the text of a setting. Replaces the text of an earlier source.
    pub(crate) fn set(&mut self, setting: &'static Setting, source: Source, text: String) {
        self.texts.insert(setting.name, SourcedText { text: Zeroizing::new(text), source });
    }

    /// Returns whether a source sets the setting.
    pub(crate) fn is_set(&self, setting: &'static Setting) -> bool {
        self.texts.contains_key(setting.name)
    }

    /// Parses the value of a setting, or its default. `config` holds the values of the settings before it.
    pub(crate) fn read<T>(&mut self, setting: &'static TypedSetting<T>, config: &Config) -> T {
        let default = default_text(setting.default, config);
        let (text, source, parsed) = match self.texts.get(setting.name) {
            Some(SourcedText { text, source }) => {
                (Some(text.as_str()), source.clone(), Some(setting.parse(text)))
            }
            None => (default.as_deref(), Source::Default, None),
        };
        let value = text.map(|text| mask_value(setting, text));
        self.effective.insert(setting.name, EffectiveSetting { setting, value, source });
        match parsed {
            Some(Ok(value)) => value,
            Some(Err(reason)) => {
                self.reject_invalid(setting, reason);
                setting.default_value(default.as_deref())
            }
            None => setting.default_value(default.as_deref()),
        }
    }

    /// Rejects a value that breaks the rule of its setting. The message adds the rule to the reason.
    pub(crate) fn reject_invalid(&mut self, setting: &'static Setting, reason: String) {
        let value = self.display(setting);
        self.errors.push(ConfigError::Invalid { value, reason });
    }

    /// Rejects a value that conflicts with other values. The reason says how to resolve the conflict.
    pub(crate) fn reject_conflict(&mut self, setting: &'static Setting, reason: impl Into<String>) {
        let value = self.display(setting);
        self.errors.push(ConfigError::Conflict { value, reason: reason.into() });
    }

    /// Returns the value of a setting for a message. The setting must have been read.
    pub(crate) fn display(&self, setting: &'static Setting) -> DisplayValue {
        let effective = self.effective.get(setting.name).expect("the setting has been read");
        let shown = shorten(effective.value.as_deref().unwrap_or_default());
        DisplayValue { setting, source: effective.source.clone(), shown }
    }

    /// Returns whether these settings may be compared: all of them have the value that the sources set.
    pub(crate) fn are_comparable(&self, settings: &[&'static Setting]) -> bool {
        let is_rejected =
            |setting: &&Setting| self.errors.iter().any(|error| error.setting() == Some(setting));
        !self.file_is_malformed && !settings.iter().any(is_rejected)
    }

    /// Returns all settings with their sources, and the warnings; or all errors, if there are any.
    pub(crate) fn finish(mut self) -> Result<(Vec<EffectiveSetting>, Vec<String>), Vec<ConfigError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let effective =
            settings().map(|setting| self.effective.remove(setting.name).expect("every setting is read"));
        Ok((effective.collect(), self.warnings))
    }
}

/// Returns the text of a setting's default in this configuration, or None if it has no default.
fn default_text(default: DefaultValue, config: &Config) -> Option<Cow<'static, str>> {
    match (default, config.retry_strategy) {
        (DefaultValue::ByStrategy { schedule, .. }, RetryStrategy::Schedule) => Some(schedule.into()),
        (DefaultValue::Computed { usual, compute, .. }, _) => {
            Some(compute(config).map_or(usual.into(), Cow::from))
        }
        (default, _) => default.usual().map(Cow::from),
    }
}
