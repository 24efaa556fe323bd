//! Commands for applications, endpoints, tokens and sealed secrets against a running service.

use posthaste::domain::Timestamp;
use posthaste::domain::signature::{Secret, SignedHeaders, SigningKeys};
use serde_json::{Value, json};

use crate::harness::{Event, ReceivedRequest, Receiver, Sandbox, Service};

on_each_store! {
    registered_receiver_gets_what_is_published_and_leaves_no_endpoint_behind,
    secret_of_a_url_survives_a_change_of_the_master_key,
    token_of_an_application_is_bound_to_it,
}

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const OTHER_KEY: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=";

/// Runs a command that may print secrets, and returns its standard output.
#[track_caller]
fn run(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let exit = sandbox.start(arguments).allow_secrets().wait_for_exit();
    assert_eq!(exit.code, Some(0), "{arguments:?}: {}", exit.stderr);
    exit.stdout.trim_end().to_owned()
}

/// Runs a command against the API of a service.
#[track_caller]
fn run_on(sandbox: &Sandbox, service: &Service, arguments: &[&str]) -> String {
    let server = format!("http://{}", service.address);
    run(sandbox, &[arguments, &["--server", &server]].concat())
}

/// Returns whether a receiver that knows only this secret accepts the request.
fn accepts(secret: &str, request: &ReceivedRequest) -> bool {
    let header = |name: &str| request.header(name).unwrap();
    let headers = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let now = Timestamp::from_secs(headers.timestamp.parse().unwrap());
    let keys = SigningKeys::new(vec![Secret::parse(secret).unwrap()]).unwrap();
    keys.verify(headers, request.body.as_bytes(), now, std::time::Duration::ZERO).is_ok()
}

fn registered_receiver_gets_what_is_published_and_leaves_no_endpoint_behind(sandbox: Sandbox) {
    let service = sandbox.serve();
    let server = format!("http://{}", service.address);
    let app = run_on(&sandbox, &service, &["apps", "add", "Customer 17", "--uid", "customer-17"]);
    assert!(app.starts_with("app_"), "{app}");
    let listen = ["listen", "--port", "0", "--json", "--register", "customer-17", "--server", &server];
    let listener = sandbox.start(&listen);
    listener.wait_for_output("its endpoint", |output| {
        output.lines.iter().any(|line| line.text.contains("as endpoint ep_")).then_some(())
    });
    let publish =
        ["messages", "publish", "customer-17", "--type", "invoice.paid", "--data", r#"{"invoice":17}"#];
    let message = run_on(&sandbox, &service, &publish);
    listener.wait_for_output("the message", |output| {
        output.lines.iter().any(|line| line.text.contains(&message)).then_some(())
    });
    let shown = run_on(&sandbox, &service, &["messages", "show", "customer-17", &message]);
    assert!(shown.contains("invoice.paid") && shown.contains("ep_"), "{shown}");
    listener.signal("INT");
    let exit = listener.wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let received: Value = serde_json::from_str(exit.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&received["verified"], &received["event_id"]), (&json!(true), &json!(message)));
    let listed = run_on(&sandbox, &service, &["endpoints", "list", "customer-17", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["data"], json!([]), "the endpoint is still registered");
    service.stop();
}

fn secret_of_a_url_survives_a_change_of_the_master_key(mut sandbox: Sandbox) {
    sandbox.set_env("POSTHASTE_MASTER_KEYS", &format!("k1:{KEY}"));
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let secret = run(&sandbox, &["destinations", "secret", &receiver.url(), "--rotate"]);
    // A worker that sends to the URL for the first time loads its secret.
    let event_id = service.enqueue(&Event::to(&receiver));
    service.wait_until_delivered(&event_id);
    let request = receiver.requests().pop().unwrap();
    assert!(accepts(&secret, &request), "{:?}", request.header("webhook-signature"));
    service.stop();

    sandbox.set_env("POSTHASTE_MASTER_KEYS", &format!("k2:{OTHER_KEY}"));
    let refused = sandbox.run(&["secrets", "reseal"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("add the master key that sealed it"), "{}", refused.stderr);
    sandbox.set_env("POSTHASTE_MASTER_KEYS", &format!("k2:{OTHER_KEY},k1:{KEY}"));
    let resealed: Value = serde_json::from_str(&run(&sandbox, &["secrets", "reseal", "--json"])).unwrap();
    assert_eq!(resealed, json!({ "examined": 1, "resealed": 1 }));
    sandbox.set_env("POSTHASTE_MASTER_KEYS", &format!("k2:{OTHER_KEY}"));
    assert_eq!(run(&sandbox, &["destinations", "secret", &receiver.url()]), secret);
    let service = sandbox.serve();
    service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    assert!(accepts(&secret, &receiver.requests().pop().unwrap()));
    service.stop();
}

fn token_of_an_application_is_bound_to_it(mut sandbox: Sandbox) {
    sandbox.set_env("POSTHASTE_JWT_SECRET", "a secret for tokens that no process prints");
    let service = sandbox.serve();
    for uid in ["customer-17", "customer-18"] {
        run_on(&sandbox, &service, &["apps", "add", uid, "--uid", uid]);
    }
    let unknown = sandbox.run(&["token", "--app", "customer-19"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""), "{}", unknown.stderr);
    let bearer = |arguments: &[&str]| format!("Bearer {}", run(&sandbox, &[&["token"], arguments].concat()));
    let status = |bearer: &str, method: &str, path: &str, body: &str| {
        let headers = [("authorization", bearer), ("content-type", "application/json")];
        service.request(method, &format!("/api/v1{path}"), &headers, body).status
    };
    let user = bearer(&["--app", "customer-17"]);
    assert_eq!(status(&user, "GET", "/app/customer-17", ""), 200);
    assert_eq!(status(&user, "GET", "/app/customer-18", ""), 404);
    assert_eq!(status(&user, "GET", "/app", ""), 403);
    let endpoint = r#"{"url":"http://127.0.0.1:1/","uid":"e"}"#;
    assert_eq!(status(&user, "POST", "/app/customer-17/endpoint", endpoint), 201);
    let reader = bearer(&["--app", "customer-17", "--read-only"]);
    assert_eq!(status(&reader, "GET", "/app/customer-17/endpoint/e", ""), 200);
    assert_eq!(status(&reader, "GET", "/app/customer-17/endpoint/e/secret", ""), 403);
    assert_eq!(status(&bearer(&[]), "GET", "/app", ""), 200);
    service.stop();
}

#[test]
fn token_without_a_secret_is_bad_usage() {
    let sandbox = Sandbox::new(crate::harness::Store::Sqlite);
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    let exit = sandbox.run(&["token"]);
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(2), ""), "{}", exit.stderr);
    assert!(exit.stderr.contains("jwt_secret is not set"), "{}", exit.stderr);
}
