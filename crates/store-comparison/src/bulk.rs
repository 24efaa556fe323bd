//! Bulk operations on dead letters.
//!
//! A step examines dead letters in the order of their keys. A store may give the events of concurrent requests keys in another
//! order than the model. A step that does not examine all of them can then be compared only by its limits, and is left out.

mod generate;
mod operation;

use posthaste_domain::{BulkId, DestinationUrl, EndpointId};
use posthaste_store::{
    Advance, BulkCount, BulkFilter, BulkOperation, ListRequest, NewBulkOperation, OperationState, Store as _,
    StoreError,
};

use crate::clock_offset::optional_to_model;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::durations::AFTER_START;
use crate::operation::{Handle, RecencyIndex};
use crate::registry::{FromSpec, expected_page, page_request, whole};
use crate::sequence_run::{Counterparts, SequenceRun};

pub(crate) use generate::bulk_calls;
pub(crate) use operation::BulkCall;

use operation::{FilterSpec, StartSpec};

/// More rows than a sequence has dead letters.
const ALL_ROWS: usize = 1_000;

impl SequenceRun<'_> {
    pub(crate) async fn run_on_bulk(&mut self, handle: Handle, call: &BulkCall) -> ComparisonResult<String> {
        match call {
            BulkCall::Count(filter) => {
                let filter = self.bulk_filter(filter);
                Ok(format!("{:?}", self.count_bulk(handle, &filter).await?.model))
            }
            BulkCall::Start(spec) => self.start_bulk(handle, spec).await,
            BulkCall::Advance { rows_max } => self.advance_bulk(handle, *rows_max).await,
            BulkCall::Stop { bulk, actor } => {
                let id = self.bulk_id(*bulk);
                let store = self.store(handle).bulk().stop(id.store, actor.name()).await;
                let model = self.model.bulk().stop(id.model, actor.name()).await;
                self.compare_bulk_calls("stopped bulk operations", store, model)
            }
            BulkCall::Get(bulk) => {
                let id = self.bulk_id(*bulk);
                let store = self.store(handle).bulk().get(id.store).await;
                let model = self.model.bulk().get(id.model).await;
                self.compare_bulk_calls("read bulk operations", store, model)
            }
            BulkCall::List { state, from, limit } => {
                self.compare_bulk_list(handle, *state, *from, *limit).await
            }
        }
    }

    /// Compares all bulk operations.
    pub(crate) async fn compare_all_bulk(&mut self, handle: Handle) -> ComparisonResult {
        if self.model.with_state(|state| state.bulk.operations.is_empty()) {
            return Ok(());
        }
        self.compare_bulk_list(handle, None, FromSpec::Start, 1).await.map(drop)
    }

    async fn count_bulk(
        &mut self,
        handle: Handle,
        filter: &Counterparts<BulkFilter>,
    ) -> ComparisonResult<Counterparts<BulkCount>> {
        let store = self.store(handle).bulk().count(&filter.store).await;
        let store = store.map_err(|error| Difference::failed("count", &error))?;
        let model = self.model.bulk().count(&filter.model).await.expect("the model is always up");
        compare("the number of dead letters that a filter selects", &model, &store)?;
        self.tally.add("dead letters counted for bulk operations", usize::try_from(model.count).unwrap_or(0));
        Ok(Counterparts { store, model })
    }

    async fn start_bulk(&mut self, handle: Handle, spec: &StartSpec) -> ComparisonResult<String> {
        let filter = self.bulk_filter(&spec.filter);
        let matched = self.count_bulk(handle, &filter).await?;
        let new = |filter, matched| NewBulkOperation {
            action: spec.action,
            filter,
            rate: spec.rate,
            matched,
            reason: spec.reason,
            actor: spec.actor.name(),
            key: spec.key,
        };
        let store = self.store(handle).bulk().start(&new(filter.store, matched.store)).await;
        let model = self.model.bulk().start(&new(filter.model, matched.model)).await;
        let started = self.compare_bulk_calls("started bulk operations", store, model)?;
        // An event that fails later in the model's same instant would be selected by the model alone.
        self.advance(AFTER_START).await?;
        Ok(started)
    }

    async fn advance_bulk(&mut self, handle: Handle, rows_max: usize) -> ComparisonResult<String> {
        let rows_max = if self.has_model_key_order() { rows_max } else { ALL_ROWS };
        if self.is_bulk_step_uncertain(rows_max) {
            return Ok("skipped, because the stores may choose different events".to_owned());
        }
        let store = self.store(handle).bulk().advance(rows_max).await;
        let model = self.model.bulk().advance(rows_max).await;
        let step = self.compare_calls("steps of bulk operations", store, model, |_, store, model| {
            Ok(Advance { next_in: optional_to_model(store.next_in, model.next_in), ..*store })
        })?;
        let done = step.map_or(0, |step| step.model.done);
        self.tally.add("events of bulk operations", done);
        Ok(format!("{done} done"))
    }

    /// Returns whether the store's dead letters have keys in the order of the model's.
    fn has_model_key_order(&self) -> bool {
        let failed = self.views.iter().filter(|view| view.failure_kind.is_some());
        let mut keys: Vec<_> =
            failed.filter_map(|view| Some((view.key, self.ids.keys.model_of(&view.key).ok()?))).collect();
        keys.sort();
        keys.is_sorted_by_key(|(_, model)| *model)
    }

    /// Returns whether a rate may end a step: one of which a part is spent, because the store's clock may have refilled it further
    /// than the model's, or one below a number of dead letters that have another order in the store.
    fn is_bulk_step_uncertain(&self, rows_max: usize) -> bool {
        let (now, has_model_order) = (self.now(), rows_max < ALL_ROWS);
        self.model.with_state(|state| {
            let running = state.bulk.operations.values().map(|row| &row.running);
            let mut running = running.filter(|it| it.operation.state == OperationState::Running);
            running.any(|it| {
                let is_spent = it.spent_until.is_some_and(|until| until > now);
                let is_limiting = it.operation.rate.available(it.spent_until, now) < rows_max;
                is_limiting && (is_spent || !has_model_order)
            })
        })
    }

    async fn compare_bulk_list(
        &mut self,
        handle: Handle,
        state: Option<OperationState>,
        from: FromSpec,
        limit: i64,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let read = store.bulk().list(state, &whole()).await;
        if let Ok(list) = &read
            && let Some(request) = page_request(&list.items, from, limit, |it| it.id)
        {
            let request: ListRequest<BulkId> = request;
            let page = store.bulk().list(state, &request).await;
            let page = page.map_err(|error| Difference::failed("a page of bulk operations", &error))?;
            compare("the page of bulk operations", &expected_page(&list.items, from, limit), &page)?;
        }
        let model = self.model.bulk().list(state, &whole()).await;
        self.compare_lists("lists of bulk operations", read, model, Self::bulk_to_model)
    }

    fn compare_bulk_calls(
        &mut self,
        what: &'static str,
        store: Result<BulkOperation, StoreError>,
        model: Result<BulkOperation, StoreError>,
    ) -> ComparisonResult<String> {
        let compared = self.compare_calls(what, store, model, Self::bulk_to_model)?;
        Ok(compared.map_or_else(String::new, |it| format!("{} {}", it.store.id, it.store.state.as_str())))
    }

    fn bulk_to_model(
        &mut self,
        store: &BulkOperation,
        model: &BulkOperation,
    ) -> ComparisonResult<BulkOperation> {
        self.ids.bulk_operations.pair(&store.id, &model.id)?;
        self.ids.pair_names(&Counterparts { store: store.id, model: model.id });
        let offset = &self.clock_offset;
        let endpoint = store.filter.endpoint;
        let endpoint = endpoint.map(|it| self.ids.destinations.model_of(&it.0)).transpose()?.map(EndpointId);
        let app = store.filter.app.map(|app| self.ids.applications.model_of(&app)).transpose()?;
        let filter = BulkFilter {
            endpoint,
            app,
            since: offset.optional_to_model(store.filter.since, model.filter.since),
            until: offset.optional_to_model(store.filter.until, model.filter.until),
            ..store.filter.clone()
        };
        Ok(BulkOperation {
            id: model.id,
            filter,
            created_at: offset.to_model(store.created_at, model.created_at),
            updated_at: offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        })
    }

    /// Returns a bulk operation, ended or removed ones included; an id that does not exist in either store if there is none.
    fn bulk_id(&self, index: RecencyIndex) -> Counterparts<BulkId> {
        let all = self.ids.bulk_operations.pairs();
        let unknown = Counterparts { store: BulkId(i64::MAX), model: BulkId(i64::MAX) };
        index.pick(&all).cloned().unwrap_or(unknown)
    }

    fn bulk_filter(&self, spec: &FilterSpec) -> Counterparts<BulkFilter> {
        let (since, until) = (self.time_ago(spec.since_ago), self.time_ago(spec.until_ago));
        let endpoint = spec.endpoint.and_then(|index| index.pick(&self.ids.destinations.pairs()).cloned());
        let app = spec.app.and_then(|index| index.pick(&self.ids.applications.pairs()).cloned());
        let model = BulkFilter {
            destination: spec.destination.map(|it| DestinationUrl::parse(it.url()).expect("a valid URL")),
            endpoint: endpoint.as_ref().map(|endpoint| EndpointId(endpoint.model)),
            app: app.as_ref().map(|app| app.model),
            event_type: spec.event_type.map(str::to_owned),
            failure_kind: spec.failure_kind,
            error: spec.error,
            since: since.model,
            until: until.model,
        };
        let store = BulkFilter {
            endpoint: endpoint.map(|endpoint| EndpointId(endpoint.store)),
            app: app.map(|app| app.store),
            since: since.store,
            until: until.store,
            ..model.clone()
        };
        Counterparts { store, model }
    }
}
