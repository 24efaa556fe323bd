//! No secret leaves the service. The test gives a service secrets of every kind, uses them all, and searches for them in what its
//! processes print, in every documented GET response, in the command lines, and in the database.

use serde_json::{Value, json};

use crate::harness::{HttpResponse, Receiver, SECRET, Sandbox, Service, Store, send_request, wait_until};

on_each_store! {
    no_secret_is_printed_shown_or_stored_in_clear,
}

const OPERATOR_KEY: &str = "operator-key-that-must-not-be-printed";
const VIEWER_KEY: &str = "viewer-key-that-must-not-be-printed";
const TOKEN_SECRET: &str = "token-secret-of-the-canary-that-no-process-prints";
const MASTER_KEY: &str = "bWFzdGVyLWtleS1vZi10aGUtY2FuYXJ5LTMyYnl0ZXM=";
/// The bytes of the secrets are text too, so that a search finds them encoded and decoded.
const FIRST_SECRET: (&str, &str) =
    ("whsec_Zmlyc3QtZW5kcG9pbnQtc2VjcmV0LW9mLXRoZS1jYW5hcnk=", "first-endpoint-secret-of-the-canary");
const SECOND_SECRET: (&str, &str) =
    ("whsec_c2Vjb25kLWVuZHBvaW50LXNlY3JldC1vZi10aGUtY2FuYXJ5", "second-endpoint-secret-of-the-canary");
const PRIVATE_KEY: (&str, &str) =
    ("whsk_ZWQyNTUxOS1zZWVkLW9mLXRoZS1jYW5hcnktMzJieXQ=", "ed25519-seed-of-the-canary-32byt");
/// A key of the wrong length, which the API refuses.
const REFUSED_SECRET: &str = "whsk_cmVmdXNlZC1lbmRwb2ludC1zZWNyZXQtb2YtdGhlLWNhbmFyeQ==";
const HEADER_VALUE: &str = "Bearer header-value-of-the-canary";
const REFUSED_HEADER_VALUE: &str = "refused-header-value-of-the-canary";
const PAYLOAD: &str = "payload-that-must-not-be-printed";

const ENDPOINT: &str = "/app/customer-17/endpoint";

/// Texts that must appear nowhere, each with the name that a failure shows instead of the text.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn known() -> Self {
        let mut secrets = Self(Vec::new());
        for (name, text) in [
            ("the operator's API key", OPERATOR_KEY),
            ("the viewer's API key", VIEWER_KEY),
            ("the secret of tokens", TOKEN_SECRET),
            ("the master key", MASTER_KEY),
            ("the decoded master key", "master-key-of-the-canary-32bytes"),
            ("the instance's signing secret", SECRET),
            ("the first secret of an endpoint", FIRST_SECRET.0),
            ("the decoded first secret of an endpoint", FIRST_SECRET.1),
            ("the second secret of an endpoint", SECOND_SECRET.0),
            ("the decoded second secret of an endpoint", SECOND_SECRET.1),
            ("the private key of an endpoint", PRIVATE_KEY.0),
            ("the decoded private key of an endpoint", PRIVATE_KEY.1),
            ("a refused secret", REFUSED_SECRET),
            ("the value of a custom header", HEADER_VALUE),
            ("the value of a refused header", REFUSED_HEADER_VALUE),
        ] {
            secrets.add(name, text);
        }
        secrets
    }

    /// Adds a secret. The search ignores the prefix and the padding of base64.
    fn add(&mut self, name: &'static str, text: &str) {
        let text = text.strip_prefix("whsec_").or_else(|| text.strip_prefix("whsk_")).unwrap_or(text);
        let text = text.strip_prefix("Bearer ").unwrap_or(text).trim_end_matches('=');
        assert!(text.len() >= 20, "{name} is too short to search for");
        self.0.push((name, text.to_owned()));
    }

    /// Asserts that no secret is in these bytes.
    #[track_caller]
    fn assert_absent(&self, place: &str, bytes: &[u8]) {
        for (name, text) in &self.0 {
            let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!found, "{name} is in {place}");
        }
    }
}

/// A caller of the service's registry.
struct Caller<'a> {
    service: &'a Service,
    bearer: String,
}

impl<'a> Caller<'a> {
    fn new(service: &'a Service, key: &str) -> Self {
        Self { service, bearer: format!("Bearer {key}") }
    }

