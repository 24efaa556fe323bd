//! `posthaste overview`: the number of events in each state.

use std::process::ExitCode;
use std::time::Duration;

use crate::client::{ApiClient, Overview};
use crate::terminal::{self, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] =
    &[Column::new("EVENTS", 0), Column::new("COUNT", 0).align_right(), Column::new("", 1).text(16, 62)];

pub(crate) async fn run(json: bool, client: &ApiClient, style: OutputStyle) -> anyhow::Result<ExitCode> {
    let response = client.get(&["overview"], &[]).await?;
    if json {
        terminal::print_response(response.as_bytes())?;
    } else {
        terminal::print(&render(&response.parse()?, style))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(overview: &Overview, style: OutputStyle) -> String {
    let oldest = overview.oldest_pending_age_seconds.and_then(|age| Duration::try_from_secs_f64(age).ok());
    let waiting = oldest.map_or_else(String::new, |age| format!("oldest: {}", time::format_duration(age)));
    let advice = if overview.failed_count > 0 { "list them with `posthaste dlq list`" } else { "" };
    let mut table = Table::new(COLUMNS);
    let mut row = |name: &str, count: u64, color: Color, remark: &str| {
        let color = if count > 0 { color } else { Color::Plain };
        table.push(vec![
            (name.to_owned(), Color::Plain),
            (count.to_string(), color),
            (remark.to_owned(), Color::Dim),
        ]);
    };
    row("pending", overview.pending_count, Color::Waiting, &waiting);
    row("  due now", overview.pending_ready_count, Color::Waiting, "");
    row("  retrying", overview.retrying_count, Color::Waiting, "");
    let held = match (overview.held_count, overview.held_count_capped) {
        (0, _) => "",
        (_, false) => "by pauses and circuits: `posthaste destinations list`",
        (_, true) => "or more, by pauses and circuits: `posthaste destinations list`",
    };
    row("  held", overview.held_count, Color::Bad, held);
    let failed_color =
        if overview.failed_count > overview.cancelled_count { Color::Bad } else { Color::Plain };
    row("failed", overview.failed_count, failed_color, advice);
    row("  cancelled", overview.cancelled_count, Color::Plain, "");
    row("delivered", overview.delivered_count, Color::Good, "");
    table.render(style).text
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
            cancelled_count: 1,
            delivered_count: 9_999,
            held_count: 0,
            held_count_capped: false,
            oldest_pending_age_seconds: Some(185.2),
        }
    }

    #[test]
    fn counts_are_aligned_and_failed_events_come_with_advice() {
        let expected = "\
EVENTS       COUNT
pending         12  oldest: 3 min
  due now        3
  retrying       4
  held           0
failed           2  list them with `posthaste dlq list`
  cancelled      1
delivered     9999";
        assert_eq!(render(&overview(), OutputStyle::PLAIN), expected);
    }

    #[test]
    fn without_failed_events_there_is_no_advice() {
        let healthy =
            Overview { failed_count: 0, cancelled_count: 0, oldest_pending_age_seconds: None, ..overview() };
        let shown = render(&healthy, OutputStyle::PLAIN);

        assert!(!shown.contains("dlq") && !shown.contains("oldest"), "{shown}");
    }
}
