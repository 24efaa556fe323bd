//! Tables that fit a terminal: one line per row, arranged by [`layout`].

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Row, Width, presets};
use crossterm::style::ContentStyle;

use super::layout::{self, Fit, GAP, Importance, Measure};
use super::shorten::{cut_ascii, drop_scheme, shorten_id};
use super::{Color, OutputStyle, escape_line};

/// A column of a table: its title, and how it behaves on a narrow terminal.
pub(crate) struct Column {
    title: &'static str,
    importance: Importance,
    fit: Fit,
    is_url: bool,
    alignment: CellAlignment,
}

impl Column {
    /// Creates a column that a narrow terminal keeps as long as possible. The columns with the highest rank are hidden first;
    /// rank 0 is always shown.
    pub(crate) const fn new(title: &'static str, rank: u8) -> Self {
        let importance = Importance::Needed(rank);
        Self { title, importance, fit: Fit::Whole, is_url: false, alignment: CellAlignment::Left }
    }

    /// Creates a column that is shown only beside all other columns of lower ranks.
    pub(crate) const fn extra(title: &'static str, rank: u8) -> Self {
        Self { importance: Importance::Extra(rank), ..Self::new(title, rank) }
    }

    /// Allows cells to be shortened in the middle, as ids are.
    pub(crate) const fn id(self) -> Self {
        Self { fit: Fit::Id, ..self }
    }

    /// Allows cells to be cut to `least` characters, and to `wanted` characters if that makes room for extra columns.
    pub(crate) const fn text(self, least: u16, wanted: u16) -> Self {
        Self { fit: Fit::Text { least, wanted }, ..self }
    }

    /// As [`Self::text`], for URLs: in a column that is too narrow they lose their scheme.
    pub(crate) const fn url(self, least: u16, wanted: u16) -> Self {
        Self { is_url: true, ..self.text(least, wanted) }
    }

    pub(crate) const fn align_right(self) -> Self {
        Self { alignment: CellAlignment::Right, ..self }
    }

    /// Returns the text of a cell for a column that is narrower than its content.
    fn shorten(&self, text: &str, width: u16) -> String {
        match self.fit {
            Fit::Whole => text.to_owned(),
            Fit::Id => shorten_id(text, width.into()),
            Fit::Text { .. } => cut_ascii(if self.is_url { drop_scheme(text) } else { text }, width.into()),
        }
    }
}

/// What a table does not show because the terminal is too narrow.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Omissions {
    /// Titles of the columns that were hidden although they have a cell that is not empty.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) has_short_ids: bool,
}

impl Omissions {
    /// Adds those of another page of the same list.
    pub(crate) fn extend(&mut self, other: Self) {
        self.has_short_ids |= other.has_short_ids;
        for column in other.columns {
            if !self.columns.contains(&column) {
                self.columns.push(column);
            }
        }
    }
}

/// A table as text that fits the output.
pub(crate) struct RenderedTable {
    pub(crate) text: String,
    pub(crate) omissions: Omissions,
}

/// Rows of coloured cells under the same columns.
pub(crate) struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<(String, Color)>>,
    has_header: bool,
}

impl Table {
    pub(crate) const fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new(), has_header: true }
    }

    /// Appends a row, which has one cell for each column.
    pub(crate) fn push(&mut self, row: Vec<(String, Color)>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row.into_iter().map(|(text, color)| (escape_line(&text), color)).collect());
    }

    /// Omits the titles, for a table that continues an earlier one.
    pub(crate) fn without_header(self) -> Self {
        Self { has_header: false, ..self }
    }

    /// Renders the rows within the width of the style.
    pub(crate) fn render(&self, style: OutputStyle) -> RenderedTable {
        let measures = self.measure();
        let widths = layout::arrange(&measures, style.width);
        let is_narrow =
            |(measure, width): (&Measure, &Option<u16>)| width.filter(|width| *width < measure.whole);
        let narrow: Vec<_> = measures.iter().zip(&widths).map(is_narrow).collect();
        let mut table = self.lay_out(&narrow, style);
        for ((column, rendered), width) in self.columns.iter().zip(table.column_iter_mut()).zip(&widths) {
            rendered.set_padding((0, GAP));
            rendered.set_cell_alignment(column.alignment);
            rendered.set_constraint(match width {
                None => ColumnConstraint::Hidden,
                Some(width) => ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(GAP))),
            });
        }
        // `trim_fmt` removes the gap after the last column.
        RenderedTable { text: table.trim_fmt(), omissions: self.omissions(&measures, &widths) }
    }

    /// Creates a table. The cells of a column with a width in `narrow` are shortened to it.
    fn lay_out(&self, narrow: &[Option<u16>], style: OutputStyle) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.style_text_only();
        if style.color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        if self.has_header {
            table.set_header(self.columns.iter().map(|column| cell(column.title, Color::Dim, style)));
        }
        for row in &self.rows {
            let cells = self.columns.iter().zip(row).zip(narrow).map(|((column, (text, color)), width)| {
                let short = width.map(|width| column.shorten(text, width));
                cell(short.as_deref().unwrap_or(text), *color, style)
            });
            let mut cells: Row = cells.collect::<Vec<_>>().into();
            cells.max_height(1);
            table.add_row(cells);
        }
        table
    }

    fn measure(&self) -> Vec<Measure> {
        let whole = self.lay_out(&vec![None; self.columns.len()], OutputStyle { color: false, width: None });
        let widths = whole.column_max_content_widths();
        let measure = |(at, column): (usize, &Column)| Measure {
            importance: column.importance,
            fit: column.fit,
            whole: widths.get(at).copied().unwrap_or(0),
            is_empty: self.rows.iter().all(|row| row[at].0.is_empty()),
        };
        self.columns.iter().enumerate().map(measure).collect()
    }

    fn omissions(&self, measures: &[Measure], widths: &[Option<u16>]) -> Omissions {
        let columns = || self.columns.iter().zip(measures).zip(widths);
        let hidden = columns().filter(|((_, measure), width)| width.is_none() && !measure.is_empty);
        let is_short_id = |((_, measure), width): ((&Column, &Measure), &Option<u16>)| {
            measure.fit == Fit::Id && width.is_some_and(|width| width < measure.whole)
        };
        Omissions {
            columns: hidden.map(|((column, _), _)| column.title).collect(),
            has_short_ids: columns().any(is_short_id),
        }
    }
}

