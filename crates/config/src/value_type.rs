//! The types of values in the configuration file. In the environment and in flags, every value is text.

use std::fmt;

/// The type of a setting's value in the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// A whole number or a decimal fraction, in seconds.
    Seconds,
    /// `true` or `false`.
    Boolean,
    /// An array of seconds, or a string that separates them by commas.
    SecondsList,
    /// An array of strings, or one string that separates them by commas.
    TextList,
    /// A boolean or a list of strings.
    BooleanOrTextList,
}

impl ValueType {
    /// Converts the text of a value of this type to TOML syntax.
    pub(crate) fn to_toml(self, text: &str) -> String {
        match self {
            Self::Integer | Self::Seconds | Self::Boolean => text.to_owned(),
            Self::SecondsList => format!("[{}]", text.replace(',', ", ")),
            Self::BooleanOrTextList if matches!(text, "true" | "false") => text.to_owned(),
            Self::TextList | Self::BooleanOrTextList if text.contains(',') => {
                let items: Vec<_> = text.split(',').map(|item| format!("{item:?}")).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Text | Self::TextList | Self::BooleanOrTextList => format!("{text:?}"),
        }
    }
}

/// The type as a phrase that follows "must be".
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text in quotes",
            Self::Integer => "a whole number without quotes",
            Self::Seconds => "a number without quotes",
            Self::Boolean => "true or false without quotes",
            Self::SecondsList => "an array of numbers",
            Self::TextList => "text in quotes, or an array of texts without commas",
            Self::BooleanOrTextList => "true, false, text in quotes, or an array of texts without commas",
        })
    }
}
