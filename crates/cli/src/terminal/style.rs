//! The style of output: colours and line width, which depend on whether standard output is a terminal.

use std::env;
use std::io::{self, IsTerminal as _};

use crossterm::style::{ContentStyle, Stylize as _};

/// What standard output can display.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputStyle {
    /// Whether escape sequences for colours are written.
    pub(crate) color: bool,
    /// Columns of the terminal. None means unlimited, as in a pipe or a file.
    pub(crate) width: Option<u16>,
}

impl OutputStyle {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { color: false, width: None };

    /// Creates a style with colours, even if the environment of the tests sets `NO_COLOR`, which crossterm reads too.
    #[cfg(test)]
    pub(crate) fn with_color(width: Option<u16>) -> Self {
        crossterm::style::force_color_output(true);
        Self { color: true, width }
    }

    /// Detects the style of standard output.
    pub(crate) fn for_stdout(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = if terminal { comfy_table::Table::new().width() } else { None };
        // Pseudo-terminals without a window report a width of 0: it is unknown, not narrow.
        Self { color: terminal && color_wanted(no_color), width: width.filter(|width| *width > 0) }
    }

    /// Returns the style with unlimited width if `wide`, so that tables show everything.
    pub(crate) fn widened(self, wide: bool) -> Self {
        Self { width: self.width.filter(|_| !wide), ..self }
    }
}

/// Returns whether the log, which is written to standard error, is coloured.
pub(crate) fn log_uses_color(no_color: bool) -> bool {
    io::stderr().is_terminal() && color_wanted(no_color)
}

/// Returns whether colours are wanted: not with `--no-color`, with a `NO_COLOR` that is not empty (see no-color.org),
/// or on a dumb terminal, which would print the escape sequences.
fn color_wanted(no_color: bool) -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !no_color && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The appearance of a piece of text, named by what the text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Plain,
    Dim,
    Bold,
    Good,
    Waiting,
    Bad,
}

impl Color {
    /// Returns the colour of a delivery status, the same in every command.
    pub(crate) fn for_status(status: &str) -> Self {
        match status {
            "delivered" => Self::Good,
            "failed" => Self::Bad,
            "pending" => Self::Waiting,
            _ => Self::Plain,
        }
    }

    pub(super) fn content_style(self) -> ContentStyle {
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

    /// Returns the text in this colour, or unchanged where the style has no colours.
    pub(crate) fn paint(self, text: &str, style: OutputStyle) -> String {
        if style.color { self.content_style().apply(text).to_string() } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_painted_only_in_a_style_with_colors() {
        let style = OutputStyle::with_color(None);
        assert_eq!(Color::Bad.paint("no", style), "\u{1b}[38;5;1mno\u{1b}[39m");
        assert_eq!(Color::Bad.paint("no", OutputStyle::PLAIN), "no");
        assert_eq!(Color::Plain.paint("so", style), "so");
    }
}
