//! Runs random sequences on a store and reports the first one on which it differs from the model.

use std::cell::RefCell;
use std::fmt;

use posthaste_store_conformance::Harness;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};

use crate::generate::sequences;
use crate::operation::Step;
use crate::sequence_run::{AllowedDifferences, SequenceRun};
use crate::tally::Tally;

/// Environment variable that overrides the number of sequences.
const CASES_VARIABLE: &str = "POSTHASTE_COMPARISON_CASES";
/// Environment variable that overrides the seed of the sequences.
const SEED_VARIABLE: &str = "POSTHASTE_COMPARISON_SEED";

/// Time limit for shrinking a failed sequence.
const SHRINKING_MS_MAX: u32 = 60_000;

const HEADING: &str = "the store and the model differ";

/// A comparison of a store with the model over a number of random sequences.
///
/// An adapter needs only a harness and this test:
///
/// ```text
/// #[test]
/// fn the_store_does_what_the_model_does() {
///     Comparison::new(2_000).run(async || MyHarness::start().await);
/// }
/// ```
///
/// Every run generates the same sequences, so that a failure can be reproduced. `POSTHASTE_COMPARISON_CASES` overrides
/// their number, and `POSTHASTE_COMPARISON_SEED` selects others.
#[derive(Debug, Clone)]
pub struct Comparison {
    sequences: u32,
    seed: u64,
    only_direct_events: bool,
    allowed: AllowedDifferences,
}

/// A shrunk sequence on which the store and the model differ, with the difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence(String);

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Divergence {}

impl Comparison {
    /// Creates a comparison over a number of sequences, with seed 0.
    pub fn new(sequences: u32) -> Self {
        Self { sequences, seed: 0, only_direct_events: false, allowed: AllowedDifferences::default() }
    }

    /// Selects other sequences by a seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Compares direct events alone, for a store whose other calls cannot be compared.
    #[must_use]
    pub fn with_direct_events_alone(mut self) -> Self {
        self.only_direct_events = true;
        self
    }

    /// Accepts a store that keeps attempts, and recognizes replays of their settlements, longer than retention requires.
    /// A store that drops whole partitions of attempts removes them later than one that deletes rows.
    #[must_use]
    pub fn allow_late_attempt_removal(mut self) -> Self {
        self.allowed.late_attempt_removal = true;
        self
    }

    /// Accepts a store whose claims may leave events of a throttled or FIFO destination that an earlier claim has read, and that
    /// divides the tokens of an application among its endpoints. Several workers may claim of such a destination, and a worker
    /// cannot know when another one settles the head of its line. What a claim grants is checked as for other stores.
    #[must_use]
    pub fn allow_skipped_limits(mut self) -> Self {
        self.allowed.skipped_limits = true;
        self
    }

    /// Runs every sequence on a new, empty store.
    ///
    /// # Panics
    /// Panics at the first sequence on which the store and the model differ.
    pub fn run<H: Harness>(&self, start: impl AsyncFn() -> H) {
        print_or_panic(self.with_environment().check(start));
    }

    /// Runs all sequences on one store, which `empty` clears before each.
    ///
    /// # Panics
    /// Panics at the first sequence on which the store and the model differ.
    pub fn run_on_shared_store<H: Harness>(&self, start: impl AsyncFnOnce() -> H, empty: impl AsyncFn(&H)) {
        print_or_panic(self.with_environment().check_on_shared_store(start, empty));
    }

    /// Works as [`Self::run`], and returns a difference instead of panicking.
    pub fn check<H: Harness>(&self, start: impl AsyncFn() -> H) -> Result<Tally, Divergence> {
        let runtime = runtime();
        self.check_sequences(|steps| {
            runtime.block_on(async {
                let harness = start().await;
                self.compare(&harness, steps).await
            })
        })
    }

    /// Works as [`Self::run_on_shared_store`], and returns a difference instead of panicking.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass a closure expression")]
    pub fn check_on_shared_store<H: Harness>(
        &self,
        start: impl AsyncFnOnce() -> H,
        empty: impl AsyncFn(&H),
    ) -> Result<Tally, Divergence> {
        let runtime = runtime();
        let harness = runtime.block_on(start());
        let compared = self.check_sequences(|steps| {
            runtime.block_on(async {
                empty(&harness).await;
                self.compare(&harness, steps).await
            })
        });
        // Some stores must be dropped inside the runtime that started them.
        runtime.block_on(async { drop(harness) });
        compared
    }

    /// Applies the overrides of the environment.
    fn with_environment(&self) -> Self {
        Self {
            sequences: variable(CASES_VARIABLE).unwrap_or(self.sequences),
            seed: variable(SEED_VARIABLE).unwrap_or(self.seed),
            ..self.clone()
        }
    }

    /// Generates the sequences and shrinks the first one that fails.
    fn check_sequences(
        &self,
        compare: impl Fn(&[Step]) -> Result<Tally, Divergence>,
    ) -> Result<Tally, Divergence> {
        let config = Config {
            cases: self.sequences,
            failure_persistence: None,
            max_shrink_time: SHRINKING_MS_MAX,
            max_shrink_iters: u32::MAX,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let total = RefCell::new(Tally::default());
        let compared =
            TestRunner::new_with_rng(config, rng).run(&sequences(self.only_direct_events), |steps| {
                let tally = compare(&steps).map_err(|found| TestCaseError::fail(found.0))?;
                total.borrow_mut().merge(&tally);
                Ok(())
            });
        match compared {
            Ok(()) => Ok(total.into_inner()),
            Err(TestError::Fail(reason, _)) if reason.message().starts_with(HEADING) => {
                Err(Divergence(reason.message().to_owned()))
            }
            // The store panicked, so there is no transcript. The error shows the bare sequence.
            Err(error) => Err(Divergence(format!("{HEADING}: {error}"))),
        }
    }

    /// Runs one sequence on a store and on a new model.
    async fn compare(&self, harness: &dyn Harness, steps: &[Step]) -> Result<Tally, Divergence> {
        let mut run = match SequenceRun::new(harness, self.allowed).await {
            Ok(run) => run,
            Err(difference) => return Err(Divergence(format!("{HEADING} from the start: {difference}"))),
        };
        let mut compared = Ok(());
        for step in steps {
            compared = run.step(step).await;
            if compared.is_err() {
                break;
            }
        }
        if compared.is_ok() {
            compared = run.compare_details().await;
        }
        match compared {
            Ok(()) => Ok(run.tally),
            Err(difference) => Err(Divergence(format!(
                "{HEADING} after these operations (seed {}):\n\n{}\n\n{difference}\n",
                self.seed,
                run.transcript()
            ))),
        }
    }
}

fn print_or_panic(compared: Result<Tally, Divergence>) {
    match compared {
        Ok(tally) => println!("{tally}"),
        Err(divergence) => panic!("{divergence}"),
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a single-threaded runtime can be built")
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let number = value.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name} must be a number, got {value:?}")))
}
