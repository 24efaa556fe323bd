//! Environment variables from which other programs take a proxy.

use std::process::Command;

use crate::receiver::{Receiver, SECRET, lease, send, sender};

const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const DELIVERY: &str = "environment::a_delivery_without_proxy_arrives";

#[tokio::test]
async fn a_delivery_without_proxy_arrives() {
    let receiver = Receiver::accepting().await;
    assert_eq!(send(&sender(&[SECRET], |_| ()), &lease(&receiver.url())).await.http_status(), Some(200));
    assert_eq!(receiver.connections().opened(), 1);
}

/// Runs the test above in a process whose environment names a proxy that does not exist.
#[test]
fn proxy_variables_in_the_environment_are_ignored() {
    let mut delivery = Command::new(std::env::current_exe().unwrap());
    delivery.args(["--exact", DELIVERY]).envs(VARIABLES.map(|name| (name, "http://127.0.0.1:1")));
    let output = delivery.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}
