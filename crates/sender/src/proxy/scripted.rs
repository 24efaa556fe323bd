//! A proxy for tests whose whole response is written before the request arrives.

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::{Proxy, TunnelError, TunnelTarget};
use crate::shortage::AttemptError;

/// Larger than any request to a proxy and any response in these tests.
const BUFFER_LEN: usize = 256 * 1_024;

/// The result of requesting a tunnel, with the bytes of both directions.
pub(super) struct TunnelAttempt {
    pub(super) result: Result<(), TunnelError>,
    /// Bytes that the proxy received.
    pub(super) request: Vec<u8>,
    /// Bytes of the proxy's response that were not read.
    pub(super) unread: Vec<u8>,
}

impl TunnelAttempt {
    pub(super) fn detail(self) -> String {
        match AttemptError::from(self.result.unwrap_err()) {
            AttemptError::Failed(failure) => failure.detail,
            AttemptError::Shortage(shortage) => panic!("{shortage}"),
        }
    }
}

/// Requests a tunnel from a proxy that sends `response` and closes the connection.
pub(super) async fn open_tunnel(proxy: &str, target: TunnelTarget<'_>, response: &[u8]) -> TunnelAttempt {
    let (mut client, mut server) = duplex(BUFFER_LEN);
    server.write_all(response).await.unwrap();
    server.shutdown().await.unwrap();
    let result = Proxy::parse(proxy).unwrap().open_tunnel(&mut client, &target).await;
    let (mut request, mut unread) = (Vec::new(), Vec::new());
    client.read_to_end(&mut unread).await.unwrap();
    drop(client);
    server.read_to_end(&mut request).await.unwrap();
    TunnelAttempt { result, request, unread }
}
