//! The log of notices.

use std::collections::BTreeSet;

use futures_util::future::join3;
use posthaste_domain::{EventId, FailureKind, Lease, NewEventSpec, NoticeKind};
use posthaste_store::{NoticeCursor, NoticeSubject, PublishedNotice};

use crate::Harness;
use crate::fixture::*;

fn kinds_and_ids(notices: &[PublishedNotice]) -> Vec<(NoticeKind, EventId)> {
    notices.iter().map(|published| (published.notice.kind, published.notice.event_id.clone())).collect()
}

fn is_ascending(notices: &[PublishedNotice]) -> bool {
    notices.windows(2).all(|pair| pair[0].cursor < pair[1].cursor)
}

pub async fn terminal_states_are_published_in_commit_order(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let first = enqueue_delivered(&store, event()).await;
    let second = enqueue_dead_lettered(&store, event()).await;
    let third = enqueue(&store, event()).await;
    store.cancel(&third, "operator".into(), None).await.expect("a pending event can be cancelled");
    let fourth = enqueue_delivered(&store, event()).await;
    let notices = published_after(&store, start).await;
    let expected = [
        (NoticeKind::Delivered, first),
        (NoticeKind::DeadLettered(FailureKind::Gone), second),
        (NoticeKind::DeadLettered(FailureKind::Cancelled), third),
        (NoticeKind::Delivered, fourth),
    ];
    assert_eq!(kinds_and_ids(&notices), expected);
    assert!(is_ascending(&notices) && notices[0].cursor > start, "{notices:?}");
    assert_eq!(published_after(&harness.second_handle(), start).await, notices);
}

pub async fn a_retry_is_not_published(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    enqueue_retrying(&store, event()).await;
    assert_eq!(published_after(&store, start).await, []);
    harness.advance(HOUR).await;
    apply(&store, &claim_one(&store).await, success()).await;
    let notices = published_after(&store, start).await;
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].notice.attempts, 2);
}

pub async fn a_notice_carries_the_references_of_its_event(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let spec = NewEventSpec {
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-3".to_owned()),
        ..event_with_id("chosen")
    };
    enqueue_dead_lettered(&store, spec).await;
    let plain = enqueue_delivered(&store, event()).await;
    let notices = published_after(&store, start).await;
    let notice = &notices[0].notice;
    assert_eq!(notice.kind, NoticeKind::DeadLettered(FailureKind::Gone));
    assert_eq!(notice.event_id.as_str(), "chosen");
    assert_eq!(notice.payment_request_id.as_deref(), Some("pr-1"));
    assert_eq!(notice.webhook_id.as_deref(), Some("wh-2"));
    assert_eq!(notice.session_id.as_deref(), Some("se-3"));
    assert_eq!(notice.attempts, 1);
    assert_same_time(notice.at, view(&store, &id("chosen")).await.updated_at);
    let notice = &notices[1].notice;
    assert_eq!((notice.kind, &notice.event_id, notice.attempts), (NoticeKind::Delivered, &plain, 1));
    assert_eq!((&notice.payment_request_id, &notice.webhook_id, &notice.session_id), (&None, &None, &None));
}

pub async fn a_notice_names_the_type_and_the_destination_of_its_event(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let delivered = enqueue_delivered(&store, event()).await;
    let discarded = enqueue_dead_lettered(&store, event()).await;
    let subjects = async || {
        let notices = published_after(&store, start).await;
        notices.into_iter().map(|published| published.subject).collect::<Vec<_>>()
    };
    let event = view(&store, &delivered).await;
    let subject = NoticeSubject { event_type: event.event_type, destination_url: event.destination_url };
    assert_eq!(subjects().await, [Some(subject.clone()), Some(subject.clone())]);
    store.discard(&discarded, "operator".into(), None).await.expect("a dead letter can be discarded");
    assert_eq!(subjects().await, [Some(subject), None], "a discarded event");
}

