//! The texts of statements for one schema.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

use super::SchemaName;

/// The statements of the store for one schema. Each statement is rewritten once, when it is used first.
pub(crate) struct Statements {
    schema: SchemaName,
    rewritten: RwLock<HashMap<&'static str, Arc<str>>>,
}

/// The text of a statement for one schema. Clones share it.
#[derive(Clone)]
pub(crate) enum SqlText {
    /// The text as it is in the source, for the schema `app`.
    Written(&'static str),
    /// The text for another schema.
    Rewritten(Arc<str>),
}

impl Statements {
    pub(crate) fn new(schema: SchemaName) -> Self {
        Self { schema, rewritten: RwLock::default() }
    }

    pub(crate) fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// Returns the text of a statement that is written for the schema `app`.
    pub(crate) fn text(&self, written: &'static str) -> SqlText {
        if self.schema.is_default() {
            return SqlText::Written(written);
        }
        let found =
            self.rewritten.read().expect("no holder of this lock panics").get(written).map(Arc::clone);
        SqlText::Rewritten(found.unwrap_or_else(|| {
            let mut rewritten = self.rewritten.write().expect("no holder of this lock panics");
            Arc::clone(rewritten.entry(written).or_insert_with(|| self.schema.rewrite(written).into()))
        }))
    }
}

impl Deref for SqlText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Written(text) => text,
            Self::Rewritten(text) => text,
        }
    }
}
