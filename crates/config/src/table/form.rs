//! How a value is written. In the environment and in flags everything is text; the file has types.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Whole,
    /// A whole number or a decimal fraction.
    Seconds,
    Switch,
    /// Separated by commas, or an array.
    SecondsList,
    /// Separated by commas, or an array.
    TextList,
    SwitchOrTextList,
}

impl Form {
    /// A text as it stands in the file.
    pub(crate) fn in_file(self, text: &str) -> String {
        match self {
            Self::Whole | Self::Seconds | Self::Switch => text.to_owned(),
            Self::SecondsList => format!("[{}]", text.replace(',', ", ")),
            Self::SwitchOrTextList if matches!(text, "true" | "false") => text.to_owned(),
            Self::TextList | Self::SwitchOrTextList if text.contains(',') => {
                format!(
                    "[{}]",
                    text.split(',').map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ")
                )
            }
            Self::Text | Self::TextList | Self::SwitchOrTextList => format!("{text:?}"),
        }
    }
}

/// To follow "must be".
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text in quotes",
            Self::Whole => "a whole number without quotes",
            Self::Seconds => "a number without quotes",
            Self::Switch => "true or false without quotes",
            Self::SecondsList => "an array of numbers",
            Self::TextList => "text in quotes, or an array of texts without commas",
            Self::SwitchOrTextList => "true, false, text in quotes, or an array of texts without commas",
        })
    }
}
