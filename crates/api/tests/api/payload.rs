//! Payloads are delivered byte for byte as they were enqueued.

use proptest::prelude::*;
use serde_json::json;

use crate::test_api::{EVENTS, TestApi, claim_all};

crate::on_every_store! {
    the_bytes_of_a_payload_survive_exactly,
    payloads_of_an_array_survive_exactly,
}

/// JSON texts that change when they are parsed and serialized again.
const UNUSUAL_JSON: [&str; 24] = [
    "1.0",
    "1.10",
    "1e2",
    "1E+2",
    "-0",
    "-0.0",
    "100000000000000000000000000000000000000001",
    "0.1000000000000000055511151231257827",
    r#"{"b":1,"a":2}"#,
    r#"{"a":1,"a":2}"#,
    r#"{ "a" : [ 1 , 2 ] }"#,
    "{\n\t\"a\": 1\r\n}",
    r#""\u00e9\u00E9é\/""#,
    r#""\ud83d\ude00😀""#,
    r#""\ud800""#,
    r#""\u0000""#,
    r#""""#,
    "[]",
    "{}",
    "[[[]]]",
    "null",
    "true",
    r#"{"":{"":""}}"#,
    r#"{"payload":{"payload":1},"event_type":"x"}"#,
];

fn event_with_payload(payload: &str) -> String {
    format!(
        r#"{{"destination_url":"https://receiver.example/hook","payload": {payload} ,"event_type":"a.b"}}"#
    )
}

async fn the_bytes_of_a_payload_survive_exactly(api: TestApi) {
    for payload in UNUSUAL_JSON {
        api.post(EVENTS, event_with_payload(payload)).await.json(202);
        let lease = claim_all(&api.store).await.remove(0);
        assert_eq!(std::str::from_utf8(lease.payload.expect_loaded()), Ok(payload));
    }
}

async fn payloads_of_an_array_survive_exactly(api: TestApi) {
    let many = format!("[{}]", UNUSUAL_JSON.map(event_with_payload).join(" ,\n"));
    api.post(EVENTS, many).await.json(202);
    let mut sent: Vec<String> = UNUSUAL_JSON.map(str::to_owned).into();
    let leases = claim_all(&api.store).await;
    let mut received: Vec<String> = leases
        .iter()
        .map(|lease| String::from_utf8(lease.payload.expect_loaded().to_vec()).unwrap())
        .collect();
    sent.sort();
    received.sort();
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_deeply_nested_payload_is_not_parsed() {
    let api = TestApi::on_memory().await;
    let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    api.post(EVENTS, event_with_payload(&deep)).await.json(202);
    let lease = claim_all(&api.store).await.remove(0);
    assert_eq!(lease.payload.len(), 4_000);
    let open = "[".repeat(10_000_000);
    api.post(EVENTS, event_with_payload(&open)).await.expect_error(400, "invalid_request");
}

/// Any JSON text with any white space.
fn any_json() -> impl Strategy<Value = String> {
    let gap = || "[ \t\r\n]{0,3}";
    let number = prop_oneof!["-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?"];
    let text = prop_oneof![
        any::<String>().prop_map(|text| json!(text).to_string()),
        "\"(\\\\u[0-9a-fA-F]{4}){0,5}\""
    ];
    let leaf = prop_oneof![
        number,
        text.clone(),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned())
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let element =
            (gap(), inner.clone(), gap()).prop_map(|(before, value, after)| before + &value + &after);
        let member = (gap(), text.clone(), gap(), gap(), inner, gap())
            .prop_map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"));
        prop_oneof![
            prop::collection::vec(element, 1..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 1..6).prop_map(|members| format!("{{{}}}", members.join(","))),
            gap().prop_map(|gap| format!("[{gap}]")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_json_survives_byte_for_byte(payload in any_json().prop_filter("too large", |text| text.len() <= 4_096)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = runtime.block_on(async {
            let api = TestApi::on_memory().await;
            api.post(EVENTS, event_with_payload(&payload)).await.json(202);
            claim_all(&api.store).await.remove(0).payload.expect_loaded().clone()
        });
        prop_assert_eq!(std::str::from_utf8(&received), Ok(payload.as_str()));
    }
}
