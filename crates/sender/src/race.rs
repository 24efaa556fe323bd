//! Several ways to one end.
//!
//! They are tried in turn, the next one when the last has failed or has kept us waiting for a while, and the first that
//! gets there wins: a way that hangs costs a while and not the deadline.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::deadline::Deadline;

/// The last failure if no way leads there, or the first one that is `hopeless`, which speaks for all ways. None if there
/// is no way.
pub(crate) async fn first<W, T, E, F>(
    ways: impl IntoIterator<Item = W, IntoIter: ExactSizeIterator>,
    patience: Duration,
    go: impl Fn(W) -> F,
    hopeless: impl Fn(&E) -> bool,
) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = ways.into_iter();
    let mut under_way = FuturesUnordered::new();
    let mut failure = None;
    loop {
        under_way.extend(waiting.next().map(&go));
        let ended = if waiting.len() == 0 {
            Some(under_way.next().await)
        } else {
            Deadline::after(patience).within(under_way.next()).await
        };
        match ended {
            None => {}
            Some(None) => return Err(failure),
            Some(Some(Ok(there))) => return Ok(there),
            Some(Some(Err(error))) => {
                let is_hopeless = hopeless(&error);
                failure = Some(error);
                if is_hopeless {
                    return Err(failure);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::now;
    use std::cell::RefCell;
    use std::future::pending;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// What becomes of a way.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Way {
        Leads,
        Fails,
        Hangs,
        IsHopeless,
    }
    use Way::{Fails, Hangs, IsHopeless, Leads};

    /// Which way led there or failed last, and after how many patiences each was tried.
    async fn tried(ways: &[Way]) -> (Result<usize, Option<usize>>, Vec<u128>) {
        let begun = now();
        let tried = RefCell::new(Vec::new());
        let go = async |(at, way): (usize, Way)| {
            tried.borrow_mut().push((now() - begun).as_millis() / PATIENCE.as_millis());
            match way {
                Leads => Ok(at),
                Fails | IsHopeless => Err((at, way)),
                Hangs => pending().await,
            }
        };
        let ways: Vec<_> = ways.iter().copied().enumerate().collect();
        let ended = first(ways, PATIENCE, go, |(_, way)| *way == IsHopeless).await;
        (ended.map_err(|failure| failure.map(|(at, _)| at)), tried.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_way_that_leads_there_is_enough() {
        assert_eq!(tried(&[Leads, Leads]).await, (Ok(0), vec![0]));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_the_next_way_is_tried_at_once() {
        assert_eq!(tried(&[Fails, Fails, Leads, Leads]).await, (Ok(2), vec![0, 0, 0]));
        assert_eq!(tried(&[Fails, Fails]).await, (Err(Some(1)), vec![0, 0]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_way_that_hangs_is_waited_for_and_not_for_ever() {
        assert_eq!(tried(&[Hangs, Leads]).await, (Ok(1), vec![0, 1]));
        assert_eq!(tried(&[Hangs, Hangs, Fails, Leads]).await, (Ok(3), vec![0, 1, 2, 2]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_speaks_for_all_ways_ends_them() {
        assert_eq!(tried(&[IsHopeless, Leads]).await, (Err(Some(0)), vec![0]));
        assert_eq!(tried(&[Hangs, IsHopeless, Leads]).await, (Err(Some(1)), vec![0, 1]));
    }

    #[tokio::test(start_paused = true)]
    async fn no_way_is_a_failure_and_not_a_wait() {
        assert_eq!(tried(&[]).await, (Err(None), vec![]));
    }
}
