//! Lists of the registry. The whole list must be the model's, and each page a part of the store's own list.

use std::collections::BTreeSet;
use std::fmt::Debug;

use posthaste_domain::EndpointRef;
use posthaste_store::{
    AttemptFilter, AttemptRecord, AttemptsOf, List, ListFrom, ListLimit, ListRequest, MessageFilter, Store,
    StoreError,
};

use super::operation::{AttemptFilterSpec, FromSpec, ListSpec, MessageFilterSpec};
use super::refs::Scope;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

/// Returns a request for the whole list. No sequence stores more rows than a page can have.
pub(crate) fn whole<K>() -> ListRequest<K> {
    ListRequest { from: ListFrom::Start, limit: ListLimit::new(250).expect("250 is the largest limit") }
}

/// Returns a request for a page, if the list has the row that it begins or ends at.
pub(crate) fn page_request<T, K>(
    whole: &[T],
    from: FromSpec,
    limit: i64,
    id: impl Fn(&T) -> K,
) -> Option<ListRequest<K>> {
    let row = |position: usize| whole.get(position % whole.len().max(1)).map(&id);
    let from = match from {
        FromSpec::Start => ListFrom::Start,
        FromSpec::After(position) => ListFrom::After(row(position)?),
        FromSpec::Before(position) => ListFrom::Before(row(position)?),
    };
    Some(ListRequest { from, limit: ListLimit::new(limit).expect("a valid limit") })
}

/// Returns the page that a store must return, out of the whole list.
pub(crate) fn expected_page<T: Clone>(whole: &[T], from: FromSpec, limit: i64) -> List<T> {
    let limit = usize::try_from(limit).expect("a valid limit");
    let len = whole.len().max(1);
    let (rows, is_backward) = match from {
        FromSpec::Start => (whole, false),
        FromSpec::After(position) => (&whole[position % len + 1..], false),
        FromSpec::Before(position) => (&whole[..position % len], true),
    };
    let done = rows.len() <= limit;
    let skipped = if is_backward { rows.len().saturating_sub(limit) } else { 0 };
    List { items: rows[skipped..].iter().take(limit).cloned().collect(), done }
}

/// Reads the whole list and a page of it from the store, checks the page, and evaluates to the result of the whole list.
macro_rules! read_list {
    ($from:expr, $limit:expr, $id:expr, |$request:ident| $call:expr) => {{
        let $request = &whole();
        let read: Result<List<_>, StoreError> = $call.await;
        if let Ok(List { items, .. }) = &read
            && let Some(request) = page_request(items, $from, $limit, $id)
        {
            let $request = &request;
            let page = $call.await.map_err(|error| Difference::failed("a page of a list", &error))?;
            compare("the page of a list", &expected_page(items, $from, $limit), &page)?;
        }
        read
    }};
}

