//! The configuration file: TOML, one key per setting, no sections.

use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::mask::shortened;
use super::nearest::nearest;
use super::table::{Form, SETTINGS, Setting, setting};

/// Used when it is there and no other file is named.
pub const FILE_DEFAULT: &str = "posthaste.toml";

const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file that has been read from the disk, and not yet understood.
#[derive(Clone)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
}

/// The text may hold secrets.
impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// The file that is named, which must be there, or [`FILE_DEFAULT`] where there is one.
    pub fn find(named: Option<&Path>) -> Result<Option<Self>, ConfigError> {
        let path = named.unwrap_or(Path::new(FILE_DEFAULT));
        match read_to_string(path) {
            Ok(text) => Ok(Some(Self { path: path.to_owned(), text })),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let reason = format!("{error}; name a readable TOML file with --config");
                Err(ConfigError::File { path: path.to_owned(), reason })
            }
        }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }
}

fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// A value of the file, as text.
pub(super) struct Entry {
    pub(super) setting: &'static Setting,
    pub(super) line: usize,
    pub(super) text: String,
}

/// Every value of the file that has the right type, and what is wrong with the others.
pub(super) fn entries(file: &ConfigFile, errors: &mut Vec<ConfigError>) -> Vec<Entry> {
    let (table, malformed) = DeTable::parse_recoverable(&file.text);
    // The parser's own text repeats the line, which may hold a secret; its message does not.
    errors.extend(malformed.iter().map(|error| ConfigError::Malformed {
        path: file.path.clone(),
        line: error.span().map_or(1, |span| file.line(&span)),
        reason: shortened(error.message()),
    }));
    if !malformed.is_empty() {
        return Vec::new();
    }
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let line = file.line(&key.span());
        let Some(setting) = setting(key.get_ref()) else {
            errors.extend(unknown(file, key.get_ref(), line, value.get_ref()));
            continue;
        };
        let path = || file.path.clone();
        match text_of(setting.form, value.get_ref()).map(|text| text.trim().to_owned()) {
            None => {
                let found = found(value.get_ref());
                errors.push(ConfigError::WrongType { path: path(), line, setting, found });
            }
            Some(text) if text.is_empty() => {
                errors.push(ConfigError::EmptyKey { path: path(), line, setting });
            }
            Some(text) => entries.push(Entry { setting, line, text }),
        }
    }
    // The parser sorts by key; people read from the top.
    errors.sort_by_key(|error| match error {
        ConfigError::UnknownKey { line, .. }
        | ConfigError::WrongType { line, .. }
        | ConfigError::EmptyKey { line, .. } => *line,
        _ => 0,
    });
    entries
}

/// Keys in sections are settings nowhere: each is reported under its whole name, which often is one.
fn unknown(file: &ConfigFile, key: &str, line: usize, value: &DeValue<'_>) -> Vec<ConfigError> {
    let names = SETTINGS.into_iter().map(|setting| setting.name);
    let error = |line, key: &str, guess: &str| ConfigError::UnknownKey {
        path: file.path.clone(),
        line,
        key: shortened(key),
        nearest: nearest(guess, names.clone()),
    };
    match value.as_table() {
        Some(section) if !section.is_empty() => section
            .iter()
            .map(|(inner, _)| {
                let inner_key = inner.get_ref();
                error(file.line(&inner.span()), &format!("{key}.{inner_key}"), &format!("{key}_{inner_key}"))
            })
            .collect(),
        _ => vec![error(line, key, key)],
    }
}

/// The value as it would be written in the environment; none if its type is not the setting's.
fn text_of(form: Form, value: &DeValue<'_>) -> Option<String> {
    match (form, value) {
        (Form::Text | Form::SecondsList | Form::TextList | Form::SwitchOrTextList, DeValue::String(text)) => {
            Some(text.to_string())
        }
        (Form::Whole | Form::Seconds, DeValue::Integer(number)) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Some(decimal.map_or_else(|_| number.to_string(), |decimal| decimal.to_string()))
        }
        (Form::Seconds, DeValue::Float(number)) => Some(number.to_string()),
        (Form::Switch | Form::SwitchOrTextList, DeValue::Boolean(switch)) => Some(switch.to_string()),
        (Form::SecondsList, DeValue::Array(steps)) => joined(Form::Seconds, steps.iter()),
        (Form::TextList | Form::SwitchOrTextList, DeValue::Array(items)) => joined(Form::Text, items.iter()),
        _ => None,
    }
}

/// An item that holds a comma would be taken for two.
fn joined<'a, 'i: 'a>(
    form: Form,
    items: impl Iterator<Item = &'a toml::Spanned<DeValue<'i>>>,
) -> Option<String> {
    let texts: Option<Vec<_>> = items.map(|item| text_of(form, item.get_ref())).collect();
    texts.filter(|texts| !texts.iter().any(|text| text.contains(','))).map(|texts| texts.join(","))
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a section",
    }
}
