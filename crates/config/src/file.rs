//! The configuration file: TOML with one key per setting and no sections.

use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::mask::shorten;
use super::setting::Setting;
use super::settings::setting;
use super::suggestion::nearest_setting;
use super::value_type::ValueType;

/// The file that is read if it exists and no other file is named.
pub const FILE_DEFAULT: &str = "posthaste.toml";

const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a configuration file, not parsed yet.
#[derive(Clone)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
}

/// Shows the path only, because the text may contain secrets.
impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// Reads the named file, which must exist, or else [`FILE_DEFAULT`] if it exists.
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

    /// Returns the line on which a span starts, from 1.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    /// Returns the text of the line on which a span starts.
    fn line_text(&self, span: &Range<usize>) -> &str {
        self.text.lines().nth(self.line(span) - 1).unwrap_or_default()
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
pub(crate) struct FileEntry {
    pub(crate) setting: &'static Setting,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Parses a file. Returns the values that have the right type, and appends the errors of the others.
pub(crate) fn parse_file(file: &ConfigFile, errors: &mut Vec<ConfigError>) -> Vec<FileEntry> {
    let (table, malformed) = DeTable::parse_recoverable(&file.text);
    // The parser's `Display` repeats the line, which may contain a secret; its message does not.
    errors.extend(malformed.iter().map(|error| ConfigError::Malformed {
        path: file.path.clone(),
        line: error.span().map_or(1, |span| file.line(&span)),
        reason: explain_malformed(error.message(), error.span().map_or("", |span| file.line_text(&span))),
    }));
    if !malformed.is_empty() {
        return Vec::new();
    }
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let line = file.line(&key.span());
        let Some(setting) = setting(key.get_ref()) else {
            errors.extend(unknown_key(file, key.get_ref(), line, value.get_ref()));
            continue;
        };
        let path = || file.path.clone();
        match value_text(setting.value_type, value.get_ref()).map(|text| text.trim().to_owned()) {
            None => {
                let found = type_name(value.get_ref());
                errors.push(ConfigError::WrongType { path: path(), line, setting, found });
            }
            Some(text) if text.is_empty() => {
                errors.push(ConfigError::EmptyKey { path: path(), line, setting });
            }
            Some(text) => entries.push(FileEntry { setting, line, text }),
        }
    }
    // The parser sorts by key; errors are reported from the top of the file.
    errors.sort_by_key(|error| match error {
        ConfigError::UnknownKey { line, .. }
        | ConfigError::InSection { line, .. }
        | ConfigError::WrongType { line, .. }
        | ConfigError::EmptyKey { line, .. } => *line,
        _ => 0,
    });
    entries
}

/// Reports an unknown key. A section is reported as one error per key, because section and key together often resemble a
/// setting.
fn unknown_key(file: &ConfigFile, key: &str, line: usize, value: &DeValue<'_>) -> Vec<ConfigError> {
    let name = |setting: &'static Setting| setting.name;
    let path = || file.path.clone();
    let Some(section) = value.as_table() else {
        let nearest = nearest_setting(key).map(name);
        return vec![ConfigError::UnknownKey { path: path(), line, key: shorten(key), nearest }];
    };
    if section.is_empty() {
        return vec![ConfigError::InSection { path: path(), line, key: shorten(key), nearest: None }];
    }
    let in_section = |inner: &str, line| {
        let nearest = nearest_setting(&format!("{key}_{inner}")).or_else(|| nearest_setting(inner)).map(name);
        ConfigError::InSection { path: path(), line, key: shorten(&format!("{key}.{inner}")), nearest }
    };
    section.iter().map(|(inner, _)| in_section(inner.get_ref(), file.line(&inner.span()))).collect()
}

/// Appends advice to the parser's message if the line assigns a value that starts like text without quotes.
fn explain_malformed(message: &str, line: &str) -> String {
    let message = shorten(message);
    let Some((key, value)) = line.split_once('=') else { return message };
    let (key, value) = (key.trim(), value.trim());
    let is_unquoted = !value.is_empty() && !value.starts_with(['"', '\'', '[', '{', '#']);
    match setting(key).filter(|_| is_unquoted) {
        Some(setting) => {
            format!("{message}; write text in quotes: {} = {}", setting.name, setting.toml_example())
        }
        None => message,
    }
}

/// Returns a value as the environment would write it, or none if it has the wrong type.
fn value_text(value_type: ValueType, value: &DeValue<'_>) -> Option<String> {
    match (value_type, value) {
        (
            ValueType::Text | ValueType::SecondsList | ValueType::TextList | ValueType::BooleanOrTextList,
            DeValue::String(text),
        ) => Some(text.to_string()),
        (ValueType::Integer | ValueType::Seconds, DeValue::Integer(number)) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Some(decimal.map_or_else(|_| number.to_string(), |decimal| decimal.to_string()))
        }
        (ValueType::Seconds, DeValue::Float(number)) => Some(number.to_string()),
        (ValueType::Boolean | ValueType::BooleanOrTextList, DeValue::Boolean(boolean)) => {
            Some(boolean.to_string())
        }
        (ValueType::SecondsList, DeValue::Array(steps)) => join_items(ValueType::Seconds, steps.iter()),
        (ValueType::TextList | ValueType::BooleanOrTextList, DeValue::Array(items)) => {
            join_items(ValueType::Text, items.iter())
        }
        _ => None,
    }
}

/// Joins the items of an array by commas. Returns none if an item contains a comma, because it would become two items.
fn join_items<'a, 'i: 'a>(
    value_type: ValueType,
    items: impl Iterator<Item = &'a toml::Spanned<DeValue<'i>>>,
) -> Option<String> {
    let texts: Option<Vec<_>> = items.map(|item| value_text(value_type, item.get_ref())).collect();
    texts.filter(|texts| !texts.iter().any(|text| text.contains(','))).map(|texts| texts.join(","))
}

/// Returns the TOML type of a value, in words.
fn type_name(value: &DeValue<'_>) -> &'static str {
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
