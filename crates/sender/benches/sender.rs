//! Our sender beside a bare pooled client that signs, in one run, to one sink.
//!
//! ```text
//! cargo bench -p posthaste-sender
//! ```
//!
//! The bare client is hyper-util's, with the same headers and the same signature, and nothing else: no deadline, no
//! guard, no bounds. The sink is a process of its own, so that processor time is that of the client alone. The two
//! take turns, and what is compared is the median of their rounds.
#![forbid(unsafe_code)]

#[path = "sender/bare.rs"]
mod bare;
#[path = "sender/contest.rs"]
mod contest;
#[path = "sender/sink.rs"]
mod sink;

use contest::Size;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == sink::ARGUMENT) {
        return sink::serve();
    }
    // Without cargo bench this is a test run: it shows that everything works, and measures nothing.
    let size = if arguments.iter().any(|argument| argument == "--bench") { Size::FULL } else { Size::TRIAL };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be made").block_on(async {
        for payload_bytes in [512, 64 * 1024] {
            contest::hold(payload_bytes, size).await;
        }
    });
}