impl SequenceRun<'_> {
    /// Compares a list of the registry, and a page of it.
    pub(super) async fn compare_list(
        &mut self,
        handle: Handle,
        list: &ListSpec,
        from: FromSpec,
        limit: i64,
    ) -> ComparisonResult<String> {
        let (store, model) = (self.store(handle), self.model.clone());
        let what = "lists of the registry";
        match list {
            ListSpec::Applications(org) => {
                let (store, org) = (store.applications(), &org.id());
                let read = read_list!(from, limit, |it| it.id, |request| store.list(org, request));
                let model = model.applications().list(org, &whole()).await;
                self.compare_lists(what, read, model, Self::application_to_model)
            }
            ListSpec::EventTypes { org, include_archived } => {
                let (store, org) = (store.event_types(), &org.id());
                let read = read_list!(from, limit, |it| it.name.clone(), |request| store.list(
                    org,
                    *include_archived,
                    request
                ));
                let model = model.event_types().list(org, *include_archived, &whole()).await;
                self.compare_lists(what, read, model, |run, store, model| {
                    Ok(run.event_type_to_model(store, model))
                })
            }
            ListSpec::Endpoints(app) => {
                let (store, scope) = (store.endpoints(), self.app(*app));
                let read = read_list!(from, limit, |it| it.id, |request| store.list(scope.store(), request));
                let model = model.endpoints().list(scope.model(), &whole()).await;
                self.compare_lists(what, read, model, Self::endpoint_to_model)
            }
            ListSpec::Messages { app, filter, with_content } => {
                let (store, scope) = (store.messages(), self.app(*app));
                let filter = self.message_filter(filter);
                let read = read_list!(from, limit, |it| it.id, |request| store.list(
                    scope.store(),
                    &filter.store,
                    request,
                    *with_content
                ));
                let model =
                    model.messages().list(scope.model(), &filter.model, &whole(), *with_content).await;
                self.compare_lists(what, read, model, Self::message_to_model)
            }
            ListSpec::MessagesOfEndpoint { endpoint, filter, with_content } => {
                let (store, (scope, endpoint)) = (store.messages(), self.endpoint(*endpoint));
                let filter = self.message_filter(filter);
                let read = read_list!(from, limit, |it| it.message.id, |request| store.of_endpoint(
                    scope.store(),
                    &endpoint.store,
                    &filter.store,
                    request,
                    *with_content
                ));
                let messages = model.messages();
                let model = messages
                    .of_endpoint(scope.model(), &endpoint.model, &filter.model, &whole(), *with_content)
                    .await;
                self.compare_lists(what, read, model, Self::endpoint_message_to_model)
            }
            ListSpec::Destinations(message) => {
                let (store, (scope, message)) = (store.messages(), self.message(*message));
                let read = read_list!(from, limit, |it| it.endpoint.id, |request| store.destinations(
                    scope.store(),
                    &message.store,
                    request
                ));
                let model = model.messages().destinations(scope.model(), &message.model, &whole()).await;
                self.compare_lists(what, read, model, Self::message_destination_to_model)
            }
            ListSpec::AttemptsOfMessage { message, filter } => {
                let (scope, message) = self.message(*message);
                let of = Counterparts {
                    store: AttemptsOf::Message(message.store),
                    model: AttemptsOf::Message(message.model),
                };
                self.compare_attempt_list(&*store, &scope, of, filter, from, limit).await
            }
            ListSpec::AttemptsOfEndpoint { endpoint, filter } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let of = Counterparts {
                    store: AttemptsOf::Endpoint(endpoint.store),
                    model: AttemptsOf::Endpoint(endpoint.model),
                };
                self.compare_attempt_list(&*store, &scope, of, filter, from, limit).await
            }
            ListSpec::Operations(state) => {
                let store = store.operations();
                let read = read_list!(from, limit, |it| it.id, |request| store.list(*state, request));
                let model = model.operations().list(*state, &whole()).await;
                self.compare_lists(what, read, model, Self::operation_to_model)
            }
        }
    }

    /// Compares a whole list, item by item.
    pub(crate) fn compare_lists<T: PartialEq + Debug>(
        &mut self,
        what: &'static str,
        store: Result<List<T>, StoreError>,
        model: Result<List<T>, StoreError>,
        mut convert: impl FnMut(&mut Self, &T, &T) -> ComparisonResult<T>,
    ) -> ComparisonResult<String> {
        let compared = self.compare_calls(what, store, model, |run, store, model| {
            if store.items.len() != model.items.len() {
                return Err(Difference::new(format!(
                    "{what} differ in length:\n  model: {:?}\n  store: {:?}",
                    model.items, store.items
                )));
            }
            let pairs = store.items.iter().zip(&model.items);
            let items = pairs.map(|(store, model)| convert(run, store, model)).collect::<Result<_, _>>()?;
            Ok(List { items, done: store.done })
        })?;
        Ok(compared.map_or_else(String::new, |it| format!("{} items", it.store.items.len())))
    }

    /// Compares a list of attempts. Attempts that the model recorded at the same time may be in any order.
    async fn compare_attempt_list(
        &mut self,
        store: &dyn Store,
        scope: &Scope,
        of: Counterparts<AttemptsOf>,
        filter: &AttemptFilterSpec,
        from: FromSpec,
        limit: i64,
    ) -> ComparisonResult<String> {
        let filter = self.attempt_filter(scope, of, filter);
        let messages = store.messages();
        let mut read = read_list!(from, limit, |it: &AttemptRecord| it.id, |request| messages.attempts(
            scope.store(),
            &filter.store,
            request
        ));
        let mut model = self.model.messages().attempts(scope.model(), &filter.model, &whole()).await;
        if let (Ok(read), Ok(model)) = (&mut read, &mut model) {
            self.keep_model_order(read, model)?;
            if let (AttemptsOf::Message(message), Some(first)) = (&filter.store.of, read.items.first()) {
                let single = messages.attempt(scope.store(), message, first.id).await;
                compare("a single attempt", &Ok(first.clone()), &single)?;
            }
        }
        self.tally.add("listed attempts", model.as_ref().map_or(0, |model| model.items.len()));
        self.compare_lists("lists of attempts", read, model, Self::attempt_to_model)
    }

    /// Sorts the store's attempts as the model does, if they are most recently recorded first. Removes attempts that the model has
    /// removed, if the store may still have them.
    fn keep_model_order(
        &self,
        store: &mut List<AttemptRecord>,
        model: &List<AttemptRecord>,
    ) -> ComparisonResult {
        let mut positions = Vec::new();
        for record in std::mem::take(&mut store.items) {
            let token = self.ids.tokens.model_of(&record.attempt.token)?;
            let recorded_at = self.model.with_state(|state| Some(state.attempts.get(&token)?.recorded_at));
            if recorded_at.is_none() && self.allowed.late_attempt_removal {
                continue;
            }
            let index = model.items.iter().position(|model| model.attempt.token == token);
            let unexpected = || Difference::new(format!("an unexpected attempt is listed: {record:?}"));
            positions.push((recorded_at, index.ok_or_else(unexpected)?, record));
        }
        if positions.windows(2).any(|pair| pair[0].0 < pair[1].0) {
            return Err(Difference::new(format!("attempts are not listed newest first: {positions:?}")));
        }
        positions.sort_by_key(|(_, index, _)| *index);
        store.items = positions.into_iter().map(|(.., record)| record).collect();
        Ok(())
    }

    fn message_filter(&self, spec: &MessageFilterSpec) -> Counterparts<MessageFilter> {
        let (before, after) = (self.time_ago(spec.before_ago), self.time_ago(spec.after_ago));
        let model = MessageFilter {
            event_types: spec.event_type.clone().map(|name| BTreeSet::from([name])),
            channel: spec.channel.clone(),
            tag: spec.tag.map(str::to_owned),
            before: before.model,
            after: after.model,
        };
        Counterparts {
            store: MessageFilter { before: before.store, after: after.store, ..model.clone() },
            model,
        }
    }

    fn attempt_filter(
        &mut self,
        scope: &Scope,
        of: Counterparts<AttemptsOf>,
        spec: &AttemptFilterSpec,
    ) -> Counterparts<AttemptFilter> {
        let (before, after) = (self.time_ago(spec.before_ago), self.time_ago(spec.after_ago));
        let endpoint: Option<Counterparts<EndpointRef>> =
            spec.endpoint.map(|index| self.endpoint_of_app(scope, index));
        let model = AttemptFilter {
            of: of.model,
            endpoint: endpoint.as_ref().map(|endpoint| endpoint.model.clone()),
            is_success: spec.is_success,
            status_code_class: spec.status_code_class,
            channel: spec.channel.clone(),
            event_types: spec.event_type.clone().map(|name| BTreeSet::from([name])),
            before: before.model,
            after: after.model,
        };
        let store = AttemptFilter {
            of: of.store,
            endpoint: endpoint.map(|endpoint| endpoint.store),
            before: before.store,
            after: after.store,
            ..model.clone()
        };
        Counterparts { store, model }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_part_of_the_list_in_both_directions() {
        let page = |from, limit| {
            let List { items, done } = expected_page(&[1, 2, 3, 4, 5], from, limit);
            (items, done)
        };
        assert_eq!(page(FromSpec::Start, 2), (vec![1, 2], false));
        assert_eq!(page(FromSpec::After(1), 2), (vec![3, 4], false));
        assert_eq!(page(FromSpec::After(4), 2), (vec![], true));
        assert_eq!(page(FromSpec::Before(4), 2), (vec![3, 4], false));
        assert_eq!(page(FromSpec::Before(2), 2), (vec![1, 2], true));
        assert_eq!(expected_page::<i32>(&[], FromSpec::Start, 2), List::empty());
    }
}
