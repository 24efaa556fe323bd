//! Resolution of choices: which application, endpoint or message an operation names, in the store and in the model.

use posthaste_domain::{
    ApplicationId, ApplicationRef, DestinationId, EndpointId, EndpointRef, MessageRef, OrgId, Uid,
};
use posthaste_store::AppScope;

use super::generate_choice::{app_uid, endpoint_uid};
use super::operation::{AppChoice, EndpointChoice, MessageChoice, Org};
use crate::operation::RecencyIndex;
use crate::sequence_run::{Counterparts, SequenceRun};

/// The application that a call names.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) org: OrgId,
    pub(super) app: Counterparts<ApplicationRef>,
}

impl Scope {
    pub(super) fn store(&self) -> AppScope<'_> {
        AppScope { org: &self.org, app: &self.app.store }
    }

    pub(super) fn model(&self) -> AppScope<'_> {
        AppScope { org: &self.org, app: &self.app.model }
    }
}

impl SequenceRun<'_> {
    pub(super) fn app(&mut self, choice: AppChoice) -> Scope {
        let other =
            |org: &OrgId| Org::ALL.map(Org::id).into_iter().find(|id| id != org).expect("there are two");
        match choice {
            AppChoice::Live(index) => self.app_by_id(index.pick(&self.live_apps()).cloned()),
            AppChoice::Any(index) => self.app_by_id(index.pick(&self.applications).cloned()),
            AppChoice::Foreign(index) => {
                let app = index.pick(&self.live_apps()).cloned();
                self.app_by_id(app.map(|(org, id)| (other(&org), id)))
            }
            AppChoice::Uid(number) => {
                let app = ApplicationRef::Uid(Uid::for_application(&app_uid(number)).expect("a valid uid"));
                Scope { org: OrgId::default_org(), app: Counterparts { store: app.clone(), model: app } }
            }
        }
    }

    /// Returns the scope of an application of the model. Without one, the id is unknown to both.
    fn app_by_id(&mut self, app: Option<(OrgId, ApplicationId)>) -> Scope {
        let (org, model) = app.unwrap_or((OrgId::default_org(), ApplicationId(i64::MAX)));
        let store = self.ids.applications.store_of(&model).copied().unwrap_or(ApplicationId(i64::MAX));
        let app = Counterparts { store: ApplicationRef::Id(store), model: ApplicationRef::Id(model) };
        self.ids.pair_names(&app);
        Scope { org, app }
    }

    fn live_apps(&self) -> Vec<(OrgId, ApplicationId)> {
        self.model.with_state(|state| {
            let live = state.registry.applications.values().filter(|row| row.deleted_at.is_none());
            live.map(|row| (row.application.org.clone(), row.application.id)).collect()
        })
    }

    /// Returns the scope of an application of the model, live or deleted.
    fn scope_of(&mut self, app: ApplicationId) -> Scope {
        let found = self.applications.iter().find(|(_, id)| *id == app).cloned();
        self.app_by_id(found)
    }

    pub(super) fn endpoint(&mut self, choice: EndpointChoice) -> (Scope, Counterparts<EndpointRef>) {
        let latest_app = AppChoice::Live(RecencyIndex(0));
        let (index, is_live) = match choice {
            EndpointChoice::Uid(number) => {
                let endpoint =
                    EndpointRef::Uid(Uid::for_endpoint(&endpoint_uid(number)).expect("a valid uid"));
                let endpoint = Counterparts { store: endpoint.clone(), model: endpoint };
                return (self.app(latest_app), endpoint);
            }
            EndpointChoice::Any(index) => (index, false),
            EndpointChoice::Live(index)
            | EndpointChoice::LiveByUid(index)
            | EndpointChoice::OfLatestApp(index) => (index, true),
        };
        let endpoints = self.model_endpoints(is_live);
        let Some((app, id, uid)) = index.pick(&endpoints).cloned() else {
            return (self.app(latest_app), self.endpoint_by_id(None));
        };
        let scope = match choice {
            EndpointChoice::OfLatestApp(_) => self.app(latest_app),
            _ => self.scope_of(app),
        };
        match (choice, uid) {
            (EndpointChoice::LiveByUid(_), Some(uid)) => {
                let endpoint = EndpointRef::Uid(uid);
                (scope, Counterparts { store: endpoint.clone(), model: endpoint })
            }
            _ => (scope, self.endpoint_by_id(Some(id))),
        }
    }

    /// Returns an endpoint of an application of the model; if it has none, a live endpoint of another one.
    pub(super) fn endpoint_of_app(
        &mut self,
        scope: &Scope,
        index: RecencyIndex,
    ) -> Counterparts<EndpointRef> {
        let endpoints = self.model_endpoints(true);
        let is_own = |app: ApplicationId| scope.app.model == ApplicationRef::Id(app);
        let own: Vec<_> = endpoints.iter().filter(|(app, ..)| is_own(*app)).cloned().collect();
        let picked = index.pick(&own).or_else(|| index.pick(&endpoints)).map(|(_, id, _)| *id);
        self.endpoint_by_id(picked)
    }

    fn endpoint_by_id(&mut self, model: Option<DestinationId>) -> Counterparts<EndpointRef> {
        let model = model.unwrap_or(DestinationId(i64::MAX));
        let store = self.ids.destinations.store_of(&model).copied().unwrap_or(DestinationId(i64::MAX));
        let by_id = |id| EndpointRef::Id(EndpointId(id));
        let endpoint = Counterparts { store: by_id(store), model: by_id(model) };
        self.ids.pair_names(&endpoint);
        endpoint
    }

    fn model_endpoints(&self, is_live: bool) -> Vec<(ApplicationId, DestinationId, Option<Uid>)> {
        self.model.with_state(|state| {
            let endpoints =
                state.destinations.iter().filter_map(|(id, it)| Some((*id, it.endpoint.as_ref()?)));
            let wanted = endpoints.filter(|(_, row)| !is_live || row.deleted_at.is_none());
            wanted.map(|(id, row)| (row.app, id, row.uid.clone())).collect()
        })
    }

    pub(super) fn message(&mut self, choice: MessageChoice) -> (Scope, Counterparts<MessageRef>) {
        let (MessageChoice::Any(index) | MessageChoice::ByUid(index) | MessageChoice::OfLatestApp(index)) =
            choice;
        let Some(published) = index.pick(&self.published).cloned() else {
            let message = MessageRef::Uid(Uid::for_message("unknown").expect("a valid uid"));
            let message = Counterparts { store: message.clone(), model: message };
            return (self.app(AppChoice::Live(RecencyIndex(0))), message);
        };
        let scope = match choice {
            MessageChoice::OfLatestApp(_) => self.app(AppChoice::Live(RecencyIndex(0))),
            _ => self.scope_of(published.app),
        };
        let message = match (choice, published.uid) {
            (MessageChoice::ByUid(_), Some(uid)) => {
                Counterparts { store: MessageRef::Uid(uid.clone()), model: MessageRef::Uid(uid) }
            }
            _ => {
                let Counterparts { store, model } = published.id;
                Counterparts { store: MessageRef::Id(store), model: MessageRef::Id(model) }
            }
        };
        self.ids.pair_names(&message);
        (scope, message)
    }
}
