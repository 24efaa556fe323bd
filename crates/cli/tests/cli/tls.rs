//! Commands that call a server over TLS.

use std::io::{BufReader, Read as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::command::{directory, posthaste, run_command};
use crate::fake_api::{read_request, write_response};

const OVERVIEW: &str =
    r#"{"pending_count":0,"pending_ready_count":0,"retrying_count":0,"failed_count":0,"delivered_count":1}"#;

/// Starts a server with a self-signed certificate. Returns its URL and the certificate.
fn start_tls_server() -> (String, String) {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            if read_request(&mut stream).is_some() {
                write_response(stream.get_mut(), 200, OVERVIEW);
            }
        }
    });
    (url, identity.cert.pem())
}

#[test]
fn server_is_verified_against_the_system_certificate_authorities() {
    let (url, certificate) = start_tls_server();
    let ca_file = directory("trusted").join("ca.pem");
    std::fs::write(&ca_file, certificate).unwrap();
    let overview = || posthaste(&["overview", "--json", "--server", &url]);
    run_command(overview().env("SSL_CERT_FILE", &ca_file)).assert_stdout(&format!("{OVERVIEW}\n"));
    run_command(&mut overview()).assert_failure(1, &["no secure connection", "certificate"]);
}

#[test]
fn plain_server_is_reported_as_insecure_if_the_url_is_https() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Closing the socket with unread data would discard the response.
            let _ = stream.read(&mut [0; 65_536]).unwrap();
            write_response(&mut stream, 400, "{}");
        }
    });
    run_command(&mut posthaste(&["overview", "--server", &url]))
        .assert_failure(1, &["no secure connection", "http:// instead of https://"]);
}
