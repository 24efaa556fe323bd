//! What a check found.

use serde_json::{Value, json};

use crate::terminal::Paint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// It works, and is worth a thought.
    Careful,
    Broken,
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Careful => "careful",
            Self::Broken => "broken",
        }
    }

    pub(super) const fn paint(self) -> Paint {
        match self {
            Self::Good => Paint::Good,
            Self::Careful => Paint::Waiting,
            Self::Broken => Paint::Bad,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// What was found and, where it is not good, what to do about it.
    pub(super) text: String,
}

impl Finding {
    pub(super) fn new(check: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check, verdict, text: text.into() }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "check": self.check, "verdict": self.verdict.word(), "finding": self.text })
    }
}
