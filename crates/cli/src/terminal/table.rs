//! Tables that fit a terminal: one line per row. On a narrow terminal columns are truncated, then hidden in a fixed
//! order; ids are never truncated.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets,
};
use crossterm::style::ContentStyle;

use super::{Color, OutputStyle, escape_line};

/// Number of spaces between two columns.
const GAP: u16 = 2;

/// A column of a table: its title, and how it behaves on a narrow terminal.
pub(crate) struct Column {
    title: &'static str,
    /// Columns with the highest rank are hidden first where space is short. Rank 0 is always shown.
    rank: u8,
    /// The width to which cells may be truncated. None if the column is always as wide as its widest cell.
    min_width: Option<u16>,
    alignment: CellAlignment,
}

impl Column {
    pub(crate) const fn new(title: &'static str, rank: u8) -> Self {
        Self { title, rank, min_width: None, alignment: CellAlignment::Left }
    }

    /// Allows cells to be truncated to this many characters.
    pub(crate) const fn min_width(self, width: u16) -> Self {
        Self { min_width: Some(width), ..self }
    }

    pub(crate) const fn align_right(self) -> Self {
        Self { alignment: CellAlignment::Right, ..self }
    }
}

/// A table as text that fits the output.
pub(crate) struct RenderedTable {
    pub(crate) text: String,
    /// Titles of the columns that were hidden although they have a cell that is not empty.
    pub(crate) omitted_columns: Vec<&'static str>,
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
        self.rows.push(row);
    }

    /// Omits the titles, for a table that continues an earlier one.
    pub(crate) fn without_header(self) -> Self {
        Self { has_header: false, ..self }
    }

    /// Renders the rows within the width of the style.
    pub(crate) fn render(&self, style: OutputStyle) -> RenderedTable {
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
            let mut cells: Row =
                row.iter().map(|(text, color)| cell(text, *color, style)).collect::<Vec<_>>().into();
            cells.max_height(1);
            table.add_row(cells);
        }
        let constraints = self.constraints(&table.column_max_content_widths(), style.width);
        let omitted_columns = self.omitted_columns(&constraints);
        for ((column, rendered), constraint) in
            self.columns.iter().zip(table.column_iter_mut()).zip(constraints)
        {
            rendered.set_padding((0, GAP));
            rendered.set_cell_alignment(column.alignment);
            rendered.set_constraint(constraint);
        }
        if let Some(width) = style.width {
            // `trim_fmt` removes the gap after the last column.
            table.set_width(width.saturating_add(GAP)).set_content_arrangement(ContentArrangement::Dynamic);
        }
        RenderedTable { text: table.trim_fmt(), omitted_columns }
    }

    fn omitted_columns(&self, constraints: &[ColumnConstraint]) -> Vec<&'static str> {
        let has_content = |at: usize| self.rows.iter().any(|row| !row[at].0.is_empty());
        let is_hidden = |at: usize| constraints[at] == ColumnConstraint::Hidden;
        let omitted = (0..self.columns.len()).filter(|at| is_hidden(*at) && has_content(*at));
        omitted.map(|at| self.columns[at].title).collect()
    }

    /// Returns the width rule of each column. Hides the columns of the highest ranks until the others fit into `limit`,
    /// truncated to their minimum width if necessary. Without a limit, every column is as wide as its content.
    fn constraints(&self, widths: &[u16], limit: Option<u16>) -> Vec<ColumnConstraint> {
        let Some(limit) = limit else { return vec![ColumnConstraint::ContentWidth; self.columns.len()] };
        let least = |(column, width): (&Column, u16)| column.min_width.unwrap_or(width).min(width) + GAP;
        let needed = |rank_max: u8| -> u16 {
            let shown =
                self.columns.iter().zip(widths.iter().copied()).filter(|(column, _)| column.rank <= rank_max);
            shown.map(least).fold(0, u16::saturating_add)
        };
        let ranks = self.columns.iter().map(|column| column.rank);
        let rank_max = ranks.filter(|&rank| needed(rank) <= limit.saturating_add(GAP)).max().unwrap_or(0);
        let constraint = |(column, &width): (&Column, &u16)| match column.min_width {
            _ if column.rank > rank_max => ColumnConstraint::Hidden,
            Some(least) if least < width => ColumnConstraint::LowerBoundary(Width::Fixed(least)),
            _ => ColumnConstraint::ContentWidth,
        };
        self.columns.iter().zip(widths).map(constraint).collect()
    }
}

fn cell(text: &str, color: Color, style: OutputStyle) -> Cell {
    let cell = Cell::new(escape_line(text));
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
        Column::new("ERROR", 2).min_width(8),
        Column::new("URL", 3).min_width(10),
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
        let omitted = |width| table().render(OutputStyle { color: false, width }).omitted_columns;
        assert_eq!(omitted(None), [] as [&str; 0]);
        assert_eq!(omitted(Some(50)), [] as [&str; 0], "a truncated column is not omitted");
        assert_eq!(omitted(Some(14)), ["ERROR", "URL"]);
        let mut table = Table::new(COLUMNS);
        let cells = ["msg_1", "2/6", "", "https://a.example/"];
        table.push(cells.map(|text| (text.to_owned(), Color::Plain)).into());
        assert_eq!(table.render(OutputStyle { color: false, width: Some(14) }).omitted_columns, ["URL"]);
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
