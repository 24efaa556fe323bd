//! The payload is one buffer, from the store to the socket: an attempt makes no copy of it.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[path = "delivery/receiver.rs"]
#[expect(dead_code, reason = "only a part of the well-behaved receiver is needed to count bytes")]
mod receiver;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use receiver::{SECRET, lease, send, sender};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const PAYLOAD_BYTES: usize = 16 * 1024 * 1024;
/// What an attempt may have allocated at any moment: heads, headers, buffers. A hundredth of the payload.
const BESIDE_IT_MAX: usize = PAYLOAD_BYTES / 100;

/// Reads everything into one small buffer of its own and answers when the payload is there.
async fn receiver_of_one_buffer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut received = 0;
            while received < PAYLOAD_BYTES {
                received += stream.read(&mut buffer).await.unwrap();
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
        }
    });
    url
}

#[tokio::test]
async fn an_attempt_allocates_no_copy_of_the_payload() {
    let sender = sender(&[SECRET], |_| ());
    let mut lease = lease(&receiver_of_one_buffer().await);
    lease.payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    // The first attempt also makes what is made once.
    for attempts in 0..3 {
        lease.attempts = attempts;
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        assert_eq!(send(&sender, &lease).await.http_status(), Some(200));
        let beside_it = ALLOCATED.peak_usage() - before;
        assert!(beside_it < BESIDE_IT_MAX, "{beside_it} bytes beside a payload of {PAYLOAD_BYTES}");
    }
}
