//! What the document says, for whoever holds answers against it.

use std::sync::LazyLock;

use http::Method;
use serde_json::Value;

use super::Answer;

/// An operation of the document.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: Method,
    /// With `{event_id}` in it.
    pub(crate) path: String,
    /// Needs no key.
    pub(crate) public: bool,
    /// By status.
    pub(crate) responses: serde_json::Map<String, Value>,
}

impl Operation {
    /// The codes of errors that come with a status.
    pub(crate) fn codes(&self, status: &str) -> Vec<String> {
        let examples = &self.responses[status]["content"]["application/json"]["examples"];
        let codes =
            examples.as_object().into_iter().flatten().map(|(_, example)| &example["value"]["error"]["code"]);
        codes.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn is_at(&self, path: &str) -> bool {
        let (own, given): (Vec<&str>, Vec<&str>) =
            (self.path.split('/').collect(), path.split('/').collect());
        own.len() == given.len()
            && own.iter().zip(given).all(|(own, given)| own.starts_with('{') || *own == given)
    }
}

pub(crate) fn operations() -> &'static [Operation] {
    static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
        let document: Value = serde_json::from_str(&posthaste_api::openapi_json()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, operation)| Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                public: operation.get("security").is_some(),
                responses: operation["responses"].as_object().unwrap().clone(),
            })
        });
        operations.collect()
    });
    &OPERATIONS
}

/// An answer of a documented operation has a documented status, and an error a documented code.
#[track_caller]
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    let asked = operations().iter().find(|operation| operation.method == *method && operation.is_at(path));
    let Some(operation) = asked else { return };
    let status = answer.status.as_str();
    let id = &operation.id;
    assert!(operation.responses.contains_key(status), "{id} answered {status}: {}", answer.text());
    if let Ok(Value::Object(body)) = serde_json::from_slice(&answer.body)
        && let Some(code) = body.get("error").and_then(|error| error["code"].as_str())
    {
        assert!(operation.codes(status).iter().any(|known| known == code), "{id} answered {status} {code}");
    }
}
