//! Tables that fit a terminal: a row is one line, columns give way in a fixed order, ids are never cut.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets,
};
use crossterm::style::ContentStyle;

use super::{Look, Paint, harmless_line};

/// Between two columns.
const GAP: u16 = 2;

pub(crate) struct Column {
    title: &'static str,
    /// Columns with the highest rank are left out first where space is short; 0 always stays.
    rank: u8,
    /// How narrow it may get. None: as wide as its widest cell.
    shrinks_to: Option<u16>,
    alignment: CellAlignment,
}

impl Column {
    pub(crate) const fn new(title: &'static str, rank: u8) -> Self {
        Self { title, rank, shrinks_to: None, alignment: CellAlignment::Left }
    }

    /// May be cut to so many characters.
    pub(crate) const fn shrinking_to(self, width: u16) -> Self {
        Self { shrinks_to: Some(width), ..self }
    }

    pub(crate) const fn right(self) -> Self {
        Self { alignment: CellAlignment::Right, ..self }
    }
}

/// A listing as it fits.
pub(crate) struct Laid {
    pub(crate) text: String,
    /// The titles of columns that hold something and found no room.
    pub(crate) left_out: Vec<&'static str>,
}

/// Rows under the same columns.
pub(crate) struct Listing {
    columns: &'static [Column],
    rows: Vec<Vec<(String, Paint)>>,
    titled: bool,
}

impl Listing {
    pub(crate) const fn of(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new(), titled: true }
    }

    /// A row has one cell for each column.
    pub(crate) fn push(&mut self, row: Vec<(String, Paint)>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Goes on with a table whose titles were already shown.
    pub(crate) fn untitled(self) -> Self {
        Self { titled: false, ..self }
    }

    pub(crate) fn render(&self, look: Look) -> String {
        self.lay_out(look).text
    }

    pub(crate) fn lay_out(&self, look: Look) -> Laid {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.style_text_only();
        if look.colour {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        if self.titled {
            table.set_header(self.columns.iter().map(|column| cell(column.title, Paint::Dim, look)));
        }
        for row in &self.rows {
            let mut cells: Row =
                row.iter().map(|(text, paint)| cell(text, *paint, look)).collect::<Vec<_>>().into();
            cells.max_height(1);
            table.add_row(cells);
        }
        let constraints = self.constraints(&table.column_max_content_widths(), look.width);
        let left_out = self.left_out(&constraints);
        for ((column, laid_out), constraint) in
            self.columns.iter().zip(table.column_iter_mut()).zip(constraints)
        {
            laid_out.set_padding((0, GAP));
            laid_out.set_cell_alignment(column.alignment);
            laid_out.set_constraint(constraint);
        }
        if let Some(width) = look.width {
            // The gap behind the last column is trimmed below.
            table.set_width(width.saturating_add(GAP)).set_content_arrangement(ContentArrangement::Dynamic);
        }
        Laid { text: table.trim_fmt(), left_out }
    }

    fn left_out(&self, constraints: &[ColumnConstraint]) -> Vec<&'static str> {
        let holds_something = |at: usize| self.rows.iter().any(|row| !row[at].0.is_empty());
        let hidden = constraints.iter().enumerate().filter(|(_, kept)| **kept == ColumnConstraint::Hidden);
        hidden.filter(|(at, _)| holds_something(*at)).map(|(at, _)| self.columns[at].title).collect()
    }

    fn constraints(&self, widths: &[u16], limit: Option<u16>) -> Vec<ColumnConstraint> {
        let Some(limit) = limit else { return vec![ColumnConstraint::ContentWidth; self.columns.len()] };
        let least = |(column, width): (&Column, u16)| column.shrinks_to.unwrap_or(width).min(width) + GAP;
        let needed = |rank_max: u8| -> u16 {
            let kept =
                self.columns.iter().zip(widths.iter().copied()).filter(|(column, _)| column.rank <= rank_max);
            kept.map(least).fold(0, u16::saturating_add)
        };
        let ranks = self.columns.iter().map(|column| column.rank);
        let fitting = ranks.filter(|&rank| needed(rank) <= limit.saturating_add(GAP)).max().unwrap_or(0);
        let constraint = |(column, &width): (&Column, &u16)| match column.shrinks_to {
            _ if column.rank > fitting => ColumnConstraint::Hidden,
            Some(least) if least < width => ColumnConstraint::LowerBoundary(Width::Fixed(least)),
            _ => ColumnConstraint::ContentWidth,
        };
        self.columns.iter().zip(widths).map(constraint).collect()
    }
}

