//! The log of what became of events.

use std::collections::BTreeSet;

use futures_util::future::join3;
use posthaste_domain::{EventId, Lease, NewEventSpec, NoticeKind};
use posthaste_store::{NoticeCursor, PublishedNotice};

use crate::Harness;
use crate::fixture::*;

fn told(notices: &[PublishedNotice]) -> Vec<(NoticeKind, EventId)> {
    notices.iter().map(|published| (published.notice.kind, published.notice.event_id.clone())).collect()
}

fn is_ascending(notices: &[PublishedNotice]) -> bool {
    notices.windows(2).all(|pair| pair[0].cursor < pair[1].cursor)
}

pub async fn terminal_changes_are_published_in_commit_order(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let first = delivered(&store, event()).await;
    let second = dead_lettered(&store, event()).await;
    let third = enqueue(&store, event()).await;
    store.cancel(&third, "operator", None).await.expect("a pending event can be cancelled");
    let fourth = delivered(&store, event()).await;
    let notices = published(&store, start).await;
    let expected = [
        (NoticeKind::Delivered, first),
        (NoticeKind::DeadLettered, second),
        (NoticeKind::DeadLettered, third),
        (NoticeKind::Delivered, fourth),
    ];
    assert_eq!(told(&notices), expected);
    assert!(is_ascending(&notices) && notices[0].cursor > start, "{notices:?}");
    assert_eq!(published(&harness.second_handle(), start).await, notices);
}

pub async fn a_retry_is_not_published(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    retrying(&store, event()).await;
    assert_eq!(published(&store, start).await, []);
    harness.advance(HOUR).await;
    apply(&store, &claim_one(&store).await, delivers()).await;
    let notices = published(&store, start).await;
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
        ..event_named("chosen")
    };
    dead_lettered(&store, spec).await;
    let plain = delivered(&store, event()).await;
    let notices = published(&store, start).await;
    let notice = &notices[0].notice;
    assert_eq!((notice.kind, notice.event_id.as_str()), (NoticeKind::DeadLettered, "chosen"));
    assert_eq!(notice.payment_request_id.as_deref(), Some("pr-1"));
    assert_eq!(notice.webhook_id.as_deref(), Some("wh-2"));
    assert_eq!(notice.session_id.as_deref(), Some("se-3"));
    assert_eq!(notice.attempts, 1);
    assert_about(notice.at, view(&store, &id("chosen")).await.updated_at);
    let notice = &notices[1].notice;
    assert_eq!((notice.kind, &notice.event_id, notice.attempts), (NoticeKind::Delivered, &plain, 1));
    assert_eq!((&notice.payment_request_id, &notice.webhook_id, &notice.session_id), (&None, &None, &None));
}

pub async fn a_page_holds_no_more_than_asked_and_the_next_goes_on(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push((NoticeKind::Delivered, delivered(&store, event()).await));
    }
    let mut cursor = start;
    let mut followed = Vec::new();
    for size in [2, 2, 1, 0] {
        let page = store.notices(Some(cursor), 2).await.expect("the store is up");
        assert_eq!(page.notices.len(), size);
        if let Some(last) = page.notices.last() {
            assert_eq!(page.cursor, last.cursor, "the page tells where to go on");
        }
        followed.extend(told(&page.notices));
        cursor = page.cursor;
    }
    assert_eq!(followed, expected);
}

pub async fn any_notice_can_be_resumed_from(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    for _ in 0..4 {
        delivered(&store, event()).await;
    }
    let all = published(&store, start).await;
    for (index, seen) in all.iter().enumerate() {
        assert_eq!(published(&store, seen.cursor).await, all[index + 1..]);
    }
}

pub async fn without_a_cursor_there_is_only_the_end_of_the_log(harness: &dyn Harness) {
    let store = harness.store();
    delivered(&store, event()).await;
    let end = end_of_log(&store).await;
    assert_eq!(published(&store, end).await, []);
    let next = dead_lettered(&store, event()).await;
    assert_eq!(told(&published(&store, end).await), [(NoticeKind::DeadLettered, next)]);
}

pub async fn a_follower_at_the_end_misses_nothing_that_comes_after(harness: &dyn Harness) {
    let store = harness.store();
    let mut cursor = end_of_log(&store).await;
    for _ in 0..3 {
        let page = store.notices(Some(cursor), 10).await.expect("the store is up");
        assert_eq!(page.notices, []);
        let event_id = delivered(&store, event()).await;
        let page = store.notices(Some(page.cursor), 10).await.expect("the store is up");
        assert_eq!(told(&page.notices), [(NoticeKind::Delivered, event_id)]);
        cursor = page.cursor;
    }
}

/// Settles one by one, so that every notice has its own commit.
async fn deliver_each(store: &Handle, leases: &[Lease]) {
    for lease in leases {
        apply(store, lease, delivers()).await;
    }
}

/// Reads the log while others write it.
async fn follow(
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

pub async fn a_follower_misses_nothing_of_concurrent_commits(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let start = end_of_log(&store).await;
    let expected = enqueue_all(&store, vec![event(); 80]).await;
    let leases = claim_all(&store).await;
    let (one, other) = leases.split_at(40);
    let ((), (), (mut seen, cursor)) =
        join3(deliver_each(&store, one), deliver_each(&second, other), follow(&store, start, 40)).await;
    seen.extend(follow(&store, cursor, 20).await.0);
    assert!(is_ascending(&seen), "{seen:?}");
    let seen: Vec<EventId> = seen.into_iter().map(|published| published.notice.event_id).collect();
    assert_eq!(seen.len(), 80, "each once");
    assert_eq!(BTreeSet::from_iter(seen), BTreeSet::from_iter(expected));
}
