//! Benchmark of the stores, without HTTP.
//!
//! ```text
//! cargo run --release -p posthaste-store-bench -- postgres            # rates and WAL, about a minute
//! cargo run --release -p posthaste-store-bench -- postgres backlog    # with millions of rows, about ten minutes
//! cargo run --release -p posthaste-store-bench -- sqlite
//! ```
//!
//! Each figure is printed with a description of its measurement. The benchmark starts its own PostgreSQL server with
//! `fsync` and `synchronous_commit` on, on the same machine; SQLite is a file with `synchronous=FULL`.
#![forbid(unsafe_code)]

mod cpu;
mod load;
mod measure;
mod scenario;
mod subject;

use std::process::ExitCode;

const USAGE: &str = "usage: posthaste-store-bench postgres|sqlite [rates|trickle|backlog|all]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| *argument != "--bench").collect();
    let (store, scenario) = match arguments.as_slice() {
        [store @ ("postgres" | "sqlite")] => (*store, "rates"),
        [store @ ("postgres" | "sqlite"), scenario @ ("rates" | "trickle" | "backlog" | "all")] => {
            (*store, *scenario)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    runtime.block_on(async {
        if matches!(scenario, "rates" | "all") {
            scenario::rates(store).await;
        }
        if matches!(scenario, "trickle" | "all") {
            scenario::trickle(store).await;
        }
        if matches!(scenario, "backlog" | "all") {
            scenario::backlog(store).await;
        }
    });
    ExitCode::SUCCESS
}
