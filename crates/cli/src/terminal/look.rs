//! How output should look where it goes: a terminal of some width, or a file that wants plain lines.

use std::env;
use std::io::{self, IsTerminal as _};

use crossterm::style::{ContentStyle, Stylize as _};

/// What standard output can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    /// None where lines may be of any length: nobody looks at a pipe.
    pub(crate) width: Option<u16>,
}

impl Look {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false, width: None };

    /// In colours, although whoever runs the tests may have set `NO_COLOR`, which crossterm reads too.
    #[cfg(test)]
    pub(crate) fn coloured(width: Option<u16>) -> Self {
        crossterm::style::force_color_output(true);
        Self { colour: true, width }
    }

    pub(crate) fn of_stdout(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = if terminal { comfy_table::Table::new().width() } else { None };
        // A terminal of no columns, such as one that nobody looks at, has not said how wide it is.
        Self { colour: terminal && colours_wanted(no_color), width: width.filter(|width| *width > 0) }
    }
}

/// Whether the log, on standard error, shows colours.
pub(crate) fn log_is_coloured(no_color: bool) -> bool {
    io::stderr().is_terminal() && colours_wanted(no_color)
}

/// `--no-color` means no, and so does `NO_COLOR`, set and not empty, as everywhere. A dumb terminal shows escapes as
/// rubbish.
fn colours_wanted(no_color: bool) -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !no_color && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
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

    pub(super) fn style(self) -> ContentStyle {
        let plain = ContentStyle::new();
        match self {
            Self::Plain => plain,
            Self::Dim => plain.dim(),
            Self::Bold => plain.bold(),
            Self::Good => plain.dark_green(),
            Self::Waiting => plain.dark_yellow(),
            Self::Bad => plain.dark_red(),
        }
    }

    /// The text in this paint, or as it is where colours do not show.
    pub(crate) fn on(self, text: &str, look: Look) -> String {
        if look.colour { self.style().apply(text).to_string() } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paint_shows_only_where_colours_do() {
        let coloured = Look::coloured(None);
        assert_eq!(Paint::Bad.on("no", coloured), "\u{1b}[38;5;1mno\u{1b}[39m");
        assert_eq!(Paint::Bad.on("no", Look::PLAIN), "no");
        assert_eq!(Paint::Plain.on("so", coloured), "so");
    }
}
