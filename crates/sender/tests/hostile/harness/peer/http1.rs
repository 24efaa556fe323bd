//! Reads HTTP/1.1 requests and writes responses.

use std::io;

use crate::harness::peer::{Part, Peer};

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

impl Peer {
    pub(super) async fn read_http1(&mut self, part: Part) -> io::Result<()> {
        let head = self.read_head().await?;
        let body_bytes = content_length(&head);
        self.log.record_request(head);
        if part == Part::Whole {
            self.skip(body_bytes).await?;
        }
        Ok(())
    }

    pub(super) async fn respond_http1(&mut self, body: &str) -> io::Result<()> {
        let length = body.len();
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        self.socket.write(response.as_bytes()).await
    }

    /// Reads byte by byte, so that no byte of the body is read.
    async fn read_head(&mut self) -> io::Result<String> {
        let mut head = Vec::with_capacity(1_024);
        while !head.ends_with(END_OF_HEAD) {
            let mut byte = [0];
            self.read_exact(&mut byte).await?;
            head.extend(byte);
        }
        Ok(String::from_utf8(head).expect("the sender writes ASCII heads"))
    }

    async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let mut buffer = [0; 16_384];
        let mut left = bytes;
        while left > 0 {
            let next = left.min(buffer.len());
            self.read_exact(&mut buffer[..next]).await?;
            left -= next;
        }
        Ok(())
    }
}

fn content_length(head: &str) -> usize {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.expect("the sender sends a content-length").parse().unwrap()
}
