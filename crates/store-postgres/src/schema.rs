//! The schema that holds Posthaste's objects, and statements for a schema of another name.
//!
//! Statements and migrations are written for the schema `app`. [`SchemaName::rewrite`] is the one place that changes
//! them for another schema. Beside the qualifier `app` it replaces what belongs to the whole database, so that two
//! schemas of one database do not share it: the channel of wake-ups and the classes of advisory locks. Everything else
//! (tables, sequences, functions, triggers) is inside the schema.

mod statements;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use posthaste_domain::NOTICE_TOPIC;

pub(crate) use statements::{SqlText, Statements};

/// The schema for which statements and migrations are written.
const WRITTEN_FOR: &str = "app";
/// The channel of wake-ups, in the schema `app`.
const WAKE_CHANNEL: &str = "posthaste_due";
/// The classes of advisory locks, in the schema `app`.
const LOCK_CLASSES: [&str; 2] = ["7526", "7527"];
/// Longest name of a schema. PostgreSQL limits names of channels to 63 bytes, and the longest is [`NOTICE_TOPIC`], a colon
/// and the name.
const BYTES_MAX: usize = 63 - NOTICE_TOPIC.len() - 1;

/// The name of the PostgreSQL schema that holds Posthaste's objects. `app` is the default.
#[derive(Clone, PartialEq, Eq)]
pub struct SchemaName(Arc<str>);

/// Why a text cannot be the name of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchemaName {
    /// Such a name would need quotes in every client's SQL.
    #[error("it is not 1 to {BYTES_MAX} lower-case letters, digits and underscores that begin with no digit")]
    Form,
    /// PostgreSQL keeps these names for itself.
    #[error("PostgreSQL reserves pg_… and information_schema for its own schemas")]
    Reserved,
    /// `enqueue_webhook` has its owner's rights and calls functions of its own schema. In `public`, other roles may be
    /// able to create functions that it would call instead.
    #[error(
        "other roles may be able to create functions in public, and enqueue_webhook would run them with its owner's rights"
    )]
    Public,
}

impl SchemaName {
    /// The rule for names, as a phrase that follows "must be".
    pub const RULE: &'static str = "1 to 46 lower-case letters, digits and underscores that begin with no digit; not public, \
                                    information_schema or pg_…";

    /// Returns the name without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the channel on which PostgreSQL broadcasts notices: `gateway:webhooks`, followed by a colon and the
    /// schema's name unless that is `app`.
    pub fn notice_channel(&self) -> Cow<'static, str> {
        self.channel(NOTICE_TOPIC)
    }

    /// Returns the channel of wake-ups.
    pub(crate) fn wake_channel(&self) -> Cow<'static, str> {
        self.channel(WAKE_CHANNEL)
    }

    fn channel(&self, in_default_schema: &'static str) -> Cow<'static, str> {
        if self.is_default() {
            Cow::Borrowed(in_default_schema)
        } else {
            Cow::Owned(format!("{in_default_schema}:{self}"))
        }
    }

    /// Returns SQL that is written for the schema `app` as SQL for this schema. The name is quoted, because it may be a
    /// keyword. Copies nothing if this is the schema `app`.
    pub(crate) fn rewrite<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        self.rewrite_as(sql, &format!("\"{self}\""))
    }

    /// Like [`Self::rewrite`], with the qualifier in this spelling.
    pub(crate) fn rewrite_as<'a>(&self, sql: &'a str, qualifier: &str) -> Cow<'a, str> {
        if self.is_default() {
            return Cow::Borrowed(sql);
        }
        let channel = self.wake_channel();
        let lock_classes = self.lock_classes();
        let mut rewritten = String::with_capacity(sql.len() + sql.len() / 8);
        for part in words(sql) {
            rewritten.push_str(match part {
                WRITTEN_FOR => qualifier,
                WAKE_CHANNEL => &channel,
                _ => match LOCK_CLASSES.iter().position(|class| *class == part) {
                    Some(index) => &lock_classes[index],
                    None => part,
                },
            });
        }
        Cow::Owned(rewritten)
    }

    /// Returns the classes of advisory locks in this schema, which derive from its name. The low bit tells the two classes
    /// apart. If the classes of two schemas were equal by chance, transactions would wait longer, and nothing else.
    fn lock_classes(&self) -> [String; 2] {
        // FNV-1a.
        let hash = self
            .0
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        // Positive numbers of a size that no class of the schema `app` has.
        let class = (hash & 0x3fff_fffe) | 0x4000_0000;
        [class, class | 1].map(|class| class.to_string())
    }

    pub(crate) fn is_default(&self) -> bool {
        &*self.0 == WRITTEN_FOR
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self(Arc::from(WRITTEN_FOR))
    }
}

impl FromStr for SchemaName {
    type Err = InvalidSchemaName;

    fn from_str(name: &str) -> Result<Self, InvalidSchemaName> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty()
            || name.len() > BYTES_MAX
            || name.as_bytes()[0].is_ascii_digit()
            || !name.bytes().all(is_plain)
        {
            return Err(InvalidSchemaName::Form);
        }
        match name {
            "public" => Err(InvalidSchemaName::Public),
            "information_schema" => Err(InvalidSchemaName::Reserved),
            _ if name.starts_with("pg_") => Err(InvalidSchemaName::Reserved),
            _ => Ok(Self(Arc::from(name))),
        }
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchemaName({self})")
    }
}

/// Splits SQL into words, which consist of letters, digits and underscores, and the parts between them.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let mut rest = sql;
    std::iter::from_fn(move || {
        let starts_with_word = is_word(rest.chars().next()?);
        let end = rest.find(|char| is_word(char) != starts_with_word).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests;
