//! `posthaste workers`: the workers of all processes, with the age of their last report.

use std::process::ExitCode;
use std::time::Duration;

use posthaste_domain::Timestamp;

use crate::client::{ApiClient, Worker, WorkerList};
use crate::terminal::{self, Color, Column, OutputStyle, Table, time};

const COLUMNS: &[Column] = &[
    Column::new("WORKER", 0).text(16, 48),
    Column::new("VERSION", 1),
    Column::new("HEARTBEAT", 0),
    Column::new("IN FLIGHT", 0).align_right(),
    Column::new("STARTED", 2),
];

/// Age of a heartbeat from which a worker has missed several reports.
const LATE_AFTER: Duration = Duration::from_secs(30);

pub(crate) async fn run(json: bool, client: &ApiClient, style: OutputStyle) -> anyhow::Result<ExitCode> {
    let response = client.get(&["workers"], &[]).await?;
    if json {
        terminal::print_response(response.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let list: WorkerList = response.parse()?;
    if list.workers.is_empty() {
        terminal::note("No worker has reported within the last hour. Start one with `posthaste worker`.");
    } else {
        terminal::print(&render(&list.workers, time::now(), style))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(workers: &[Worker], now: Timestamp, style: OutputStyle) -> String {
    let mut table = Table::new(COLUMNS);
    for worker in workers {
        let age = Duration::from_secs(worker.heartbeat_age_seconds);
        let color = if age >= LATE_AFTER { Color::Bad } else { Color::Good };
        table.push(vec![
            (worker.worker_id.clone(), Color::Plain),
            (worker.version.clone(), Color::Plain),
            (format!("{} ago", time::format_duration(age)), color),
            (worker.in_flight.to_string(), Color::Plain),
            (time::format_age(Some(&worker.started_at), now), Color::Dim),
        ]);
    }
    table.render(style).text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_listed_with_the_age_of_their_heartbeat() {
        let worker = |name: &str, age, in_flight| Worker {
            worker_id: name.to_owned(),
            version: "0.1.0".to_owned(),
            started_at: "2023-11-14T20:13:20.000000Z".to_owned(),
            heartbeat_age_seconds: age,
            in_flight,
        };
        let listed = [worker("delivery-1", 3, 12), worker("delivery-2", 185, 0)];
        let shown = render(&listed, Timestamp::from_secs(1_700_000_000), OutputStyle::PLAIN);
        let expected = "\
WORKER      VERSION  HEARTBEAT  IN FLIGHT  STARTED
delivery-1  0.1.0    3 s ago           12  2 h ago
delivery-2  0.1.0    3 min ago          0  2 h ago";
        assert_eq!(shown, expected);
    }
}
