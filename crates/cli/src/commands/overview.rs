//! `posthaste overview`: where events stand, in numbers.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::{Client, Overview};
use crate::terminal::{self, Column, Listing, Look, Paint, time};

const COLUMNS: &[Column] = &[Column::new("EVENTS", 0), Column::new("COUNT", 0).right(), Column::new("", 1)];

pub(crate) async fn run(json: bool, client: &Client, look: Look) -> anyhow::Result<ExitCode> {
    let answer = client.get(&["overview"], &[]).await?;
    if json {
        terminal::print_answer(answer.as_bytes())?;
    } else {
        terminal::print(&render(&answer.read()?, look))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(overview: &Overview, look: Look) -> String {
    let oldest = overview.oldest_pending_age_seconds.and_then(|age| Duration::try_from_secs_f64(age).ok());
    let waiting = oldest.map_or_else(String::new, |age| format!("the oldest for {}", time::in_words(age)));
    let repair = if overview.failed_count > 0 { "see them with `posthaste dlq list`" } else { "" };
    let mut listing = Listing::of(COLUMNS);
    let mut row = |name: &str, count: u64, paint: Paint, remark: &str| {
        let paint = if count > 0 { paint } else { Paint::Plain };
        listing.push(vec![
            (name.to_owned(), Paint::Plain),
            (count.to_string(), paint),
            (remark.to_owned(), Paint::Dim),
        ]);
    };
    row("pending", overview.pending_count, Paint::Waiting, &waiting);
    row("  due now", overview.pending_ready_count, Paint::Waiting, "");
    row("  retrying", overview.retrying_count, Paint::Waiting, "");
    row("failed", overview.failed_count, Paint::Bad, repair);
    row("delivered", overview.delivered_count, Paint::Good, "");
    listing.render(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview() -> Overview {
        Overview {
            pending_count: 12,
            pending_ready_count: 3,
            retrying_count: 4,
            failed_count: 2,
            delivered_count: 9_999,
            oldest_pending_age_seconds: Some(185.2),
        }
    }

    #[test]
    fn numbers_stand_under_each_other_with_what_to_do_beside_them() {
        let expected = "\
EVENTS      COUNT
pending        12  the oldest for 3 min
  due now       3
  retrying      4
failed          2  see them with `posthaste dlq list`
delivered    9999";
        assert_eq!(render(&overview(), Look::PLAIN), expected);
    }

    #[test]
    fn nothing_failed_needs_no_advice() {
        let calm = Overview { failed_count: 0, oldest_pending_age_seconds: None, ..overview() };
        let shown = render(&calm, Look::PLAIN);
        assert!(!shown.contains("dlq") && !shown.contains("oldest"), "{shown}");
    }
}
