//! Applications.

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationRef, DestinationId, NewApplication, OrgId, Timestamp, Uid,
};
use posthaste_store::{
    AnswerSlot, AppScope, Application, Applications, Created, IfTaken, List, ListRequest, StoreError,
};

use super::answer::change;
use super::{ApplicationRow, endpoint};
use crate::MemoryStore;
use crate::state::State;

/// Adds an application, whose uid the caller has checked.
pub(super) fn add(state: &mut State, now: Timestamp, org: &OrgId, new: &NewApplication) -> Application {
    let registry = &mut state.registry;
    registry.last_application += 1;
    let application = Application {
        id: ApplicationId(registry.last_application),
        org: org.clone(),
        uid: new.uid.clone(),
        name: new.name.clone(),
        throttle: new.throttle,
        metadata: new.metadata.clone(),
        created_at: now,
        updated_at: now,
    };
    let row = ApplicationRow { application: application.clone(), spent_until: None, deleted_at: None };
    registry.applications.insert(application.id, row);
    application
}

/// Finds the application that has a uid.
fn find_by_uid(state: &State, org: &OrgId, uid: &Uid) -> Option<ApplicationId> {
    state.find_app(AppScope { org, app: &ApplicationRef::Uid(uid.clone()) }).ok()
}

fn create(
    state: &mut State,
    now: Timestamp,
    org: &OrgId,
    new: &NewApplication,
    if_taken: IfTaken,
) -> Result<Created<Application>, StoreError> {
    let existing = new.uid.as_ref().and_then(|uid| find_by_uid(state, org, uid));
    match (existing, if_taken) {
        (None, _) => Ok(Created { value: add(state, now, org, new), is_new: true }),
        (Some(id), IfTaken::ReturnExisting) => Ok(Created { value: view(state, id), is_new: false }),
        (Some(_), IfTaken::Refuse) => Err(uid_taken(new.uid.as_ref())),
    }
}

fn put(
    state: &mut State,
    now: Timestamp,
    org: &OrgId,
    app: &ApplicationRef,
    new: &NewApplication,
) -> Result<Created<Application>, StoreError> {
    match state.find_app(AppScope { org, app }) {
        Ok(id) => {
            let value = update(state, now, id, &ApplicationChange::from(new.clone()))?;
            Ok(Created { value, is_new: false })
        }
        Err(not_found) => {
            let Some(uid) = app.uid() else { return Err(not_found) };
            let new = NewApplication { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            create(state, now, org, &new, IfTaken::Refuse)
        }
    }
}

fn update(
    state: &mut State,
    now: Timestamp,
    id: ApplicationId,
    change: &ApplicationChange,
) -> Result<Application, StoreError> {
    let org = view(state, id).org;
    if let Some(Some(uid)) = &change.uid
        && find_by_uid(state, &org, uid).is_some_and(|other| other != id)
    {
        return Err(uid_taken(Some(uid)));
    }
    let row = state.registry.applications.get_mut(&id).expect("the caller found the application");
    let application = &mut row.application;
    let ApplicationChange { name, uid, throttle, metadata } = change.clone();
    application.name = name.unwrap_or_else(|| application.name.clone());
    application.uid = uid.unwrap_or_else(|| application.uid.clone());
    application.throttle = throttle.unwrap_or(application.throttle);
    application.metadata = metadata.unwrap_or_else(|| application.metadata.clone());
    application.updated_at = now;
    Ok(application.clone())
}

fn uid_taken(uid: Option<&Uid>) -> StoreError {
    StoreError::UidTaken { uid: uid.map(ToString::to_string).unwrap_or_default() }
}

fn view(state: &State, id: ApplicationId) -> Application {
    state.registry.applications[&id].application.clone()
}

fn delete(state: &mut State, now: Timestamp, id: ApplicationId, actor: &str) {
    let endpoints: Vec<DestinationId> =
        state.live_endpoints().filter(|(_, row)| row.app == id).map(|(id, _)| id).collect();
    for endpoint in endpoints {
        endpoint::delete(state, now, endpoint, actor);
    }
    let row = state.registry.applications.get_mut(&id).expect("the caller found the application");
    row.deleted_at = Some(now);
}

/// Removes the deleted applications to which no endpoint and no message belongs.
pub(crate) fn remove_deleted(state: &mut State) {
    let (destinations, messages) = (&state.destinations, &state.registry.messages);
    let is_used = |id: ApplicationId| {
        destinations.values().any(|it| it.endpoint.as_ref().is_some_and(|endpoint| endpoint.app == id))
            || messages.values().any(|message| message.app == id)
    };
    state.registry.applications.retain(|id, row| row.deleted_at.is_none() || is_used(*id));
}

#[async_trait]
impl Applications for MemoryStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        self.transact(|state, now| change(state, now, answer, |state| create(state, now, org, new, if_taken)))
    }

    async fn put(
        &self,
        org: &OrgId,
        app: &ApplicationRef,
        new: &NewApplication,
    ) -> Result<Created<Application>, StoreError> {
        self.transact(|state, now| put(state, now, org, app, new))
    }

    async fn get(&self, scope: AppScope<'_>) -> Result<Application, StoreError> {
        self.transact(|state, _| state.find_app(scope).map(|id| view(state, id)))
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        change: &ApplicationChange,
    ) -> Result<Application, StoreError> {
        self.transact(|state, now| {
            let id = state.find_app(scope)?;
            update(state, now, id, change)
        })
    }

    async fn delete(&self, scope: AppScope<'_>, actor: &str) -> Result<(), StoreError> {
        self.transact(|state, now| state.find_app(scope).map(|id| delete(state, now, id, actor)))
    }

    async fn list(
        &self,
        org: &OrgId,
        request: &ListRequest<ApplicationId>,
    ) -> Result<List<Application>, StoreError> {
        Ok(self.transact(|state, _| {
            let live = state.registry.applications.values().filter(|row| row.deleted_at.is_none());
            let applications = live.map(|row| row.application.clone()).filter(|it| it.org == *org);
            request.cut(applications.collect(), |application, id| application.id.cmp(id))
        }))
    }
}