    /// Sends a request to any path. The response may contain a payload, unlike those of [`Service::request`].
    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &str) -> HttpResponse {
        let idempotency_key = format!("{method}-{}-{}", path.replace('/', "-"), body.len());
        let mut headers = vec![("authorization", self.bearer.as_str()), ("content-type", "application/json")];
        if method == "POST" {
            headers.push(("idempotency-key", &idempotency_key));
        }
        let response = send_request(self.service.address, method, path, &headers, body);
        response.unwrap_or_else(|error| panic!("no response to {method} {path}: {error}"))
    }

    /// Sends a request to the registry and asserts that it succeeds.
    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(method, &format!("/api/v1{path}"), &body);
        assert!((200..300).contains(&response.status), "{method} {path}: {}", response.body);
        serde_json::from_str(&response.body).unwrap_or_default()
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null)
    }
}

/// The ids by which the documented paths are filled in, beside the uids that the documents give as examples.
struct Ids {
    attempt: String,
    operation: String,
    bulk: String,
    destination: String,
    event: String,
}

fn no_secret_is_printed_shown_or_stored_in_clear(mut sandbox: Sandbox) {
    let mut secrets = Secrets::known();
    let keys = format!("ops:operator:{OPERATOR_KEY},eyes:viewer:{VIEWER_KEY}");
    sandbox.set_env("POSTHASTE_API_KEYS", &keys);
    sandbox.set_env("POSTHASTE_JWT_SECRET", TOKEN_SECRET);
    sandbox.set_env("POSTHASTE_MASTER_KEYS", &format!("k1:{MASTER_KEY}"));
    sandbox.set_env("POSTHASTE_LOG", "trace");
    sandbox.set_env("POSTHASTE_ALLOW_PRIVATE_NETWORKS", "true");
    let service = sandbox.serve();
    sandbox.set_env("POSTHASTE_API_KEY", OPERATOR_KEY);
    sandbox.set_env("POSTHASTE_SERVER", &format!("http://{}", service.address));
    let operator = Caller::new(&service, OPERATOR_KEY);

    let receivers = [200, 500, 410].map(Receiver::responding);
    let mut notices = service.subscribe_with_key(VIEWER_KEY);
    let ids = use_secrets(&operator, &receivers, &mut secrets);
    // A delivery and a dead letter are two notices at least.
    for _ in 0..2 {
        secrets.assert_absent("a notice", notices.next_notice().to_string().as_bytes());
    }
    drop(notices);
    for (name, arguments) in
        [("a token", &["token"][..]), ("a bound token", &["token", "--app", "customer-17"])]
    {
        let exit = sandbox.start(arguments).allow_secrets().wait_for_exit();
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        let token = exit.stdout.trim_end();
        secrets.add(name, token);
        secrets.assert_absent("what `token` prints beside it", exit.stderr.as_bytes());
        Caller::new(&service, token).get("/app/customer-17");
        let refused = Caller::new(&service, &token[..token.len() - 4]).send("GET", "/api/v1/app", "");
        assert_eq!(refused.status, 401, "{}", refused.body);
        secrets.assert_absent("the refusal of a token", refused.body.as_bytes());
    }
    check_refusals(&operator, &secrets);
    check_documented_responses(&operator, &ids, &secrets);
    check_commands(&sandbox, &secrets);

    secrets.assert_absent("the command line of `serve`", &service.command_line());
    check_database(&sandbox, &secrets);
    let exit = service.stop();
    assert!(exit.stderr.contains("DEBUG"), "the log shows attempts");
    secrets.assert_absent("the log of `serve`", exit.stderr.as_bytes());
    secrets.assert_absent("standard output of `serve`", exit.stdout.as_bytes());
    check_database(&sandbox, &secrets);
}

