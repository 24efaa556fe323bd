//! Measures the stores, without sending anything.
//!
//! ```text
//! cargo run --release -p posthaste-store-bench -- postgres            # rates and WAL, about a minute
//! cargo run --release -p posthaste-store-bench -- postgres backlog    # beside millions of rows, about ten minutes
//! cargo run --release -p posthaste-store-bench -- sqlite
//! ```
//!
//! Every figure is printed with what was done for it. PostgreSQL is a server of the benchmark's own with `fsync` and
//! `synchronous_commit` on, on the same machine as the client; SQLite is a file with `synchronous=FULL`.
#![forbid(unsafe_code)]

mod cpu;
mod load;
mod measure;
mod scenario;
mod subject;

use std::process::ExitCode;

const USAGE: &str = "usage: posthaste-store-bench postgres|sqlite [rates|backlog|beside|all]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    let (store, what) = match words.as_slice() {
        [store @ ("postgres" | "sqlite")] => (*store, "rates"),
        [store @ ("postgres" | "sqlite"), what @ ("rates" | "backlog" | "beside" | "all")] => (*store, *what),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    runtime.block_on(async {
        if matches!(what, "rates" | "all") {
            scenario::rates(store).await;
        }
        if matches!(what, "beside" | "all") {
            scenario::beside(store).await;
        }
        if matches!(what, "backlog" | "all") {
            scenario::backlog(store).await;
        }
    });
    ExitCode::SUCCESS
}