pub async fn notice_pages_respect_their_limit_and_continue(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push((NoticeKind::Delivered, enqueue_delivered(&store, event()).await));
    }
    let mut cursor = start;
    let mut received = Vec::new();
    for size in [2, 2, 1, 0] {
        let page = store.notices(Some(cursor), 2).await.expect("the store is up");
        assert_eq!(page.notices.len(), size);
        if let Some(last) = page.notices.last() {
            assert_eq!(page.cursor, last.cursor, "the cursor of a page is its last notice");
        }
        received.extend(kinds_and_ids(&page.notices));
        cursor = page.cursor;
    }
    assert_eq!(received, expected);
}

pub async fn reading_can_resume_after_any_notice(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    for _ in 0..4 {
        enqueue_delivered(&store, event()).await;
    }
    let all = published_after(&store, start).await;
    for (index, seen) in all.iter().enumerate() {
        assert_eq!(published_after(&store, seen.cursor).await, all[index + 1..]);
    }
}

pub async fn query_without_a_cursor_returns_only_the_end_of_the_log(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event()).await;
    let end = end_of_log(&store).await;
    assert_eq!(published_after(&store, end).await, []);
    let next = enqueue_dead_lettered(&store, event()).await;
    assert_eq!(
        kinds_and_ids(&published_after(&store, end).await),
        [(NoticeKind::DeadLettered(FailureKind::Gone), next)]
    );
}

pub async fn reading_beyond_the_end_of_the_log_returns_the_end_and_continues_there(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..2 {
        enqueue_delivered(&store, event()).await;
        let end = end_of_log(&store).await;
        let beyond = NoticeCursor { major: end.major + 1_000, minor: 0 };
        let page = store.notices(Some(beyond), 10).await.expect("the store is up");
        assert_eq!((&page.notices[..], page.cursor), (&[][..], end));
        assert!(page.ends_before(beyond) && !page.ends_before(end));
        let next = enqueue_delivered(&store, event()).await;
        let notices = published_after(&store, page.cursor).await;
        assert_eq!(kinds_and_ids(&notices), [(NoticeKind::Delivered, next)]);
    }
}

pub async fn subscriber_at_the_end_of_the_log_gets_every_later_notice(harness: &dyn Harness) {
    let store = harness.store();
    let mut cursor = end_of_log(&store).await;
    for _ in 0..3 {
        let page = store.notices(Some(cursor), 10).await.expect("the store is up");
        assert_eq!(page.notices, []);
        let event_id = enqueue_delivered(&store, event()).await;
        let page = store.notices(Some(page.cursor), 10).await.expect("the store is up");
        assert_eq!(kinds_and_ids(&page.notices), [(NoticeKind::Delivered, event_id)]);
        cursor = page.cursor;
    }
}

/// Settles one event at a time, so that every notice has its own commit.
async fn deliver_each(store: &Handle, leases: &[Lease]) {
    for lease in leases {
        apply(store, lease, success()).await;
    }
}

/// Reads pages of the log while other calls append to it.
async fn read_pages(
    store: &Handle,
    mut cursor: NoticeCursor,
    rounds: usize,
) -> (Vec<PublishedNotice>, NoticeCursor) {
    let mut seen = Vec::new();
    for _ in 0..rounds {
        let page = store.notices(Some(cursor), 5).await.expect("the store is up");
        seen.extend(page.notices);
        cursor = page.cursor;
    }
    (seen, cursor)
}

pub async fn subscriber_misses_no_notice_of_concurrent_commits(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let start = end_of_log(&store).await;
    let expected = enqueue_all(&store, vec![event(); 80]).await;
    let leases = claim_all(&store).await;
    let (one, other) = leases.split_at(40);
    let ((), (), (mut seen, cursor)) =
        join3(deliver_each(&store, one), deliver_each(&second, other), read_pages(&store, start, 40)).await;
    seen.extend(read_pages(&store, cursor, 20).await.0);
    assert!(is_ascending(&seen), "{seen:?}");
    let seen: Vec<EventId> = seen.into_iter().map(|published| published.notice.event_id).collect();
    assert_eq!(seen.len(), 80, "each notice once");
    assert_eq!(BTreeSet::from_iter(seen), BTreeSet::from_iter(expected));
}
