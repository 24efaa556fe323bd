//! The tunnel of a SOCKS5 proxy: RFC 1928, and RFC 1929 for user name and password.
//!
//! Every field has a length that is known before it is read, so nothing beyond the proxy's answer is read.

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Credentials, NoTunnel, TunnelTarget, broken, refusal, unusable};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const COMMAND_CONNECT: u8 = 1;
const RESERVED: u8 = 0;

const METHOD_NONE: u8 = 0;
const METHOD_LOGIN: u8 = 2;
const METHOD_REFUSED: u8 = 0xff;

const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;
const PORT_LEN: usize = 2;

const REPLY_GRANTED: u8 = 0;
const REPLY_NO_COMMAND: u8 = 7;

pub(super) async fn tunnel<S>(
    stream: &mut S,
    target: &TunnelTarget<'_>,
    credentials: Option<&Credentials>,
) -> Result<(), NoTunnel>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let request = request(target)?;
    log_in(stream, credentials).await?;
    write(stream, &request).await?;
    let [version, reply] = read(stream).await?;
    if version != VERSION {
        return Err(not_socks5());
    }
    if reply != REPLY_GRANTED {
        return Err(refused(reply));
    }
    // The address that the proxy dials from follows; it tells us nothing, but it has to be out of the way.
    let [_, address_type] = read(stream).await?;
    let address_len = match address_type {
        ADDRESS_V4 => 4,
        ADDRESS_V6 => 16,
        ADDRESS_NAME => usize::from(read::<1, _>(stream).await?[0]),
        _ => return Err(not_socks5()),
    };
    let mut bound = [0; u8::MAX as usize + PORT_LEN];
    stream.read_exact(&mut bound[..address_len + PORT_LEN]).await.map_err(|error| broken(&error))?;
    Ok(())
}

async fn log_in<S>(stream: &mut S, credentials: Option<&Credentials>) -> Result<(), NoTunnel>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let methods: &[u8] = if credentials.is_some() { &[METHOD_NONE, METHOD_LOGIN] } else { &[METHOD_NONE] };
    write(stream, &[&[VERSION], counted(methods)?.as_slice()].concat()).await?;
    let [version, method] = read(stream).await?;
    match (version, method, credentials) {
        (VERSION, METHOD_NONE, _) => Ok(()),
        (VERSION, METHOD_LOGIN, Some(Credentials { user, password })) => {
            let login = [&[LOGIN_VERSION], counted(user)?.as_slice(), counted(password)?.as_slice()].concat();
            write(stream, &login).await?;
            // Some proxies repeat 5 where the version of the login belongs.
            let [_, status] = read(stream).await?;
            if status == 0 {
                Ok(())
            } else {
                Err(unusable("the egress proxy does not accept the credentials"))
            }
        }
        (VERSION, METHOD_REFUSED, None) => Err(unusable("the egress proxy asks for credentials")),
        (VERSION, METHOD_REFUSED, Some(_)) => {
            Err(unusable("the egress proxy accepts neither a user name and password nor a login without"))
        }
        _ => Err(not_socks5()),
    }
}

fn request(target: &TunnelTarget<'_>) -> Result<Vec<u8>, NoTunnel> {
    let (address_type, address, port) = match target {
        TunnelTarget::Address(address) => match address.ip() {
            IpAddr::V4(ip) => (ADDRESS_V4, ip.octets().to_vec(), address.port()),
            IpAddr::V6(ip) => (ADDRESS_V6, ip.octets().to_vec(), address.port()),
        },
        TunnelTarget::Name { name, port } => (ADDRESS_NAME, counted(name.as_bytes())?, *port),
    };
    Ok([&[VERSION, COMMAND_CONNECT, RESERVED, address_type], address.as_slice(), &port.to_be_bytes()]
        .concat())
}

/// A field that carries its length in its first byte.
fn counted(field: &[u8]) -> Result<Vec<u8>, NoTunnel> {
    let len =
        u8::try_from(field.len()).map_err(|_| unusable("a SOCKS5 proxy takes no more than 255 bytes"))?;
    Ok([&[len], field].concat())
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), NoTunnel> {
    stream.write_all(bytes).await.map_err(|error| broken(&error))?;
    stream.flush().await.map_err(|error| broken(&error))
}