fn cell(text: &str, paint: Paint, look: Look) -> Cell {
    let cell = Cell::new(harmless_line(text));
    if !look.colour || text.is_empty() {
        return cell;
    }
    let ContentStyle { foreground_color, attributes, .. } = paint.style();
    let cell = cell.add_attributes(Attribute::iterator().filter(|one| attributes.has(*one)).collect());
    match foreground_color {
        Some(color) => cell.fg(color),
        None => cell,
    }
}

/// Names and values, one pair a line, values aligned.
pub(crate) fn fields(pairs: &[(&str, String)], look: Look) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        format!("{}  {}\n", Paint::Dim.on(&format!("{name:width$}"), look), harmless_line(value))
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::new("ID", 0),
        Column::new("TRIES", 1).right(),
        Column::new("ERROR", 2).shrinking_to(8),
        Column::new("URL", 3).shrinking_to(10),
    ];

    fn listing() -> Listing {
        let mut listing = Listing::of(COLUMNS);
        let plain = |text: &str| (text.to_owned(), Paint::Plain);
        listing.push(vec![
            plain("msg_1"),
            plain("2/6"),
            plain("503 the server is busy"),
            plain("https://shop.example/hooks"),
        ]);
        listing.push(vec![
            plain("msg_22"),
            plain("10/12"),
            plain(""),
            ("https://a.example/".into(), Paint::Bad),
        ]);
        listing
    }

    fn at(width: u16) -> String {
        listing().render(Look { colour: false, width: Some(width) })
    }

    #[test]
    fn a_pipe_gets_everything_on_one_line_each() {
        let expected = "\
ID      TRIES  ERROR                   URL
msg_1     2/6  503 the server is busy  https://shop.example/hooks
msg_22  10/12                          https://a.example/";
        assert_eq!(listing().render(Look::PLAIN), expected);
    }

    #[test]
    fn a_terminal_that_is_wide_enough_gets_the_same() {
        assert_eq!(at(200), listing().render(Look::PLAIN));
        assert_eq!(at(65), listing().render(Look::PLAIN));
    }

    #[test]
    fn columns_shrink_before_they_are_left_out() {
        let shown = at(50);
        assert!(shown.lines().all(|line| line.chars().count() <= 50), "{shown}");
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.contains("URL") && shown.contains('…') && shown.contains("msg_22"), "{shown}");
    }

    #[test]
    fn columns_are_left_out_in_their_order_and_the_id_stays_whole() {
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
    fn what_is_left_out_is_told_unless_it_is_empty() {
        let left_out = |width| listing().lay_out(Look { colour: false, width }).left_out;
        assert_eq!(left_out(None), [] as [&str; 0]);
        assert_eq!(left_out(Some(50)), [] as [&str; 0], "what is cut is not left out");
        assert_eq!(left_out(Some(14)), ["ERROR", "URL"]);
        let mut listing = Listing::of(COLUMNS);
        let cells = ["msg_1", "2/6", "", "https://a.example/"];
        listing.push(cells.map(|text| (text.to_owned(), Paint::Plain)).into());
        assert_eq!(listing.lay_out(Look { colour: false, width: Some(14) }).left_out, ["URL"]);
    }

    #[test]
    fn a_paint_is_the_same_in_a_table_and_beside_it() {
        const ONE: &[Column] = &[Column::new("", 0)];
        let look = Look::coloured(Some(80));
        for paint in [Paint::Plain, Paint::Dim, Paint::Bold, Paint::Good, Paint::Waiting, Paint::Bad] {
            let mut listing = Listing::of(ONE).untitled();
            listing.push(vec![("text".to_owned(), paint)]);
            assert_eq!(listing.render(look).trim_end(), paint.on("text", look), "{paint:?}");
        }
    }

    #[test]
    fn colours_are_there_only_where_they_show() {
        assert!(!listing().render(Look { colour: false, width: Some(80) }).contains('\u{1b}'));
        let coloured = listing().render(Look::coloured(Some(80)));
        assert!(coloured.contains("\u{1b}[38;5;1mhttps://a.example/"), "{coloured}");
    }

    #[test]
    fn a_cell_cannot_break_out_of_its_line() {
        const ONE: &[Column] = &[Column::new("A", 0)];
        let mut listing = Listing::of(ONE);
        listing.push(vec![("x\ny\u{1b}[31m".into(), Paint::Plain)]);
        assert_eq!(listing.render(Look::PLAIN), "A\nx\\ny\\u{1b}[31m");
    }

    #[test]
    fn fields_are_aligned() {
        let pairs = [("id", "msg_1".to_owned()), ("last error", "503".to_owned())];
        assert_eq!(fields(&pairs, Look::PLAIN), "id          msg_1\nlast error  503\n");
    }
}
