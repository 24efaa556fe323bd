//! A proxy that has said everything before it was asked, for tests.

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::{NoTunnel, Proxy, TunnelTarget};
use crate::failure::Failure;

/// More than any request to a proxy, and more than any answer in these tests.
const BUFFER_LEN: usize = 256 * 1_024;

/// What became of asking a proxy.
pub(super) struct Asked {
    pub(super) result: Result<(), NoTunnel>,
    /// What the proxy was sent.
    pub(super) request: Vec<u8>,
    /// What was left unread of what the proxy said.
    pub(super) rest: Vec<u8>,
}

impl Asked {
    pub(super) fn detail(self) -> String {
        Failure::from(self.result.unwrap_err()).detail
    }
}

/// Asks a proxy that says `answer` and closes the connection.
pub(super) async fn ask(proxy: &str, target: TunnelTarget<'_>, answer: &[u8]) -> Asked {
    let (mut ours, mut theirs) = duplex(BUFFER_LEN);
    theirs.write_all(answer).await.unwrap();
    theirs.shutdown().await.unwrap();
    let result = Proxy::parse(proxy).unwrap().tunnel(&mut ours, &target).await;
    let (mut request, mut rest) = (Vec::new(), Vec::new());
    ours.read_to_end(&mut rest).await.unwrap();
    drop(ours);
    theirs.read_to_end(&mut request).await.unwrap();
    Asked { result, request, rest }
}
