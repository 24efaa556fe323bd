//! Lists of events, page by page: each page is shown when it arrives, so that a list may be of any length.

use anyhow::bail;
use posthaste_domain::Timestamp;

use crate::cli::ListArgs;
use crate::client::{Answer, Client, ClientError, Event, Page};
use crate::terminal::{self, Laid, Listing, Look, time};

/// The most that the API gives at once.
const PAGE_MAX: u32 = 200;

/// Goes through a list of the API.
pub(super) struct Pages<'a> {
    client: &'a Client,
    path: &'a str,
    filters: Vec<(&'a str, &'a str)>,
    limit: String,
    cursor: Option<String>,
    /// Whether the next request is made of what a person gave: cursors of later pages are the server's.
    by_hand: bool,
    rest: Rest,
}

/// What follows the page that came last.
enum Rest {
    More,
    Nothing,
    /// The same page again, and again.
    NoEnd,
}

impl<'a> Pages<'a> {
    /// All of a list, in as few pages as can be.
    pub(super) fn all(client: &'a Client, path: &'a str) -> Self {
        Self {
            client,
            path,
            filters: Vec::new(),
            limit: PAGE_MAX.to_string(),
            cursor: None,
            by_hand: false,
            rest: Rest::More,
        }
    }

    /// The next page, as it came and as it is read; none after the last.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<(Answer, Page)>> {
        match self.rest {
            Rest::More => {}
            Rest::Nothing => return Ok(None),
            Rest::NoEnd => bail!("the server's list does not end: it gave the same page twice"),
        }
        let mut query = self.filters.clone();
        query.push(("limit", &self.limit));
        query.extend(self.cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let answer = self.client.get(&[self.path], &query).await;
        let answer = if self.by_hand { answer.map_err(ClientError::of_arguments) } else { answer }?;
        let page: Page = answer.read()?;
        self.rest = match &page.next_cursor {
            None => Rest::Nothing,
            next if *next == self.cursor => Rest::NoEnd,
            _ => Rest::More,
        };
        self.cursor.clone_from(&page.next_cursor);
        self.by_hand = false;
        Ok(Some((answer, page)))
    }
}

/// A list of the API and how its events are shown.
pub(super) struct List<'a> {
    pub(super) path: &'a str,
    pub(super) filters: Vec<(&'a str, &'a str)>,
    pub(super) table: fn(&[Event], Timestamp) -> Listing,
    /// What is said when there is nothing to list.
    pub(super) empty: &'a str,
}

impl List<'_> {
    pub(super) async fn show(&self, args: &ListArgs, client: &Client, look: Look) -> anyhow::Result<()> {
        let limit = if args.all { PAGE_MAX } else { args.limit };
        let mut pages = Pages {
            filters: self.filters.clone(),
            limit: limit.to_string(),
            cursor: args.cursor.clone(),
            by_hand: true,
            ..Pages::all(client, self.path)
        };
        let mut left_out = Vec::new();
        let mut first = true;
        while let Some((answer, page)) = pages.next().await? {
            if args.json {
                terminal::print_answer(answer.as_bytes())?;
            } else {
                for column in self.show_page(&page, first, look)? {
                    if !left_out.contains(&column) {
                        left_out.push(column);
                    }
                }
            }
            if !args.all {
                note_more(page.next_cursor.as_deref());
                break;
            }
            first = false;
        }
        terminal::note_left_out(&left_out);
        Ok(())
    }

    /// Returns the columns that there was no room for.
    fn show_page(&self, page: &Page, first: bool, look: Look) -> anyhow::Result<Vec<&'static str>> {
        if page.events.is_empty() {
            if first {
                terminal::note(self.empty);
            }
            return Ok(Vec::new());
        }
        let table = (self.table)(&page.events, time::now());
        // A page has widths of its own, so on a terminal it needs its titles; what reads a pipe needs them once.
        let table = if first || look.width.is_some() { table } else { table.untitled() };
        let Laid { text, left_out } = table.lay_out(look);
        terminal::print(&text)?;
        Ok(left_out)
    }
}

fn note_more(next_cursor: Option<&str>) {
    if let Some(next) = next_cursor.map(terminal::harmless_line) {
        terminal::note(&format!("There are more: add --all, or --cursor '{next}' for the next page."));
    }
}