fn cell(text: &str, color: Color, style: OutputStyle) -> Cell {
    let cell = Cell::new(text);
    if !style.color || text.is_empty() {
        return cell;
    }
    let ContentStyle { foreground_color, attributes, .. } = color.content_style();
    let cell = cell.add_attributes(Attribute::iterator().filter(|one| attributes.has(*one)).collect());
    match foreground_color {
        Some(color) => cell.fg(color),
        None => cell,
    }
}

/// Renders names and values, one pair per line, with aligned values.
pub(crate) fn render_fields(pairs: &[(&str, String)], style: OutputStyle) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        format!("{}  {}\n", Color::Dim.paint(&format!("{name:width$}"), style), escape_line(value))
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::new("ID", 0),
        Column::new("TRIES", 1).align_right(),
        Column::new("ERROR", 2).text(8, 12),
        Column::new("URL", 3).url(10, 18),
    ];

    fn table() -> Table {
        let mut table = Table::new(COLUMNS);
        let plain = |text: &str| (text.to_owned(), Color::Plain);
        table.push(vec![
            plain("msg_1"),
            plain("2/6"),
            plain("503 the server is busy"),
            plain("https://shop.example/hooks"),
        ]);
        table.push(vec![
            plain("msg_22"),
            plain("10/12"),
            plain(""),
            ("https://a.example/".into(), Color::Bad),
        ]);
        table
    }

    fn at(width: u16) -> String {
        table().render(OutputStyle { color: false, width: Some(width) }).text
    }

    #[test]
    fn a_pipe_gets_every_row_whole_on_one_line() {
        let expected = "\
ID      TRIES  ERROR                   URL
msg_1     2/6  503 the server is busy  https://shop.example/hooks
msg_22  10/12                          https://a.example/";
        assert_eq!(table().render(OutputStyle::PLAIN).text, expected);
    }

    #[test]
    fn a_wide_terminal_gets_the_same_as_a_pipe() {
        let piped = table().render(OutputStyle::PLAIN).text;
        assert_eq!(at(200), piped);
        assert_eq!(at(65), piped);
    }

    #[test]
    fn columns_are_truncated_before_they_are_hidden() {
        let shown = at(50);
        assert!(shown.lines().all(|line| line.chars().count() <= 50), "{shown}");
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.contains("URL") && shown.contains('…') && shown.contains("msg_22"), "{shown}");
    }

    #[test]
    fn columns_are_hidden_by_rank_and_the_id_stays_whole() {
        let titles = |width| {
            at(width).lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(titles(35), "ID TRIES ERROR URL");
        assert_eq!(titles(25), "ID TRIES ERROR");
        assert_eq!(titles(14), "ID TRIES");
        assert_eq!(titles(9), "ID");
        assert!(at(3).contains("msg_22"), "{}", at(3));
    }

    #[test]
    fn hidden_columns_are_reported_unless_they_are_empty() {
        let omitted = |width| table().render(OutputStyle { color: false, width }).omissions.columns;
        assert_eq!(omitted(None), [] as [&str; 0]);
        assert_eq!(omitted(Some(50)), [] as [&str; 0], "a truncated column is not omitted");
        assert_eq!(omitted(Some(14)), ["ERROR", "URL"]);
        let mut table = Table::new(COLUMNS);
        let cells = ["msg_1", "2/6", "", "https://a.example/"];
        table.push(cells.map(|text| (text.to_owned(), Color::Plain)).into());
        assert_eq!(table.render(OutputStyle { color: false, width: Some(14) }).omissions.columns, ["URL"]);
    }

    #[test]
    fn a_color_is_the_same_inside_and_outside_a_table() {
        const ONE: &[Column] = &[Column::new("", 0)];
        let style = OutputStyle::with_color(Some(80));
        for color in [Color::Plain, Color::Dim, Color::Bold, Color::Good, Color::Waiting, Color::Bad] {
            let mut table = Table::new(ONE).without_header();
            table.push(vec![("text".to_owned(), color)]);
            assert_eq!(table.render(style).text.trim_end(), color.paint("text", style), "{color:?}");
        }
    }

    #[test]
    fn cells_are_colored_only_in_a_style_with_colors() {
        assert!(!at(80).contains('\u{1b}'));
        let colored = table().render(OutputStyle::with_color(Some(80))).text;
        assert!(colored.contains("\u{1b}[38;5;1mhttps://a.example/"), "{colored}");
    }

    #[test]
    fn control_characters_in_a_cell_are_escaped() {
        const ONE: &[Column] = &[Column::new("A", 0)];
        let mut table = Table::new(ONE);
        table.push(vec![("x\ny\u{1b}[31m".into(), Color::Plain)]);
        assert_eq!(table.render(OutputStyle::PLAIN).text, "A\nx\\ny\\u{1b}[31m");
    }

    #[test]
    fn values_of_fields_are_aligned() {
        let pairs = [("id", "msg_1".to_owned()), ("last error", "503".to_owned())];
        assert_eq!(render_fields(&pairs, OutputStyle::PLAIN), "id          msg_1\nlast error  503\n");
    }
}
