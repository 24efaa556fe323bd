//! Opens a tunnel through a SOCKS5 proxy: RFC 1928, and RFC 1929 for user name and password.
//!
//! The length of every field is known before it is read, so no byte beyond the proxy's response is read.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Credentials, TunnelError, TunnelTarget, io_error, proxy_error, target_error};

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
const COMMAND_CONNECT: u8 = 1;
const RESERVED: u8 = 0;

const METHOD_NO_AUTHENTICATION: u8 = 0;
const METHOD_PASSWORD: u8 = 2;
const METHOD_NONE_ACCEPTABLE: u8 = 0xff;

const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;
const PORT_LEN: usize = 2;

const REPLY_SUCCEEDED: u8 = 0;
const REPLY_COMMAND_NOT_SUPPORTED: u8 = 7;

/// Authenticates, requests a connection to the target, and reads the reply.
pub(super) async fn open_tunnel<S>(
    stream: &mut S,
    target: &TunnelTarget<'_>,
    credentials: Option<&Credentials>,
) -> Result<(), TunnelError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let request = build_request(target)?;
    authenticate(stream, credentials).await?;
    write(stream, &request).await?;
    let [version, reply] = read(stream).await?;
    if version != VERSION {
        return Err(not_socks5());
    }
    if reply != REPLY_SUCCEEDED {
        return Err(reply_error(reply));
    }
    // The reply ends with the address that the proxy dials from. It is not needed, but must be read before the tunnel.
    let [_, address_type] = read(stream).await?;
    let address_len = match address_type {
        ADDRESS_V4 => 4,
        ADDRESS_V6 => 16,
        ADDRESS_NAME => usize::from(read::<1, _>(stream).await?[0]),
        _ => return Err(not_socks5()),
    };
    let mut bound = [0; u8::MAX as usize + PORT_LEN];
    stream.read_exact(&mut bound[..address_len + PORT_LEN]).await.map_err(|error| io_error(&error))?;
    Ok(())
}

async fn authenticate<S>(stream: &mut S, credentials: Option<&Credentials>) -> Result<(), TunnelError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let methods: &[u8] = if credentials.is_some() {
        &[METHOD_NO_AUTHENTICATION, METHOD_PASSWORD]
    } else {
        &[METHOD_NO_AUTHENTICATION]
    };
    write(stream, &[&[VERSION], length_prefixed(methods)?.as_slice()].concat()).await?;
    let [version, method] = read(stream).await?;
    match (version, method, credentials) {
        (VERSION, METHOD_NO_AUTHENTICATION, _) => Ok(()),
        (VERSION, METHOD_PASSWORD, Some(Credentials { user, password })) => {
            let login = [
                &[PASSWORD_VERSION],
                length_prefixed(user)?.as_slice(),
                length_prefixed(password)?.as_slice(),
            ]
            .concat();
            write(stream, &login).await?;
            // Some proxies send version 5 here instead of 1.
            let [_, status] = read(stream).await?;
            if status == 0 {
                Ok(())
            } else {
                Err(proxy_error("the egress proxy does not accept the credentials"))
            }
        }
        (VERSION, METHOD_NONE_ACCEPTABLE, None) => Err(proxy_error("the egress proxy requires credentials")),
        (VERSION, METHOD_NONE_ACCEPTABLE, Some(_)) => Err(proxy_error(
            "the egress proxy accepts neither a user name and password nor an anonymous client",
        )),
        _ => Err(not_socks5()),
    }
}

fn build_request(target: &TunnelTarget<'_>) -> Result<Vec<u8>, TunnelError> {
    let (address_type, address, port) = match target {
        TunnelTarget::Address(address) => match address.ip() {
            IpAddr::V4(ip) => (ADDRESS_V4, ip.octets().to_vec(), address.port()),
            IpAddr::V6(ip) => (ADDRESS_V6, ip.octets().to_vec(), address.port()),
        },
        TunnelTarget::Name { name, port } => (ADDRESS_NAME, length_prefixed(name.as_bytes())?, *port),
    };
    Ok([&[VERSION, COMMAND_CONNECT, RESERVED, address_type], address.as_slice(), &port.to_be_bytes()]
        .concat())
}

/// Encodes a field whose first byte is its length.
fn length_prefixed(field: &[u8]) -> Result<Vec<u8>, TunnelError> {
    let len = u8::try_from(field.len()).map_err(|_| proxy_error("a SOCKS5 field is limited to 255 bytes"))?;
    Ok([&[len], field].concat())
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), TunnelError> {
    stream.write_all(bytes).await.map_err(|error| io_error(&error))?;
    stream.flush().await.map_err(|error| io_error(&error))
}

async fn read<const LEN: usize, S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; LEN], TunnelError> {
    let mut bytes = [0; LEN];
    stream.read_exact(&mut bytes).await.map_err(|error| io_error(&error))?;
    Ok(bytes)
}

fn not_socks5() -> TunnelError {
    proxy_error("the egress proxy's response is not SOCKS5")
}

fn reply_error(reply: u8) -> TunnelError {
    let detail = format!("the egress proxy refused: {}", describe_reply(reply));
    if reply == REPLY_COMMAND_NOT_SUPPORTED { proxy_error(detail) } else { target_error(detail) }
}

fn describe_reply(reply: u8) -> String {
    match reply {
        1 => "general failure".to_owned(),
        2 => "its rules do not allow the connection".to_owned(),
        3 => "network unreachable".to_owned(),
        4 => "host unreachable".to_owned(),
        5 => "connection refused by the destination".to_owned(),
        6 => "time to live expired".to_owned(),
        REPLY_COMMAND_NOT_SUPPORTED => "the command is not supported".to_owned(),
        8 => "this type of address is not supported".to_owned(),
        code => format!("code {code}"),
    }
}