/// Creates endpoints with secrets of each kind, and lets the service send with them, rotate them and send again.
fn use_secrets(caller: &Caller<'_>, receivers: &[Receiver; 3], secrets: &mut Secrets) -> Ids {
    let [healthy, failing, gone] = receivers;
    caller.call("PUT", "/app/customer-17", &json!({ "name": "Customer 17" }));
    caller.call("PUT", "/event-type/invoice.paid", &json!({ "description": "An invoice was paid" }));
    let headers = json!({ "Authorization": HEADER_VALUE });
    for (uid, receiver, secret) in [
        ("receiver-1", healthy, ("secret", FIRST_SECRET.0)),
        ("receiver-2", failing, ("secret", PRIVATE_KEY.0)),
        ("receiver-3", gone, ("secretType", "ed25519")),
    ] {
        let mut body = json!({ "uid": uid, "url": receiver.url(), "headers": headers });
        body[secret.0] = json!(secret.1);
        caller.call("POST", ENDPOINT, &body);
    }
    let message =
        json!({ "eventType": "invoice.paid", "eventId": "invoice-17-paid", "payload": { "note": PAYLOAD } });
    caller.call("POST", "/app/customer-17/msg", &message);
    for receiver in receivers {
        let request = receiver.wait_for_requests(1).remove(0);
        assert_eq!(request.header("authorization"), Some(HEADER_VALUE), "the header is used");
        assert!(request.body.contains(PAYLOAD), "the payload is sent");
    }
    let attempts = wait_until("an attempt at each endpoint is recorded", || {
        let attempts = caller.get("/app/customer-17/attempt/msg/invoice-17-paid")["data"].take();
        (attempts.as_array().unwrap().len() == 3).then_some(attempts)
    });
    let disabled = wait_until("the endpoint that is gone is disabled", || {
        Some(caller.get(&format!("{ENDPOINT}/receiver-3"))).filter(|endpoint| endpoint["disabled"] == true)
    });
    assert_eq!(disabled["disabledReason"], "gone");

    let secret_of =
        |uid: &str| caller.get(&format!("{ENDPOINT}/{uid}/secret"))["key"].as_str().unwrap().to_owned();
    assert_eq!(secret_of("receiver-1"), FIRST_SECRET.0, "the API shows a secret on request");
    assert!(secret_of("receiver-2").starts_with("whpk_"), "the API shows no private key");
    let rotate = |body: Value| caller.call("POST", &format!("{ENDPOINT}/receiver-1/secret/rotate"), &body);
    rotate(json!({ "gracePeriodSeconds": 600 }));
    secrets.add("a generated secret", &secret_of("receiver-1"));
    rotate(json!({ "key": SECOND_SECRET.0 }));
    caller.call(
        "PATCH",
        &format!("{ENDPOINT}/receiver-1/headers"),
        &json!({ "headers": { "X-Region": "eu" } }),
    );
    caller.call("POST", "/app/customer-17/msg/invoice-17-paid/endpoint/receiver-1/resend", &json!({}));
    assert!(
        healthy.wait_for_requests(2)[1].header("webhook-signature").unwrap().contains(' '),
        "both keys sign"
    );
    let period = json!({ "since": attempts[0]["timestamp"] });
    let operation = caller.call("POST", &format!("{ENDPOINT}/receiver-1/recover"), &period);
    let portal = caller.call("POST", "/auth/app-portal-access/customer-17", &json!({}));
    let token = portal["token"].as_str().unwrap();
    secrets.add("a token of the portal", token);
    Caller::new(caller.service, token).get(&format!("{ENDPOINT}/receiver-1"));

    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let first = |path: &str, list: &str| caller.send("GET", path, "").expect_json(200)[list][0].take();
    let bulk = caller.send("POST", "/v1/webhook-outbox/bulk", r#"{"action":"cancel"}"#).expect_json(202);
    Ids {
        attempt: text(&attempts[0]["id"]),
        operation: text(&operation["id"]),
        bulk: text(&bulk["operation_id"]),
        destination: text(&first("/v1/webhook-outbox/destinations", "destinations")["destination_id"]),
        event: text(&first("/v1/webhook-outbox/events", "events")["event_id"]),
    }
}

/// Refused requests do not repeat the secrets that they contain.
fn check_refusals(caller: &Caller<'_>, secrets: &Secrets) {
    let url = "http://127.0.0.1:1/";
    for body in [
        json!({ "url": url, "secret": REFUSED_SECRET }),
        json!({ "url": url, "secret": [REFUSED_SECRET] }),
        json!({ "url": url, "headers": { "Webhook-Id": REFUSED_HEADER_VALUE } }),
        json!({ "url": url, "headers": { "X-Region": format!("{REFUSED_HEADER_VALUE}\r\nx: y") } }),
        json!({ "url": url, "headers": { "X-Region": [REFUSED_HEADER_VALUE] } }),
    ] {
        let refused = caller.send("POST", &format!("/api/v1{ENDPOINT}"), &body.to_string());
        assert_eq!(refused.status, 422, "{}", refused.body);
        secrets.assert_absent("a refusal", refused.body.as_bytes());
    }
}

/// Requests every documented GET of both APIs, except the stream, which does not end, and the secret of an endpoint.
fn check_documented_responses(caller: &Caller<'_>, ids: &Ids, secrets: &Secrets) {
    let mut requested = 0;
    for document in ["/openapi.json", "/api/v1/openapi.json"] {
        let document = caller.send("GET", document, "").expect_json(200);
        for (path, operations) in document["paths"].as_object().unwrap() {
            if operations["get"].is_null() || path.ends_with("/stream") || path.ends_with("/secret") {
                continue;
            }
            let filled = path
                .replace("{app_id}", "customer-17")
                .replace("{endpoint_id}", "receiver-1")
                .replace("{msg_id}", "invoice-17-paid")
                .replace("{event_type_name}", "invoice.paid")
                .replace("{attempt_id}", &ids.attempt)
                .replace("{task_id}", &ids.operation)
                .replace("{operation_id}", &ids.bulk)
                .replace("{destination_id}", &ids.destination)
                .replace("{event_id}", &ids.event);
            let response = caller.send("GET", &filled, "");
            assert!([200, 204].contains(&response.status), "{filled}: {}", response.body);
            secrets.assert_absent(path, response.body.as_bytes());
            let shows_messages = path.contains("/msg") && !path.contains("/attempt");
            // An operator's look at a content is recorded in the event's audit log.
            let shows_content = path == "/v1/webhook-outbox/events/{event_id}/content";
            let shows_payload = response.body.contains(PAYLOAD);
            assert!(shows_messages || shows_content || !shows_payload, "{path} shows a payload");
            if shows_messages {
                let response = caller.send("GET", &format!("{filled}?with_content=false"), "");
                assert!(!response.body.contains(PAYLOAD), "{path} shows a payload without content");
            }
            requested += 1;
        }
    }
    assert!(requested >= 30, "only {requested} paths are documented");
    let headers = caller.get(&format!("{ENDPOINT}/receiver-1/headers"));
    assert_eq!(headers["sensitive"], json!(["Authorization"]), "{headers}");
}

/// Runs the commands that show endpoints and settings. Each must also pass the harness's own check of its output.
fn check_commands(sandbox: &Sandbox, secrets: &Secrets) {
    let listener = sandbox.start(&["listen", "--port", "0", "--register", "customer-17"]);
    listener.wait_for_output("its endpoint", |output| {
        output.lines.iter().any(|line| line.text.contains("as endpoint ep_")).then_some(())
    });
    let publish = ["messages", "publish", "customer-17", "--type", "invoice.paid", "--data", "{}"];
    let message = sandbox.run(&publish).stdout.trim_end().to_owned();
    listener.wait_for_output("the message", |output| {
        output.lines.iter().any(|line| line.text.contains("verified")).then_some(())
    });
    for arguments in [
        &["apps", "list"][..],
        &["endpoints", "list", "customer-17"],
        &["endpoints", "list", "customer-17", "--json"],
        &["endpoints", "show", "customer-17", "receiver-1"],
        &["endpoints", "show", "customer-17", "receiver-3", "--json"],
        &["messages", "list", "customer-17"],
        &["messages", "show", "customer-17", &message],
        &["destinations", "list", "--json"],
        &["events", "list"],
        &["operations", "list"],
        &["secrets", "reseal"],
        &["config"],
        &["config", "--json"],
        &["doctor", "--server"],
        &["doctor", "--local", "--json"],
    ] {
        let exit = sandbox.run(arguments);
        assert!(exit.code == Some(0) && !exit.stdout.is_empty(), "{arguments:?}: {}", exit.stderr);
        secrets.assert_absent(&format!("{arguments:?}"), exit.stdout.as_bytes());
        secrets.assert_absent(&format!("{arguments:?}"), exit.stderr.as_bytes());
    }
    secrets.assert_absent("the command line of `listen`", &listener.command_line());
    listener.signal("INT");
    let exit = listener.wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    secrets.assert_absent("`listen`", [exit.stdout, exit.stderr].concat().as_bytes());
}

/// Searches the files of SQLite, or all rows of PostgreSQL. Secrets are sealed. Payloads are not, which shows that the search works.
fn check_database(sandbox: &Sandbox, secrets: &Secrets) {
    let bytes = match sandbox.store {
        Store::Sqlite => ["outbox.db", "outbox.db-wal"]
            .map(|name| sandbox.path(name))
            .into_iter()
            .filter(|path| path.exists())
            .flat_map(|path| std::fs::read(path).unwrap())
            .collect(),
        Store::Postgres => rows(sandbox).into_bytes(),
    };
    let finds_payload = bytes.windows(PAYLOAD.len()).any(|window| window == PAYLOAD.as_bytes());
    assert!(finds_payload, "the search does not find a payload in the database");
    secrets.assert_absent("the database", &bytes);
}

/// Returns all rows of all tables as text. Printable bytes are shown as they are.
fn rows(sandbox: &Sandbox) -> String {
    let tables =
        sandbox.sql("SELECT string_agg(quote_ident(tablename), ',') FROM pg_tables WHERE schemaname = 'app'");
    let rows_of = |table: &str| {
        sandbox.sql(&format!("SET bytea_output TO escape; SELECT string_agg(t::text, ';') FROM {table} t"))
    };
    tables.trim().split(',').map(rows_of).collect()
}
