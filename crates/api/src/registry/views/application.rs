//! Applications in requests and responses.

use std::collections::BTreeMap;

use posthaste_domain::{
    ApplicationChange, ApplicationName, ApplicationSpec, InvalidApplication, Metadata, NewApplication,
    Throttle, Uid,
};
use posthaste_store::Application;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check_throttles;
use crate::registry::body::nullable;
use crate::registry::error::RegistryError;
use crate::timestamp::Rfc3339;

/// An application to create, or that replaces another.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct ApplicationIn {
    #[schema(min_length = 1, max_length = 256, example = "Customer 17")]
    name: String,
    /// A name of your own for the application, unique in the organisation.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "customer-17")]
    pub(in crate::registry) uid: Option<String>,
    /// Messages per second that all endpoints of the application get together.
    #[schema(minimum = 1, maximum = 1000000)]
    throttle_rate: Option<i64>,
    /// The name of `throttleRate` in older SDKs.
    #[schema(minimum = 1, maximum = 1000000)]
    rate_limit: Option<i64>,
    /// Pairs of text of your own, at most 4 KiB together.
    metadata: Option<BTreeMap<String, String>>,
}

/// Fields of an application to change. Null clears a field.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct ApplicationPatch {
    #[schema(min_length = 1, max_length = 256)]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000000)]
    throttle_rate: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000000)]
    rate_limit: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Option<BTreeMap<String, String>>>,
}

/// An application.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct ApplicationOut {
    #[schema(example = "app_0000000000000011")]
    id: String,
    uid: Option<String>,
    name: String,
    throttle_rate: Option<u32>,
    /// The name of `throttleRate` in older SDKs.
    rate_limit: Option<u32>,
    metadata: BTreeMap<String, String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

impl ApplicationIn {
    pub(in crate::registry) fn accept(self) -> Result<NewApplication, RegistryError> {
        check_throttles([self.throttle_rate, self.rate_limit]).map_err(|error| invalid(&error.into()))?;
        let spec = ApplicationSpec {
            name: self.name,
            uid: self.uid,
            throttle_per_second: self.throttle_rate.or(self.rate_limit),
            metadata: self.metadata.unwrap_or_default(),
        };
        NewApplication::accept(spec).map_err(|error| invalid(&error))
    }
}

impl ApplicationPatch {
    pub(in crate::registry) fn accept(self) -> Result<ApplicationChange, RegistryError> {
        let rates = [self.throttle_rate.flatten(), self.rate_limit.flatten()];
        check_throttles(rates).map_err(|error| invalid(&error.into()))?;
        let uid = self.uid.map(|uid| uid.as_deref().map(Uid::for_application).transpose()).transpose();
        let throttle = self.throttle_rate.or(self.rate_limit);
        let throttle = throttle.map(|rate| rate.map(Throttle::new).transpose()).transpose();
        let metadata = self.metadata.map(|pairs| Metadata::new(pairs.unwrap_or_default())).transpose();
        Ok(ApplicationChange {
            name: self
                .name
                .as_deref()
                .map(ApplicationName::new)
                .transpose()
                .map_err(|error| invalid(&error))?,
            uid: uid.map_err(|error| invalid(&error.into()))?,
            throttle: throttle.map_err(|error| invalid(&error.into()))?,
            metadata: metadata.map_err(|error| invalid(&error.into()))?,
        })
    }
}

fn invalid(error: &InvalidApplication) -> RegistryError {
    let field = match error {
        InvalidApplication::Name => "name",
        InvalidApplication::Uid(_) => "uid",
        InvalidApplication::Throttle(_) => "throttleRate",
        InvalidApplication::Metadata(_) => "metadata",
    };
    RegistryError::in_body(field, error)
}

impl From<&Application> for ApplicationOut {
    fn from(app: &Application) -> Self {
        let throttle_rate = app.throttle.map(Throttle::per_second);
        Self {
            id: app.id.to_string(),
            uid: app.uid.as_ref().map(Uid::to_string),
            name: app.name.as_str().to_owned(),
            throttle_rate,
            rate_limit: throttle_rate,
            metadata: app.metadata.pairs().clone(),
            created_at: app.created_at.into(),
            updated_at: app.updated_at.into(),
        }
    }
}
