//! Variables that other programs take a proxy from.

use std::process::Command;

use crate::receiver::{Receiver, SECRET, lease, send, sender};

const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const DELIVERY: &str = "environment::a_delivery_without_a_proxy_arrives";

#[tokio::test]
async fn a_delivery_without_a_proxy_arrives() {
    let receiver = Receiver::accepting().await;
    assert_eq!(send(&sender(&[SECRET], |_| ()), &lease(&receiver.url())).await.http_status(), Some(200));
    assert_eq!(receiver.connections().opened(), 1);
}

/// The delivery above again, in a process whose environment names a proxy that is not there.
#[test]
fn variables_in_the_environment_are_not_read() {
    let mut delivery = Command::new(std::env::current_exe().unwrap());
    delivery.args(["--exact", DELIVERY]).envs(VARIABLES.map(|name| (name, "http://127.0.0.1:1")));
    let ran = delivery.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
}
