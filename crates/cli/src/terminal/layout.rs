//! The layout of a table: which columns a terminal of a given width shows, and how wide. The decision is pure.
//!
//! If the whole table does not fit, columns without content are hidden first, then extra columns. Then ids are shortened, then
//! texts, the widest first. Needed columns are hidden only if they do not fit at their least widths.

/// Number of spaces between two columns.
pub(super) const GAP: u16 = 2;
/// The width of a shortened id.
pub(super) const SHORT_ID_WIDTH: u16 = 16;

/// How important a column is. Columns that compare greater are hidden first; `Needed(0)` is always shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    /// Shortened rather than hidden.
    Needed(u8),
    /// Shown only if all more important columns have the width that they want.
    Extra(u8),
}

/// How the cells of a column adapt to a narrow terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Whole,
    Id,
    /// Shortened to `least`, but to `wanted` only in favour of extra columns.
    Text {
        least: u16,
        wanted: u16,
    },
}

/// What the layout knows about a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    pub(super) importance: Importance,
    pub(super) fit: Fit,
    /// The width of the widest cell or of the title.
    pub(super) whole: u16,
    /// Whether all cells are empty.
    pub(super) is_empty: bool,
}

impl Measure {
    fn wanted(&self) -> u16 {
        match self.fit {
            Fit::Whole | Fit::Id => self.whole,
            Fit::Text { wanted, .. } => self.whole.min(wanted),
        }
    }

    fn least(&self) -> u16 {
        match self.fit {
            Fit::Whole => self.whole,
            Fit::Id => self.whole.min(SHORT_ID_WIDTH),
            Fit::Text { least, .. } => self.whole.min(least),
        }
    }

    const fn is_text(&self) -> bool {
        matches!(self.fit, Fit::Text { .. })
    }
}

/// Returns the width of each column, or None for a hidden one. Without a limit, every column is shown whole.
pub(super) fn arrange(columns: &[Measure], limit: Option<u16>) -> Vec<Option<u16>> {
    let whole: Vec<_> = columns.iter().map(|column| Some(column.whole)).collect();
    let Some(limit) = limit else { return whole };
    if total(&whole) <= u32::from(limit) {
        return whole;
    }
    let mut widths = choose_columns(columns, limit);
    shorten_ids(columns, &mut widths, limit);
    shorten_texts(columns, &mut widths, limit);
    lengthen_texts(columns, &mut widths, limit);
    widths
}

/// Returns the wanted widths of the columns that are shown.
fn choose_columns(columns: &[Measure], limit: u16) -> Vec<Option<u16>> {
    let mut shown: Vec<_> = (0..columns.len()).filter(|at| !columns[*at].is_empty).collect();
    shown.sort_by_key(|at| columns[*at].importance);
    let widths = |shown: &[usize], width: fn(&Measure) -> u16| -> Vec<_> {
        let width = |at: usize| shown.contains(&at).then(|| width(&columns[at]));
        (0..columns.len()).map(width).collect()
    };
    let exceeds = |shown: &[usize], width| total(&widths(shown, width)) > u32::from(limit);
    let is_extra = |at: &usize| matches!(columns[*at].importance, Importance::Extra(_));
    while shown.last().is_some_and(is_extra) && exceeds(&shown, Measure::wanted) {
        shown.pop();
    }
    while shown.len() > 1 && exceeds(&shown, Measure::least) {
        shown.pop();
    }
    widths(&shown, Measure::wanted)
}

fn shorten_ids(columns: &[Measure], widths: &mut [Option<u16>], limit: u16) {
    if total(widths) > u32::from(limit) {
        for (column, width) in columns.iter().zip(widths).filter(|(column, _)| column.fit == Fit::Id) {
            *width = width.map(|_| column.least());
        }
    }
}

/// Takes one character at a time from the widest text.
fn shorten_texts(columns: &[Measure], widths: &mut [Option<u16>], limit: u16) {
    while total(widths) > u32::from(limit) {
        let can_shrink = |at: &usize| {
            columns[*at].is_text() && widths[*at].is_some_and(|width| width > columns[*at].least())
        };
        let Some(widest) = (0..widths.len()).filter(can_shrink).max_by_key(|at| widths[*at]) else { return };
        widths[widest] = widths[widest].map(|width| width - 1);
    }
}

