//! The texts that won, on their way to values.
//!
//! A text that is refused is recorded and read as the default instead, so that the rest can be judged too: whoever
//! starts Posthaste sees everything that is wrong at once.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::effective::Effective;
use super::error::{ConfigError, Written};
use super::mask::{masked, shortened};
use super::source::Source;
use super::table::{SETTINGS, Setting};

#[derive(Default)]
pub(super) struct Reading {
    given: BTreeMap<&'static str, Given>,
    effective: BTreeMap<&'static str, Effective>,
    /// A file that could not be understood may hold what the other values need beside them.
    pub(super) lacks_file: bool,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<String>,
}

struct Given {
    text: Zeroizing<String>,
    source: Source,
}

impl Reading {
    pub(super) fn give(&mut self, setting: &'static Setting, source: Source, text: String) {
        self.given.insert(setting.name, Given { text: Zeroizing::new(text), source });
    }

    /// The value of a setting that always has one.
    pub(super) fn value<T>(
        &mut self,
        setting: &'static Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let default = setting.default.usual().expect("a setting without a default is read as optional");
        self.value_or(setting, default, parse)
    }

    /// The value of a setting whose default depends on others.
    pub(super) fn value_or<T>(
        &mut self,
        setting: &'static Setting,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        if let Some(value) = self.given(setting, &parse) {
            return value;
        }
        let value = masked(setting, default);
        self.effective.entry(setting.name).or_insert(Effective {
            setting,
            value: Some(value),
            source: Source::Default,
        });
        parse(default).expect("defaults satisfy their own rules")
    }

    /// The value of a setting that may have none.
    pub(super) fn optional<T>(
        &mut self,
        setting: &'static Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.given(setting, &parse);
        self.effective.entry(setting.name).or_insert(Effective {
            setting,
            value: None,
            source: Source::Default,
        });
        value
    }

    fn given<T>(
        &mut self,
        setting: &'static Setting,
        parse: &impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.given.get(setting.name)?;
        let (value, source) = (masked(setting, &given.text), given.source.clone());
        let parsed = parse(&given.text);
        self.effective.insert(setting.name, Effective { setting, value: Some(value), source });
        parsed.map_err(|reason| self.invalid(setting, reason)).ok()
    }

    /// Refuses a value for what it is by itself. The rule is told with the reason.
    pub(super) fn invalid(&mut self, setting: &'static Setting, reason: String) {
        let written = self.written(setting);
        self.errors.push(ConfigError::Invalid { written, reason });
    }

    /// Refuses a value for how it stands to others. The reason names the ways out.
    pub(super) fn refuse(&mut self, setting: &'static Setting, reason: impl Into<String>) {
        let written = self.written(setting);
        self.errors.push(ConfigError::Refused { written, reason: reason.into() });
    }

    /// The value of a setting that has been read, as its user wrote it.
    pub(super) fn written(&self, setting: &'static Setting) -> Written {
        let effective = self.effective.get(setting.name).expect("a setting is read before it is judged");
        let shown = shortened(effective.value.as_deref().unwrap_or_default());
        Written { setting, source: effective.source.clone(), shown }
    }

    /// Whether someone gave it a value.
    pub(super) fn is_given(&self, setting: &'static Setting) -> bool {
        self.given.contains_key(setting.name)
    }

    /// Whether these can be compared: what they hold is what their users meant.
    pub(super) fn are_sound(&self, settings: &[&'static Setting]) -> bool {
        let was_refused =
            |setting: &&Setting| self.errors.iter().any(|error| error.setting() == Some(setting));
        !self.lacks_file && !settings.iter().any(was_refused)
    }

    pub(super) fn finish(mut self) -> Result<(Vec<Effective>, Vec<String>), Vec<ConfigError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let effective = SETTINGS
            .iter()
            .map(|setting| self.effective.remove(setting.name).expect("every setting of the table is read"));
        Ok((effective.collect(), self.warnings))
    }
}
