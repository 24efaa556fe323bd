//! The parts of a declaration in [`settings`](super::settings): a [`ValueParser`] states and applies the rule, and a
//! [`Declaration`] adds a default and options. The rule of a range or of a choice is written from the values that the
//! parser checks, so that the two cannot disagree.

use std::ops::{Deref, RangeInclusive};
use std::time::Duration;

use super::parse::{OUT_OF_RANGE, one_of, seconds, seconds_text, whole_number};
use super::setting::{DefaultValue, Secrecy, Section, Setting};
use super::settings::Config;
use super::value_type::ValueType;

/// A function that parses the text of a value. An error is a short reason that never repeats the text.
type ParseFn<T> = Box<dyn Fn(&str) -> Result<T, String> + Send + Sync>;

/// The valid values of a setting: their type in the file, their rule in words, and the parser that applies the rule.
pub(crate) struct ValueParser<T> {
    value_type: ValueType,
    rule: String,
    parse: ParseFn<T>,
}

impl<T: 'static> ValueParser<T> {
    /// Creates a parser with a rule in words. The rule is a phrase that follows "must be".
    pub(crate) fn new(
        value_type: ValueType,
        rule: impl Into<String>,
        parse: impl Fn(&str) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self { value_type, rule: rule.into(), parse: Box::new(parse) }
    }

    /// Appends a remark to the rule.
    pub(crate) fn remark(mut self, remark: &str) -> Self {
        self.rule.push_str("; ");
        self.rule.push_str(remark);
        self
    }

    /// Returns a parser that also converts the parsed value.
    pub(crate) fn map<U: 'static>(self, convert: fn(T) -> U) -> ValueParser<U> {
        let Self { value_type, rule, parse } = self;
        ValueParser { value_type, rule, parse: Box::new(move |text| parse(text).map(convert)) }
    }

    /// Declares a setting with a fixed default.
    pub(crate) fn default(self, text: &'static str) -> Declaration<T> {
        Declaration::new(self, DefaultValue::Text(text), None)
    }

    /// Declares a setting whose default differs between the retry strategies.
    pub(crate) fn default_by_strategy(
        self,
        exponential: &'static str,
        schedule: &'static str,
    ) -> Declaration<T> {
        Declaration::new(self, DefaultValue::ByStrategy { exponential, schedule }, None)
    }

    /// Declares a setting whose default depends on settings that are declared before it.
    pub(crate) fn computed_default(
        self,
        usual: &'static str,
        otherwise: &'static str,
        compute: fn(&Config) -> Option<String>,
    ) -> Declaration<T> {
        Declaration::new(self, DefaultValue::Computed { usual, otherwise, compute }, None)
    }

    /// Declares a setting without a default value. `meaning` says what Posthaste does without a value, and `example` is
    /// a value for the example file.
    pub(crate) fn unset(self, meaning: &'static str, example: &'static str) -> Declaration<Option<T>> {
        Declaration::new(self.map(Some), DefaultValue::Unset { meaning, example }, Some(|| None))
    }
}

/// Returns a parser of whole numbers within a range.
pub(crate) fn whole<T: TryFrom<u32> + 'static>(range: RangeInclusive<u32>) -> ValueParser<T> {
    let rule = format!("a whole number from {} to {}", range.start(), range.end());
    ValueParser::new(ValueType::Integer, rule, move |text| whole_number(text, &range))
}

/// Returns a parser of numbers of seconds within a range.
pub(crate) fn seconds_within(range: RangeInclusive<Duration>) -> ValueParser<Duration> {
    let [low, high] = [*range.start(), *range.end()].map(seconds_text);
    let rule = format!("a number of seconds from {low} to {high}");
    ValueParser::new(ValueType::Seconds, rule, move |text| {
        seconds(text).and_then(|duration| {
            if range.contains(&duration) { Ok(duration) } else { Err(OUT_OF_RANGE.to_owned()) }
        })
    })
}

