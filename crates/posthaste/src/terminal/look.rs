//! How output should look where it goes: a terminal of some width, or a file that wants plain lines.

use std::env;
use std::io::{self, IsTerminal as _};

/// What standard output, or standard error, can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    /// None where lines may be of any length: nobody looks at a pipe.
    pub(crate) width: Option<u16>,
}

impl Look {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false, width: None };

    pub(crate) fn of_stdout(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = if terminal { comfy_table::Table::new().width() } else { None };
        Self { colour: terminal && !no_color && colours_wanted(), width }
    }
}

/// `NO_COLOR`, set and not empty, means no, as everywhere. A dumb terminal shows escapes as rubbish.
fn colours_wanted() -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Dim,
    Bold,
    Good,
    Waiting,
    Bad,
}

impl Paint {
    /// How a delivery status is shown everywhere.
    pub(crate) fn of_status(status: &str) -> Self {
        match status {
            "delivered" => Self::Good,
            "failed" => Self::Bad,
            "pending" => Self::Waiting,
            _ => Self::Plain,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Waiting => "33",
            Self::Bad => "31",
        }
    }

    /// The text in this paint, or as it is where colours do not show.
    pub(crate) fn on(self, text: &str, look: Look) -> String {
        match self.code() {
            code if look.colour && !code.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}
