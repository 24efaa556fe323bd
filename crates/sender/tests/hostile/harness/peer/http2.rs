//! Reads HTTP/2 requests frame by frame and writes responses. Header blocks are counted but not decoded.

use std::io;

use crate::harness::frames::{self, ACK, END_HEADERS, END_STREAM, HEADER_BYTES, PREFACE, STATUS_200};
use crate::harness::peer::{Part, Peer};

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Peer {
    pub(super) async fn read_http2(&mut self, part: Part) -> io::Result<()> {
        self.read_preface().await?;
        loop {
            let frame = self.read_frame().await?;
            match frame.kind {
                frames::HEADERS => self.log.record_request(format!("HTTP/2 stream {}", frame.stream)),
                frames::PING if frame.flags & ACK == 0 => {
                    self.socket.write(&frames::frame(frames::PING, ACK, 0, &frame.payload)).await?;
                }
                _ => {}
            }
            if frame.ends_part(part) {
                self.stream = frame.stream;
                return Ok(());
            }
        }
    }

    pub(super) async fn respond_http2(&mut self, body: &str) -> io::Result<()> {
        let stream = self.stream;
        let head = frames::headers(0, stream, STATUS_200);
        let body = frames::frame(frames::DATA, END_STREAM, stream, body.as_bytes());
        self.socket.write(&[head, body].concat()).await
    }

    async fn read_preface(&mut self) -> io::Result<()> {
        if !self.preface_read {
            let mut preface = [0; PREFACE.len()];
            self.read_exact(&mut preface).await?;
            assert_eq!(preface, PREFACE, "the sender speaks HTTP/2");
            self.preface_read = true;
        }
        Ok(())
    }

    async fn read_frame(&mut self) -> io::Result<Frame> {
        let mut header = [0; HEADER_BYTES];
        self.read_exact(&mut header).await?;
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = header;
        let length = usize::try_from(u32::from_be_bytes([0, l0, l1, l2])).unwrap();
        let mut payload = vec![0; length];
        self.read_exact(&mut payload).await?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]), payload })
    }
}

impl Frame {
    /// Returns whether this frame is the last of this part of a request.
    fn ends_part(&self, part: Part) -> bool {
        match (part, self.kind) {
            (Part::Head, frames::HEADERS | frames::CONTINUATION) => self.flags & END_HEADERS != 0,
            (Part::Whole, frames::HEADERS | frames::DATA) => self.flags & END_STREAM != 0,
            _ => false,
        }
    }
}
