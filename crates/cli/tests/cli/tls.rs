//! A server behind TLS.

use std::io::BufReader;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::command::{directory, finish, posthaste};
use crate::fake_api::{read, write};

const OVERVIEW: &str =
    r#"{"pending_count":0,"pending_ready_count":0,"retrying_count":0,"failed_count":0,"delivered_count":1}"#;

/// The server's URL, and the certificate that it can be trusted by.
fn secure_server() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            if read(&mut stream).is_some() {
                write(stream.get_mut(), 200, OVERVIEW);
            }
        }
    });
    (url, made.cert.pem())
}

#[test]
fn a_server_is_trusted_by_the_authorities_of_the_system_alone() {
    let (url, certificate) = secure_server();
    let trusted = directory("trusted").join("ca.pem");
    std::fs::write(&trusted, certificate).unwrap();
    let overview = || posthaste(&["overview", "--json", "--server", &url]);
    finish(overview().env("SSL_CERT_FILE", &trusted)).printed(&format!("{OVERVIEW}\n"));
    finish(&mut overview()).refused(1, &["no secure connection", "certificate"]);
}
