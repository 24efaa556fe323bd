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

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&posthaste_api::openapi_json()).unwrap());

pub(crate) fn operations() -> &'static [Operation] {
    static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
        let paths = DOCUMENT["paths"].as_object().unwrap();
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
    let schema = &operation.responses[status]["content"]["application/json"]["schema"];
    if !schema.is_null() {
        let body = serde_json::from_slice(&answer.body).unwrap();
        conforms(schema, &body).unwrap_or_else(|why| panic!("{id} answered {status} {body}: {why}"));
    }
    if let Ok(Value::Object(body)) = serde_json::from_slice(&answer.body)
        && let Some(code) = body.get("error").and_then(|error| error["code"].as_str())
    {
        assert!(operation.codes(status).iter().any(|known| known == code), "{id} answered {status} {code}");
    }
}

/// The part of JSON Schema that the document uses. Nothing may be there that it does not name.
fn conforms(schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').ok_or("references stay within the document")?;
        return conforms(DOCUMENT.pointer(pointer).ok_or("a reference leads nowhere")?, value);
    }
    if let Some(any) = schema["oneOf"].as_array() {
        let fits = any.iter().filter(|schema| conforms(schema, value).is_ok()).count();
        return if fits == 1 { Ok(()) } else { Err(format!("{value} is {fits} of {schema}")) };
    }
    if let (Some(words), Some(word)) = (schema["enum"].as_array(), value.as_str()) {
        return if words.iter().any(|known| known == word) {
            Ok(())
        } else {
            Err(format!("unknown word {word}"))
        };
    }
    match value {
        Value::Object(fields) => {
            let (known, required) = properties(schema);
            let known_field = |name: &String| known.iter().find(|(known, _)| *known == name);
            if let Some(missing) = required.iter().find(|name| !fields.contains_key(*name)) {
                return Err(format!("{missing} is missing"));
            }
            if known.is_empty() {
                return Ok(());
            }
            fields.iter().try_for_each(|(name, value)| {
                let (_, schema) = known_field(name).ok_or(format!("{name} is not documented"))?;
                conforms(schema, value).map_err(|why| format!("{name}: {why}"))
            })
        }
        Value::Array(items) => items.iter().try_for_each(|item| conforms(&schema["items"], item)),
        scalar => {
            let named = match scalar {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::String(_) => "string",
                _ => "integer",
            };
            let allowed = &schema["type"];
            let fits = allowed == named
                || allowed.as_array().is_some_and(|allowed| allowed.iter().any(|allowed| allowed == named));
            if fits { Ok(()) } else { Err(format!("{value} is not {allowed}")) }
        }
    }
}

/// All properties of an object, also of one that is made of several, and which of them must be there.
fn properties(schema: &Value) -> (Vec<(&String, &Value)>, Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return properties(DOCUMENT.pointer(&reference[1..]).unwrap());
    }
    let parts = schema["allOf"].as_array().into_iter().flatten().map(properties);
    let (mut known, mut required) = (Vec::new(), Vec::new());
    for (names, needed) in parts {
        known.extend(names);
        required.extend(needed);
    }
    known.extend(schema["properties"].as_object().into_iter().flatten());
    let own = schema["required"].as_array().into_iter().flatten();
    required.extend(own.filter_map(Value::as_str).map(str::to_owned));
    (known, required)
}
