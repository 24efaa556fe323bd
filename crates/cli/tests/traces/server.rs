//! A server on loopback that answers as it is told, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long a fact is waited for; what takes so long does not happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Asked {
    /// `POST /v1/traces`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    asked: Receiver<Asked>,
}

impl Server {
    pub(crate) fn answering(status: u16) -> Self {
        Self::start("http://127.0.0.1", Some(status), |stream| stream)
    }

    /// Takes every request, and answers none.
    pub(crate) fn silent() -> Self {
        Self::start("http://127.0.0.1", None, |stream| stream)
    }

    /// Behind TLS, with the certificate that it can be trusted by.
    pub(crate) fn secure() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let secured =
            move |stream| StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        (Self::start("https://localhost", Some(200), secured), made.cert.pem())
    }

    fn start<S: Read + Write + Send + 'static>(
        host: &str,
        status: Option<u16>,
        wrap: impl Fn(std::net::TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{host}:{}", listener.local_addr().unwrap().port());
        let (remember, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, remember) = (wrap(stream.unwrap()), remember.clone());
                thread::spawn(move || serve(stream, status, &remember));
            }
        });
        Self { url, asked }
    }

    /// The next request, when it has come.
    #[track_caller]
    pub(crate) fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).unwrap()
    }

    /// Those that have come.
    pub(crate) fn asked_so_far(&self) -> Vec<Asked> {
        self.asked.try_iter().collect()
    }
}

fn serve(stream: impl Read + Write, status: Option<u16>, remember: &Sender<Asked>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream) {
        // Before the answer: whoever has an answer can be sure that it is remembered.
        let _ = remember.send(asked);
        if let Some(status) = status {
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            stream.get_mut().flush().unwrap();
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers: Vec<_> = lines[1..].iter().map(header).collect();
    let mut asked =
        Asked { line: lines[0].trim_end_matches(" HTTP/1.1").to_owned(), headers, body: Vec::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