/// Gives free space, one character at a time, to the narrowest text that is not whole.
fn lengthen_texts(columns: &[Measure], widths: &mut [Option<u16>], limit: u16) {
    while total(widths) < u32::from(limit) {
        let can_grow = |at: &usize| {
            columns[*at].is_text() && widths[*at].is_some_and(|width| width < columns[*at].whole)
        };
        let Some(narrowest) = (0..widths.len()).filter(can_grow).min_by_key(|at| widths[*at]) else { return };
        widths[narrowest] = widths[narrowest].map(|width| width + 1);
    }
}

/// Returns the width of a line with these columns and the gaps between them.
fn total(widths: &[Option<u16>]) -> u32 {
    let shown = widths.iter().flatten();
    let sum: u32 = shown.map(|width| u32::from(*width) + u32::from(GAP)).sum();
    sum.saturating_sub(u32::from(GAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of events: id, status, attempts, type, error, a column without content, and an exact time.
    fn columns() -> [Measure; 7] {
        let text = |least, wanted| Fit::Text { least, wanted };
        let column = |importance, fit, whole| Measure { importance, fit, whole, is_empty: false };
        [
            column(Importance::Needed(0), Fit::Id, 36),
            column(Importance::Needed(3), Fit::Whole, 9),
            column(Importance::Extra(0), Fit::Whole, 8),
            column(Importance::Needed(2), text(10, 20), 12),
            column(Importance::Needed(1), text(14, 28), 90),
            Measure { is_empty: true, ..column(Importance::Needed(2), Fit::Whole, 11) },
            column(Importance::Extra(1), Fit::Whole, 20),
        ]
    }

    fn at(limit: u16) -> Vec<u16> {
        let widths = arrange(&columns(), Some(limit));
        assert!(total(&widths) <= u32::from(limit), "{widths:?} at {limit}");
        widths.into_iter().map(|width| width.unwrap_or(0)).collect()
    }

    #[test]
    fn a_pipe_and_a_wide_terminal_get_everything_whole() {
        let whole: Vec<_> = columns().iter().map(|column| Some(column.whole)).collect();
        assert_eq!(arrange(&columns(), None), whole);
        assert_eq!(arrange(&columns(), Some(198)), whole, "the whole table is exactly as wide");
    }

    #[test]
    fn a_column_without_content_is_hidden_before_any_text_is_shortened() {
        assert_eq!(at(197), [36, 9, 8, 12, 90, 0, 20]);
    }

    #[test]
    fn long_texts_are_shortened_in_favour_of_extra_columns_and_take_the_space_that_is_left() {
        assert_eq!(at(160), [36, 9, 8, 12, 65, 0, 20]);
        assert_eq!(at(120), [36, 9, 8, 12, 47, 0, 0]);
    }

    #[test]
    fn eighty_columns_shorten_the_id_and_keep_all_needed_columns() {
        assert_eq!(at(80), [16, 9, 0, 12, 37, 0, 0]);
    }

    #[test]
    fn sixty_columns_shorten_texts_and_a_narrower_terminal_hides_columns_by_importance() {
        assert_eq!(at(60), [16, 9, 0, 12, 17, 0, 0]);
        assert_eq!(at(56), [16, 9, 0, 11, 14, 0, 0]);
        assert_eq!(at(54), [16, 0, 0, 12, 22, 0, 0]);
        assert_eq!(at(40), [16, 0, 0, 0, 22, 0, 0]);
        assert_eq!(at(30), [16, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_most_important_column_is_shown_on_any_terminal() {
        assert_eq!(arrange(&columns(), Some(3))[0], Some(SHORT_ID_WIDTH));
    }

    #[test]
    fn a_layout_never_exceeds_the_limit_while_the_most_important_column_fits() {
        for limit in 16..220 {
            let shown = at(limit);
            assert!(shown[0] >= 16, "{shown:?} at {limit}");
        }
    }
}
