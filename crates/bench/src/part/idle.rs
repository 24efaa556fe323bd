//! Processor time and memory of a product without events, together with its database server.

use std::time::Duration;

use crate::clock::sleep;
use crate::options::StoreKind;
use crate::part::STOP_PATIENCE;
use crate::product::Product;
use crate::run::Run;

/// Time after the start that is not measured.
const SETTLE: Duration = Duration::from_secs(3);
const DURATION: Duration = Duration::from_secs(10);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let database = run.servers.create(kind);
    let product = Product::start(&run.binary, database.url(), database.directory(), &[]).await;
    sleep(SETTLE).await;
    let cpu = || product.cpu_time() + database.server_time().unwrap_or_default();
    let before = cpu();
    sleep(DURATION).await;
    let used = cpu() - before;
    run.record(kind, "idle_cpu", 100.0 * used.as_secs_f64() / DURATION.as_secs_f64());
    run.record(kind, "idle_memory", product.peak_memory_bytes() as f64 / 1e6);
    product.stop(STOP_PATIENCE).await;
}
