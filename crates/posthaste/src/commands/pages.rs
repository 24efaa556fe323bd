//! Lists of events, page by page: each page is shown when it arrives, so that a list may be of any length.

use anyhow::ensure;
use posthaste_domain::Timestamp;

use crate::cli::ListArgs;
use crate::client::{Client, Event, Page};
use crate::terminal::{self, Listing, Look, time};

/// The most that the API gives at once.
const PAGE_MAX: &str = "200";

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
        let limit = args.limit.to_string();
        let limit = if args.all { PAGE_MAX } else { &limit };
        let mut cursor = args.cursor.clone();
        let mut first = true;
        loop {
            let mut query = self.filters.clone();
            query.push(("limit", limit));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let answer = client.get(&[self.path], &query).await?;
            let page: Page = answer.read()?;
            if args.json {
                terminal::print_answer(answer.as_bytes())?;
            } else {
                self.show_page(&page, first, look)?;
            }
            let Some(next) = page.next_cursor else { return Ok(()) };
            if !args.all {
                let next = terminal::harmless_line(&next);
                terminal::note(&format!(
                    "There are more: add --all, or --cursor '{next}' for the next page."
                ));
                return Ok(());
            }
            ensure!(
                cursor.as_ref() != Some(&next),
                "the server's list does not end: it gave the same page twice"
            );
            cursor = Some(next);
            first = false;
        }
    }

    fn show_page(&self, page: &Page, first: bool, look: Look) -> anyhow::Result<()> {
        if page.events.is_empty() {
            if first {
                terminal::note(self.empty);
            }
            return Ok(());
        }
        let table = (self.table)(&page.events, time::now());
        // A page has widths of its own, so on a terminal it needs its titles; what reads a pipe needs them once.
        let table = if first || look.width.is_some() { table } else { table.untitled() };
        terminal::print(&table.render(look))
    }
}
