//! Compares the sender with a bare pooled client that signs, in one run, against one sink.
//!
//! ```text
//! cargo bench -p posthaste-sender
//! ```
//!
//! The bare client is hyper-util's, with the same headers and the same signature, but without deadline, guard or limits.
//! The sink is a separate process, so that the measured processor time is the client's. The two clients alternate, and
//! the result is the median of their rounds.
#![forbid(unsafe_code)]

#[path = "sender/bare.rs"]
mod bare;
#[path = "sender/comparison.rs"]
mod comparison;
#[path = "sender/sink.rs"]
mod sink;

use comparison::BenchmarkSize;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == sink::ARGUMENT) {
        return sink::serve();
    }
    // Without cargo bench this is a short test run, which measures nothing.
    let size = if arguments.iter().any(|argument| argument == "--bench") {
        BenchmarkSize::FULL
    } else {
        BenchmarkSize::TRIAL
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the runtime starts").block_on(async {
        for payload_bytes in [512, 64 * 1024] {
            comparison::run(payload_bytes, size).await;
        }
    });
}