async fn read<const LEN: usize, S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; LEN], NoTunnel> {
    let mut bytes = [0; LEN];
    stream.read_exact(&mut bytes).await.map_err(|error| broken(&error))?;
    Ok(bytes)
}

fn not_socks5() -> NoTunnel {
    unusable("the egress proxy's answer is not SOCKS5")
}

fn refused(reply: u8) -> NoTunnel {
    let why = format!("the egress proxy refused: {}", reply_in_words(reply));
    if reply == REPLY_NO_COMMAND { unusable(why) } else { refusal(why) }
}

fn reply_in_words(reply: u8) -> String {
    match reply {
        1 => "it failed in general".to_owned(),
        2 => "its rules do not allow the connection".to_owned(),
        3 => "network unreachable".to_owned(),
        4 => "host unreachable".to_owned(),
        5 => "connection refused by the destination".to_owned(),
        6 => "time to live expired".to_owned(),
        REPLY_NO_COMMAND => "it does not know the command to connect".to_owned(),
        8 => "it does not know this type of address".to_owned(),
        code => format!("code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::scripted::{Asked, ask};

    const NO_LOGIN: &[u8] = &[5, 0];
    const GRANTED: &[u8] = &[5, 0, 0, 1, 192, 0, 2, 1, 0x1f, 0x90];

    async fn connect(answer: &[u8]) -> Asked {
        ask("socks5://proxy.example", TunnelTarget::Address("192.0.2.7:443".parse().unwrap()), answer).await
    }

    async fn connect_with_credentials(answer: &[u8]) -> Asked {
        let target = TunnelTarget::Address("192.0.2.7:443".parse().unwrap());
        ask("socks5://user:hunter2@proxy.example", target, answer).await
    }

    #[tokio::test]
    async fn every_kind_of_target_has_its_form() {
        let v6 = [&[5, 1, 0, 5, 1, 0, 4][..], &[0x20, 0x01, 0x0d, 0xb8], &[0; 11], &[7, 0x01, 0xbb]].concat();
        let cases = [
            (
                TunnelTarget::Address("192.0.2.7:443".parse().unwrap()),
                vec![5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0x01, 0xbb],
            ),
            (TunnelTarget::Address("[2001:db8::7]:443".parse().unwrap()), v6),
            (
                TunnelTarget::Name { name: "receiver.example", port: 80 },
                [&[5, 1, 0, 5, 1, 0, 3, 16][..], b"receiver.example", &[0, 80]].concat(),
            ),
        ];
        for (target, request) in cases {
            let asked = ask("socks5h://proxy.example", target, &[NO_LOGIN, GRANTED].concat()).await;
            assert_eq!(asked.result, Ok(()));
            assert_eq!(asked.request, request);
        }
    }

    #[tokio::test]
    async fn the_longest_name_is_sent_whole() {
        let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        let target = TunnelTarget::Name { name: &name, port: 80 };
        let asked = ask("socks5h://proxy.example", target, &[NO_LOGIN, GRANTED].concat()).await;
        assert_eq!(asked.result, Ok(()));
        assert_eq!(asked.request.len(), 3 + 4 + 1 + 253 + 2);
    }

    #[tokio::test]
    async fn credentials_are_offered_and_sent_when_the_proxy_wants_them() {
        for login_version in [1, 5] {
            let asked = connect_with_credentials(&[&[5, 2, login_version, 0], GRANTED].concat()).await;
            assert_eq!(asked.result, Ok(()));
            let login = [&[5, 2, 0, 2, 1, 4][..], b"user", &[7], b"hunter2"].concat();
            assert!(asked.request.starts_with(&login), "{:?}", asked.request);
        }
        let asked = connect_with_credentials(&[NO_LOGIN, GRANTED].concat()).await;
        assert_eq!(asked.result, Ok(()));
        assert!(!asked.request.windows(7).any(|bytes| bytes == b"hunter2"), "they are not sent unasked");
    }

    #[tokio::test]
    async fn a_refused_login_says_what_lacks() {
        assert_eq!(connect(&[5, 0xff]).await.detail(), "the egress proxy asks for credentials");
        let detail = connect_with_credentials(&[5, 0xff]).await.detail();
        assert_eq!(detail, "the egress proxy accepts neither a user name and password nor a login without");
        let detail = connect_with_credentials(&[5, 2, 1, 1]).await.detail();
        assert_eq!(detail, "the egress proxy does not accept the credentials");
    }

    #[tokio::test]
    async fn no_byte_of_the_tunnel_is_read_whatever_address_the_proxy_names() {
        let bound = [
            [&[1][..], &[9; 4]].concat(),
            [&[4][..], &[9; 16]].concat(),
            [&[3, 0][..], &[]].concat(),
            [&[3, 5][..], b"proxy"].concat(),
            [&[3, 255][..], &[b'a'; 255]].concat(),
        ];
        for address in bound {
            for tunnelled in [b"".as_slice(), b"\x05\x00", b"HTTP/1.1 200 OK\r\n\r\n"] {
                let answer = [NO_LOGIN, &[5, 0, 0], &address, &[0, 80], tunnelled].concat();
                let asked = connect(&answer).await;
                assert_eq!(asked.result, Ok(()), "{address:?}");
                assert_eq!(asked.rest, tunnelled, "{address:?}");
            }
        }
    }

    #[tokio::test]
    async fn every_refusal_has_its_words() {
        let words =
            ["general", "rules", "network unreachable", "host unreachable", "refused by", "time to live"];
        for (reply, words) in (1..).zip(words.into_iter().chain(["command", "type of address"])) {
            let detail = connect(&[5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).await.detail();
            assert!(
                detail.starts_with("the egress proxy refused: ") && detail.contains(words),
                "{reply}: {detail}"
            );
        }
        for reply in 9..=u8::MAX {
            // Some proxies close the connection right after the code.
            let detail = connect(&[5, 0, 5, reply]).await.detail();
            assert_eq!(detail, format!("the egress proxy refused: code {reply}"));
        }
    }

    #[tokio::test]
    async fn a_refusal_of_us_is_told_from_one_of_the_target() {
        let speaks_for_all = async |answer: &[u8]| connect(answer).await.result.unwrap_err().is_to_anything();
        for of_us in [&[5, 0xff][..], &[5, 0, 5, 7], &[4, 0], &[5, 0, 4, 0]] {
            assert!(speaks_for_all(of_us).await, "{of_us:?}");
        }
        for reply in [1, 2, 3, 4, 5, 6, 8, 9] {
            assert!(!speaks_for_all(&[5, 0, 5, reply]).await, "{reply}");
        }
        assert!(!speaks_for_all(&[5, 0]).await, "it hung up when it was asked");
        assert!(connect_with_credentials(&[5, 2, 1, 1]).await.result.unwrap_err().is_to_anything());
    }

    #[tokio::test]
    async fn what_is_not_socks5_is_refused() {
        let answers: [&[u8]; 7] = [
            &[4, 0],
            &[0, 90, 0, 0, 0, 0, 0, 0],
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            &[5, 1],
            &[5, 2, 1, 0],
            &[5, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            &[5, 0, 5, 0, 0, 2, 0, 0, 0, 0, 0, 0],
        ];
        for answer in answers {
            assert_eq!(
                connect(answer).await.detail(),
                "the egress proxy's answer is not SOCKS5",
                "{answer:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_answer_that_ends_early_is_no_tunnel_wherever_it_ends() {
        let name = [&[5, 2, 1, 0, 5, 0, 0, 3, 5][..], b"proxy", &[0, 80]].concat();
        let v6 = [&[5, 2, 1, 0, 5, 0, 0, 4][..], &[0; 16], &[0, 80]].concat();
        for answer in [[&[5, 2, 1, 0], GRANTED].concat(), name, v6] {
            assert_eq!(connect_with_credentials(&answer).await.result, Ok(()));
            for len in 0..answer.len() {
                let detail = connect_with_credentials(&answer[..len]).await.detail();
                assert_eq!(detail, "the egress proxy closed the connection before it answered", "{len}");
            }
        }
    }
}
