//! Who may do what, by the role of the key.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method};
use serde_json::json;

use crate::stage::{
    Answer, DLQ, EVENTS, OPERATOR, OVERVIEW, Operation, PRODUCER, STREAM, Stage, VIEWER, bearer, call, event,
    header, operations,
};

/// Everything that needs a key, with who may do it.
const RIGHTS: [(&str, &[&str]); 8] = [
    ("enqueueEvents", &[PRODUCER]),
    ("getEvent", &[PRODUCER, VIEWER, OPERATOR]),
    ("listEvents", &[VIEWER, OPERATOR]),
    ("listDeadLetters", &[VIEWER, OPERATOR]),
    ("getOverview", &[VIEWER, OPERATOR]),
    ("getMetrics", &[VIEWER, OPERATOR]),
    ("requeueDeadLetter", &[OPERATOR]),
    ("cancelEvent", &[OPERATOR]),
];

async fn ask(stage: &Stage, operation: &Operation, headers: &[(HeaderName, HeaderValue)]) -> Answer {
    let path = operation.path.replace("{event_id}", "nobody");
    stage.send(call(operation.method.clone(), &path, headers, Body::empty())).await
}

#[tokio::test]
async fn every_role_may_do_what_it_is_for_and_nothing_else() {
    let stage = Stage::on_memory().await.with_keys();
    for (id, allowed) in RIGHTS {
        let operation = operations().iter().find(|operation| operation.id == id).unwrap();
        for (key, name, role) in
            [(PRODUCER, "orders", "producer"), (VIEWER, "eyes", "viewer"), (OPERATOR, "ops", "operator")]
        {
            let answer = ask(&stage, operation, &[bearer(key)]).await;
            if allowed.contains(&key) {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{id} as {role}: {}", answer.text());
            } else {
                let (message, _) = answer.refused(403, "forbidden");
                assert!(message.contains(name) && message.contains(role), "{id}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn whatever_is_not_public_needs_a_key() {
    let stage = Stage::on_memory().await.with_keys();
    let public: Vec<&str> = operations()
        .iter()
        .filter(|operation| operation.public)
        .map(|operation| operation.id.as_str())
        .collect();
    assert_eq!(public, ["getHealth", "getOpenApi", "getReadiness"]);
    for operation in operations() {
        let answer = ask(&stage, operation, &[]).await;
        if operation.public {
            assert_eq!(answer.status.as_u16(), 200, "{}", operation.id);
        } else {
            answer.refused(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"posthaste\""));
        }
    }
    for page in ["/docs", "/docs/start.js", "/docs/scalar.js"] {
        assert_eq!(stage.get(page).await.status.as_u16(), 200, "{page}");
    }
}

#[tokio::test]
async fn a_key_is_sent_as_a_bearer_and_in_no_other_way() {
    let stage = Stage::on_memory().await.with_keys();
    let send = async |authorization: &str| {
        stage
            .send(call(Method::GET, OVERVIEW, &[header("authorization", authorization)], Body::empty()))
            .await
    };
    for good in [format!("Bearer {VIEWER}"), format!("bearer {VIEWER}"), format!("BEARER   {VIEWER} ")] {
        assert_eq!(send(&good).await.status.as_u16(), 200, "{good}");
    }
    let wrong = [
        format!("Bearer {VIEWER}x"),
        format!("Bearer {}", &VIEWER[..VIEWER.len() - 1]),
        format!("Bearer {}", VIEWER.to_uppercase()),
        format!("Bearer {VIEWER} {VIEWER}"),
        "Bearer ".to_owned(),
        "Bearer eyes".to_owned(),
        format!("Bearer eyes:viewer:{VIEWER}"),
    ];
    for wrong in wrong {
        let answer = send(&wrong).await;
        answer.refused(401, "unauthorized");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer realm=\"posthaste\""), "{challenge}");
        assert!(!answer.text().contains(VIEWER), "a key is never repeated");
    }
    for other in
        [VIEWER.to_owned(), format!("Basic {VIEWER}"), format!("Token {VIEWER}"), format!("Bearer{VIEWER}")]
    {
        send(&other).await.refused(401, "unauthorized");
    }
    let twice = [bearer(VIEWER), bearer(VIEWER)];
    stage.send(call(Method::GET, OVERVIEW, &twice, Body::empty())).await.refused(401, "unauthorized");
    stage.get(&format!("{OVERVIEW}?key={VIEWER}")).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn nothing_is_told_or_done_before_the_key_is_known() {
    let stage = Stage::on_memory().await;
    let event_id = stage.dead_lettered(&event()).await;
    let keyed = stage.with_keys();
    for path in [
        format!("{EVENTS}/{event_id}"),
        format!("{EVENTS}/nobody"),
        format!("{DLQ}?limit=bad"),
        STREAM.to_owned(),
        "/metrics".to_owned(),
    ] {
        keyed.get(&path).await.refused(401, "unauthorized");
    }
    keyed.act(&format!("{DLQ}/{event_id}/requeue")).await.refused(401, "unauthorized");
    keyed.post(EVENTS, "not json").await.refused(401, "unauthorized");
    assert_eq!(stage.get(OVERVIEW).await.json(200)["failed_count"], 1);
    // A viewer learns nothing about an event from its refusal, not even whether it exists.
    for name in [event_id.as_str(), "nobody"] {
        let path = format!("{DLQ}/{name}/requeue");
        keyed
            .send(call(Method::POST, &path, &[bearer(VIEWER)], Body::empty()))
            .await
            .refused(403, "forbidden");
    }
}

#[tokio::test]
async fn with_keys_the_host_may_be_any() {
    let stage = Stage::on_memory().await.with_keys();
    let request = http::Request::builder()
        .uri(OVERVIEW)
        .header("host", "hooks.example")
        .header("origin", "https://admin.example")
        .header("authorization", format!("Bearer {VIEWER}"));
    assert_eq!(stage.send(request.body(Body::empty()).unwrap()).await.json(200)["pending_count"], json!(0));
}
