//! Routes of applications.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use posthaste_domain::ApplicationId;
use posthaste_store::{Answer, Application, Created, IfTaken};

use super::answer::{Post, json_answer, respond};
use super::auth::{AppCaller, Manage, OrgCaller, Read};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::list::{self, ListOf, PageParams, parse_list_request};
use super::params::{AppPathParams, IdempotencyParams};
use super::query::Params;
use super::views::{ApplicationIn, ApplicationOut, ApplicationPatch};
use crate::api::ApiState;

/// List applications
///
/// Lists the applications of the organisation by id.
#[utoipa::path(
    get, path = "/api/v1/app", tag = "Applications", operation_id = "listApplications", params(PageParams),
    responses((status = 200, description = "A page of applications", body = ListOf<ApplicationOut>)),
)]
pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Read>,
    params: Params,
) -> Result<Response, RegistryError> {
    let request = parse_list_request(&params, ApplicationId::parse)?;
    let apps = state.store.applications().list(&org.caller.org, &request).await?;
    Ok(list::respond(apps, |app| app.id.to_string(), |app| ApplicationOut::from(&app)))
}

/// Create an application
///
/// Creates an application. With `get_if_exists`, an application with the same uid is returned instead of an error.
#[utoipa::path(
    post, path = "/api/v1/app", tag = "Applications", operation_id = "createApplication",
    params(("get_if_exists" = Option<bool>, Query, description = "Return an application that has the uid already"), IdempotencyParams),
    request_body = ApplicationIn,
    responses(
        (status = 200, description = "An application had the uid already", body = ApplicationOut),
        (status = 201, description = "The application was created", body = ApplicationOut),
    ),
)]
pub(super) async fn create(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Manage>,
    params: Params,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let if_taken = match params.bool("get_if_exists")? {
        Some(true) => IfTaken::ReturnExisting,
        _ => IfTaken::Refuse,
    };
    let post = Post::read(&state, &org.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let new = parse::<ApplicationIn>(&post.bytes)?.accept()?;
        let slot = post.slot(&state, created_answer);
        let apps = state.store.applications();
        Ok(created_answer(&apps.create(&org.caller.org, &new, if_taken, slot.as_ref()).await?))
    };
    post.finish(&state, result.await).await
}

fn created_answer(created: &Created<Application>) -> Answer {
    let status = if created.is_new { StatusCode::CREATED } else { StatusCode::OK };
    json_answer(status, &ApplicationOut::from(&created.value))
}

/// Get an application
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}", tag = "Applications", operation_id = "getApplication", params(AppPathParams),
    responses((status = 200, description = "The application", body = ApplicationOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Read>,
) -> Result<Json<ApplicationOut>, RegistryError> {
    Ok(Json((&state.store.applications().get(app.scope()).await?).into()))
}

/// Replace an application
///
/// Replaces every field of an application, or creates it if no application has the uid of the path.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}", tag = "Applications", operation_id = "putApplication", params(AppPathParams),
    request_body = ApplicationIn,
    responses(
        (status = 200, description = "The application was replaced", body = ApplicationOut),
        (status = 201, description = "The application was created", body = ApplicationOut),
    ),
)]
pub(super) async fn put(
    State(state): State<Arc<ApiState>>,
    _: OrgCaller<Manage>,
    app: AppCaller<Manage>,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let new = parse::<ApplicationIn>(&body.bytes)?.accept()?;
    Ok(respond(created_answer(&state.store.applications().put(&app.caller.org, &app.app, &new).await?)))
}

/// Change an application
///
/// Changes the fields that the body has.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}", tag = "Applications", operation_id = "patchApplication", params(AppPathParams),
    request_body = ApplicationPatch,
    responses((status = 200, description = "The application was changed", body = ApplicationOut)),
)]
pub(super) async fn patch(
    State(state): State<Arc<ApiState>>,
    _: OrgCaller<Manage>,
    app: AppCaller<Manage>,
    incoming: Incoming,
) -> Result<Json<ApplicationOut>, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let change = parse::<ApplicationPatch>(&body.bytes)?.accept()?;
    Ok(Json((&state.store.applications().update(app.scope(), &change).await?).into()))
}

/// Delete an application
///
/// Deletes an application and its endpoints. Pending messages are cancelled, and the uid is free.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}", tag = "Applications", operation_id = "deleteApplication", params(AppPathParams),
    responses((status = 204, description = "The application was deleted")),
)]
pub(super) async fn delete(
    State(state): State<Arc<ApiState>>,
    _: OrgCaller<Manage>,
    app: AppCaller<Manage>,
) -> Result<StatusCode, RegistryError> {
    state.store.applications().delete(app.scope(), &app.caller.name).await?;
    tracing::info!(app = %app.app, actor = app.caller.name, "application deleted");
    Ok(StatusCode::NO_CONTENT)
}
