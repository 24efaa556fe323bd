//! Staggered attempts at several candidates, such as the addresses of a name. The first success wins.
//!
//! The next candidate starts when the last one has failed or a delay has passed, while earlier ones continue. A
//! candidate that hangs costs the delay and not the whole deadline. This is the scheme of Happy Eyeballs (RFC 8305).

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::deadline::Deadline;

/// Tries the candidates in order, `delay` apart, and returns the first success.
///
/// If all fail, returns the last error. An error for which `is_final` holds applies to all candidates and ends the race
/// at once. Returns `Err(None)` if there is no candidate.
pub(crate) async fn first_success<C, T, E, F>(
    candidates: impl IntoIterator<Item = C, IntoIter: ExactSizeIterator>,
    delay: Duration,
    attempt: impl Fn(C) -> F,
    is_final: impl Fn(&E) -> bool,
) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut candidates = candidates.into_iter();
    let mut running = FuturesUnordered::new();
    let mut last_error = None;
    loop {
        running.extend(candidates.next().map(&attempt));
        let finished = if candidates.len() == 0 {
            Some(running.next().await)
        } else {
            Deadline::after(delay).within(running.next()).await
        };
        match finished {
            // The delay has passed: start the next candidate.
            None => {}
            Some(None) => return Err(last_error),
            Some(Some(Ok(success))) => return Ok(success),
            Some(Some(Err(error))) => {
                let ends_race = is_final(&error);
                last_error = Some(error);
                if ends_race {
                    return Err(last_error);
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

    const DELAY: Duration = Duration::from_secs(1);

    /// The result of trying a candidate.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Candidate {
        Succeeds,
        Fails,
        Hangs,
        FailsForAll,
    }
    use Candidate::{Fails, FailsForAll, Hangs, Succeeds};

    /// Returns the index of the candidate that succeeded or failed last, and the start time of each, in delays.
    async fn race(candidates: &[Candidate]) -> (Result<usize, Option<usize>>, Vec<u128>) {
        let started = now();
        let start_times = RefCell::new(Vec::new());
        let attempt = async |(index, candidate): (usize, Candidate)| {
            start_times.borrow_mut().push((now() - started).as_millis() / DELAY.as_millis());
            match candidate {
                Succeeds => Ok(index),
                Fails | FailsForAll => Err((index, candidate)),
                Hangs => pending().await,
            }
        };
        let candidates: Vec<_> = candidates.iter().copied().enumerate().collect();
        let is_final = |(_, candidate): &(usize, Candidate)| *candidate == FailsForAll;
        let result = first_success(candidates, DELAY, attempt, is_final).await;
        (result.map_err(|error| error.map(|(index, _)| index)), start_times.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn first_success_ends_the_race() {
        assert_eq!(race(&[Succeeds, Succeeds]).await, (Ok(0), vec![0]));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_the_next_candidate_starts_at_once() {
        assert_eq!(race(&[Fails, Fails, Succeeds, Succeeds]).await, (Ok(2), vec![0, 0, 0]));
        assert_eq!(race(&[Fails, Fails]).await, (Err(Some(1)), vec![0, 0]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_candidate_that_hangs_delays_the_next_one_only_once() {
        assert_eq!(race(&[Hangs, Succeeds]).await, (Ok(1), vec![0, 1]));
        assert_eq!(race(&[Hangs, Hangs, Fails, Succeeds]).await, (Ok(3), vec![0, 1, 2, 2]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_final_error_ends_the_race() {
        assert_eq!(race(&[FailsForAll, Succeeds]).await, (Err(Some(0)), vec![0]));
        assert_eq!(race(&[Hangs, FailsForAll, Succeeds]).await, (Err(Some(1)), vec![0, 1]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_race_without_candidates_fails_at_once() {
        assert_eq!(race(&[]).await, (Err(None), vec![]));
    }
}