/// Returns a parser that accepts these names and returns the value of each.
pub(crate) fn choice<T: Copy + Send + Sync + 'static, const N: usize>(
    choices: [(&'static str, T); N],
) -> ValueParser<T> {
    let rule = choices.map(|(name, _)| name).join(" or ");
    ValueParser::new(ValueType::Text, rule, move |text| one_of(&choices, text))
}

/// Returns a parser of `true` and `false`.
pub(crate) fn boolean() -> ValueParser<bool> {
    let choices = [("true", true), ("false", false)];
    ValueParser { value_type: ValueType::Boolean, ..choice(choices) }
}

/// Returns a parser of `auto`, `on` and `off`. `auto` is None: the retry strategy decides.
pub(crate) fn auto_on_off() -> ValueParser<Option<bool>> {
    choice([("auto", None), ("on", Some(true)), ("off", Some(false))])
        .remark("auto is on if retry_strategy is exponential, off if it is schedule")
}

/// Everything about a setting except its name, its section and its help text.
pub(crate) struct Declaration<T> {
    parser: ValueParser<T>,
    default: DefaultValue,
    /// The value of a setting that has no default text. None if it has one.
    unset_value: Option<fn() -> T>,
    env_alias: Option<&'static str>,
    secrecy: Secrecy,
}

impl<T> Declaration<T> {
    fn new(parser: ValueParser<T>, default: DefaultValue, unset_value: Option<fn() -> T>) -> Self {
        Self { parser, default, unset_value, env_alias: None, secrecy: Secrecy::Public }
    }

    /// Adds a second environment variable for the setting.
    pub(crate) fn env_alias(self, name: &'static str) -> Self {
        Self { env_alias: Some(name), ..self }
    }

    /// Marks the setting as secret: no message, log or command shows its value.
    pub(crate) fn secret(self) -> Self {
        Self { secrecy: Secrecy::Secret, ..self }
    }

    /// Marks the value as a URL with credentials, which are masked wherever the value is shown.
    pub(crate) fn url_with_credentials(self) -> Self {
        Self { secrecy: Secrecy::Credentials, ..self }
    }

    /// Completes the setting. Derives the names of the variable and the flag.
    pub(crate) fn named(self, name: &'static str, section: Section, help: &'static str) -> TypedSetting<T> {
        let Self {
            parser: ValueParser { value_type, rule, parse },
            default,
            unset_value,
            env_alias,
            secrecy,
        } = self;
        let setting = Setting {
            name,
            env: format!("POSTHASTE_{}", name.to_ascii_uppercase()),
            env_alias,
            flag: format!("--{}", name.replace('_', "-")),
            section,
            value_type,
            default,
            rule,
            help: help.trim().trim_end_matches('.').to_owned(),
            secrecy,
        };
        TypedSetting { setting, parse, unset_value }
    }
}

/// A setting with the parser of its values. Dereferences to its description.
pub(crate) struct TypedSetting<T> {
    setting: Setting,
    parse: ParseFn<T>,
    unset_value: Option<fn() -> T>,
}

impl<T> TypedSetting<T> {
    /// Parses the text of a value, or returns why it is invalid.
    pub(crate) fn parse(&self, text: &str) -> Result<T, String> {
        (self.parse)(text)
    }

    /// Parses a default text. Without a text, returns the value that an unset setting has.
    pub(crate) fn default_value(&self, text: Option<&str>) -> T {
        match (text, self.unset_value) {
            (Some(text), _) => self.parse(text).expect("defaults satisfy their own rules"),
            (None, Some(unset_value)) => unset_value(),
            (None, None) => unreachable!("a setting without a default text is declared with `unset`"),
        }
    }
}

impl<T> Deref for TypedSetting<T> {
    type Target = Setting;

    fn deref(&self) -> &Setting {
        &self.setting
    }
}
