//! Checks responses against the OpenAPI document.

use std::sync::LazyLock;

use http::Method;
use serde_json::Value;

use super::TestResponse;

/// An operation of the OpenAPI document.
#[derive(Debug)]
pub(crate) struct DocumentedOperation {
    pub(crate) id: String,
    pub(crate) method: Method,
    /// The path template, with `{event_id}`.
    pub(crate) path: String,
    /// Whether the operation needs no key.
    pub(crate) public: bool,
    /// The documented responses by status.
    pub(crate) responses: serde_json::Map<String, Value>,
}

impl DocumentedOperation {
    /// Returns the error codes documented for a status.
    pub(crate) fn codes(&self, status: &str) -> Vec<String> {
        let examples = &self.responses[status]["content"]["application/json"]["examples"];
        let codes =
            examples.as_object().into_iter().flatten().map(|(_, example)| &example["value"]["error"]["code"]);
        codes.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Whether a request's path matches the template.
    fn matches(&self, path: &str) -> bool {
        let (template, actual): (Vec<&str>, Vec<&str>) =
            (self.path.split('/').collect(), path.split('/').collect());
        template.len() == actual.len()
            && template
                .iter()
                .zip(actual)
                .all(|(template, actual)| template.starts_with('{') || *template == actual)
    }
}

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&posthaste_api::openapi_json()).unwrap());

pub(crate) fn documented_operations() -> &'static [DocumentedOperation] {
    static OPERATIONS: LazyLock<Vec<DocumentedOperation>> = LazyLock::new(|| {
        let paths = DOCUMENT["paths"].as_object().unwrap();
        let documented_operations = paths.iter().flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(|(method, operation)| DocumentedOperation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                public: operation.get("security").is_some(),
                responses: operation["responses"].as_object().unwrap().clone(),
            })
        });
        documented_operations.collect()
    });
    &OPERATIONS
}

/// Asserts that the response of a documented operation has a documented status, body and error code.
#[track_caller]
pub(crate) fn check(method: &Method, path: &str, response: &TestResponse) {
    let matching = documented_operations()
        .iter()
        .find(|operation| operation.method == *method && operation.matches(path));
    let Some(operation) = matching else { return };
    let status = response.status.as_str();
    let id = &operation.id;
    assert!(operation.responses.contains_key(status), "{id} responded with {status}: {}", response.text());
    let schema = &operation.responses[status]["content"]["application/json"]["schema"];
    if !schema.is_null() {
        let body = serde_json::from_slice(&response.body).unwrap();
        validate(schema, &body)
            .unwrap_or_else(|error| panic!("{id} responded with {status} {body}: {error}"));
    }
    if let Ok(Value::Object(body)) = serde_json::from_slice(&response.body)
        && let Some(code) = body.get("error").and_then(|error| error["code"].as_str())
    {
        assert!(
            operation.codes(status).iter().any(|documented| documented == code),
            "{id} responded with {status} {code}"
        );
    }
}

/// Validates a value against the part of JSON Schema that the document uses. Undocumented fields are errors.
fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').ok_or("the reference points outside of the document")?;
        return validate(DOCUMENT.pointer(pointer).ok_or("the reference has no target")?, value);
    }
    if let Some(any) = schema["oneOf"].as_array() {
        let matches = any.iter().filter(|schema| validate(schema, value).is_ok()).count();
        return if matches == 1 { Ok(()) } else { Err(format!("{value} matches {matches} of {schema}")) };
    }
    if let (Some(names), Some(name)) = (schema["enum"].as_array(), value.as_str()) {
        return if names.iter().any(|documented| documented == name) {
            Ok(())
        } else {
            Err(format!("{name} is not documented"))
        };
    }
    match value {
        Value::Object(_) | Value::Array(_) if schema["type"] == "null" => Err(format!("{value} is not null")),
        Value::Object(fields) => {
            let (properties, required) = properties(schema);
            let find_property = |name: &String| properties.iter().find(|(documented, _)| *documented == name);
            if let Some(missing) = required.iter().find(|name| !fields.contains_key(*name)) {
                return Err(format!("{missing} is missing"));
            }
            if properties.is_empty() {
                return Ok(());
            }
            fields.iter().try_for_each(|(name, value)| {
                let (_, schema) = find_property(name).ok_or(format!("{name} is not documented"))?;
                validate(schema, value).map_err(|error| format!("{name}: {error}"))
            })
        }
        Value::Array(items) => items.iter().try_for_each(|item| validate(&schema["items"], item)),
        scalar => {
            let type_name = match scalar {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::String(_) => "string",
                Value::Number(number) if number.is_f64() => "number",
                _ => "integer",
            };
            let allowed = &schema["type"];
            let is_allowed = allowed == type_name
                || allowed
                    .as_array()
                    .is_some_and(|allowed| allowed.iter().any(|allowed| allowed == type_name));
            if is_allowed { Ok(()) } else { Err(format!("{value} is not {allowed}")) }
        }
    }
}

/// Returns all properties of an object schema, including those of its `allOf` parts, and the names of the required ones.
fn properties(schema: &Value) -> (Vec<(&String, &Value)>, Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return properties(DOCUMENT.pointer(&reference[1..]).unwrap());
    }
    let parts = schema["allOf"].as_array().into_iter().flatten().map(properties);
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for (names, needed) in parts {
        properties.extend(names);
        required.extend(needed);
    }
    properties.extend(schema["properties"].as_object().into_iter().flatten());
    let own = schema["required"].as_array().into_iter().flatten();
    required.extend(own.filter_map(Value::as_str).map(str::to_owned));
    (properties, required)
}
