//! Query plans of reports, of the history and of the list of workers.

use posthaste_domain::DestinationId;
use posthaste_store::{ActivityReport, HistoryRange, Store as _};

use super::explain_server::{ExplainServer, scans_of};
use crate::activity::report;
use crate::fixture::*;

#[tokio::test]
async fn every_statement_of_activity_uses_an_index_on_a_fresh_and_on_a_filled_database() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    let fill = "
        INSERT INTO app.webhook_activity
        SELECT s.step, to_timestamp(floor(extract(epoch FROM now()) / s.step) * s.step - n * s.step), 1, 0, 0, '{}', 0, 0
        FROM unnest(ARRAY[10, 60, 1800]) AS s (step), generate_series(1, 1400) AS n;
        INSERT INTO app.webhook_workers
        SELECT 'start-' || n, 'w', '0.1.0', now(), now() - n * interval '1 minute', 0, 1, '{}', '{}', '{}', '{}', '{}'
        FROM generate_series(1, 1000) AS n;
        ANALYZE";
    for sequence in 1..=2 {
        let plans = explained
            .plans_during(async {
                let activity = store.activity();
                activity.report(&report("p", sequence)).await.unwrap();
                activity.report(&ActivityReport { is_last: true, ..report("q", sequence) }).await.unwrap();
                activity.history(HistoryRange::Month).await.unwrap();
                activity.workers().await.unwrap();
                activity.receivers(&[DestinationId(1)]).await.unwrap();
            })
            .await;
        for (fragments, index) in [
            (["FROM app.webhook_activity a", "ORDER BY a.at"], "webhook_activity_at"),
            (["old_buckets AS", "FOR UPDATE SKIP LOCKED"], "webhook_activity_at"),
            (["old_buckets AS", "FOR UPDATE SKIP LOCKED"], "webhook_workers_heartbeat_at"),
            (["FROM app.webhook_workers w", "ORDER BY w.heartbeat_at DESC"], "webhook_workers_heartbeat_at"),
            (["FROM app.webhook_workers w", "CROSS JOIN LATERAL unnest"], "webhook_workers_heartbeat_at"),
            (
                ["DELETE FROM app.webhook_workers w WHERE w.process = $1", "accepted"],
                "webhook_workers_process",
            ),
        ] {
            let scans = scans_of(&plans, &fragments);
            assert!(scans.iter().any(|scan| scan.index == index), "{index} is not used: {scans:#?}");
        }
        let tables = ["webhook_activity", "webhook_workers"];
        let scans = plans.iter().flat_map(|plan| &plan.scans);
        let sequential: Vec<_> =
            scans.filter(|scan| scan.node == "Seq Scan" && tables.contains(&scan.table.as_str())).collect();
        assert!(sequential.is_empty(), "{sequential:?}");
        if sequence == 1 {
            query_text(&explained.server, &explained.database.name, fill);
        }
    }
}
