//! Lists of events and destinations, page by page. Each page is printed when it arrives, so that a list of any length
//! needs little memory.

use std::marker::PhantomData;

use anyhow::bail;
use posthaste_domain::Timestamp;

use crate::cli::ListArgs;
use crate::client::{ApiClient, ApiResponse, ClientError, ListPage};
use crate::terminal::{self, Omissions, OutputStyle, RenderedTable, Table, time};

/// Maximum number of items in a page of the API.
const PAGE_ITEMS_MAX: u32 = 200;

/// The pages of a list, which are requested one after the other.
pub(super) struct Pages<'a, P> {
    client: &'a ApiClient,
    path: &'a [&'a str],
    filters: Vec<(&'a str, &'a str)>,
    limit: String,
    cursor: Option<String>,
    /// Whether the next request consists of the user's arguments, so that a bad request is bad usage. The cursors of
    /// later pages come from the server.
    from_arguments: bool,
    state: PagingState,
    page: PhantomData<P>,
}

/// Whether another page follows the page received last.
enum PagingState {
    More,
    Done,
    /// The server returned the cursor that it was sent: the list would never end.
    Looping,
}

impl<'a, P: ListPage> Pages<'a, P> {
    /// Starts at the first page of a whole list, with the largest pages.
    pub(super) fn all(client: &'a ApiClient, path: &'a [&'a str], filters: Vec<(&'a str, &'a str)>) -> Self {
        Self {
            client,
            path,
            filters,
            limit: PAGE_ITEMS_MAX.to_string(),
            cursor: None,
            from_arguments: false,
            state: PagingState::More,
            page: PhantomData,
        }
    }

    /// Requests the next page. Returns the response and its parsed page, or None after the last page.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<(ApiResponse, P)>> {
        match self.state {
            PagingState::More => {}
            PagingState::Done => return Ok(None),
            PagingState::Looping => bail!("the server's list does not end: it returned the same page twice"),
        }
        let mut query = self.filters.clone();
        query.push(("limit", &self.limit));
        query.extend(self.cursor.as_deref().map(|cursor| (P::CURSOR_PARAMETER, cursor)));
        let response = self.client.get_from(P::API, self.path, &query).await;
        let response =
            if self.from_arguments { response.map_err(ClientError::blame_arguments) } else { response }?;
        let page: P = response.parse()?;
        self.state = match page.next_cursor() {
            None => PagingState::Done,
            next if next == self.cursor.as_ref() => PagingState::Looping,
            _ => PagingState::More,
        };
        self.cursor = page.next_cursor().cloned();
        self.from_arguments = false;
        Ok(Some((response, page)))
    }
}

/// A command that prints a list: the API's path, the filters, and how to print the items.
pub(super) struct ListCommand<'a, P: ListPage> {
    pub(super) path: &'a [&'a str],
    pub(super) filters: Vec<(&'a str, &'a str)>,
    pub(super) table: fn(&[P::Item], Timestamp) -> Table,
    /// The note that replaces an empty table.
    pub(super) empty: &'a str,
    /// What the items are called, in the plural.
    pub(super) items: &'a str,
}

impl<P: ListPage> ListCommand<'_, P> {
    /// Prints one page, or all pages with `--all`.
    pub(super) async fn show(
        &self,
        args: &ListArgs,
        client: &ApiClient,
        style: OutputStyle,
    ) -> anyhow::Result<()> {
        let limit = if args.all { PAGE_ITEMS_MAX } else { args.limit };
        let mut pages: Pages<'_, P> = Pages {
            limit: limit.to_string(),
            cursor: args.cursor.clone(),
            from_arguments: true,
            ..Pages::all(client, self.path, self.filters.clone())
        };
        let style = style.widened(args.wide);
        let mut omissions = Omissions::default();
        let mut is_printed = false;
        while let Some((response, mut page)) = pages.next().await? {
            if args.json {
                terminal::print_response(response.as_bytes())?;
                is_printed = true;
            } else if !page.items().is_empty() {
                page.complete(client).await;
                omissions.extend(self.show_page(&page, !is_printed, style)?);
                is_printed = true;
            }
            // A page of a search may be empty and still have a next one.
            if !args.all && is_printed {
                self.note_more(page.next_cursor());
                break;
            }
        }
        if !is_printed {
            terminal::note(self.empty);
        }
        terminal::note_omissions(&omissions, "--wide");
        Ok(())
    }

    /// Prints a page and returns what did not fit the terminal.
    fn show_page(&self, page: &P, first: bool, style: OutputStyle) -> anyhow::Result<Omissions> {
        let table = (self.table)(page.items(), time::now());
        // On a terminal the columns of each page have their own widths, so each page repeats its titles. A pipe gets
        // them once.
        let table = if first || style.width.is_some() { table } else { table.without_header() };
        let RenderedTable { text, omissions } = table.render(style);
        terminal::print(&text)?;
        Ok(omissions)
    }

    fn note_more(&self, next_cursor: Option<&String>) {
        if let Some(next) = next_cursor.map(|cursor| terminal::escape_line(cursor)) {
            let items = self.items;
            terminal::note(&format!(
                "There are more {items}: add --all, or --cursor '{next}' for the next page."
            ));
        }
    }
}
