//! The result of a check.

use serde_json::{Value, json};

use crate::terminal::Color;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// A warning: Posthaste works, with a risk.
    Careful,
    /// An error: Posthaste, or a part of it, cannot work.
    Broken,
}

impl Verdict {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Careful => "careful",
            Self::Broken => "broken",
        }
    }

    pub(super) const fn color(self) -> Color {
        match self {
            Self::Ok => Color::Good,
            Self::Careful => Color::Waiting,
            Self::Broken => Color::Bad,
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// The state that the check found and, unless it is fine, how to fix it.
    pub(super) text: String,
}

impl Finding {
    pub(super) fn new(check: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check, verdict, text: text.into() }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "check": self.check, "verdict": self.verdict.as_str(), "finding": self.text })
    }
}
