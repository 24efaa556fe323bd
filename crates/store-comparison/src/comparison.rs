//! How many sequences, on what store, and what is told when one of them differs.

use std::cell::RefCell;
use std::fmt;

use posthaste_store_conformance::Harness;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};

use crate::generate::sequences;
use crate::operation::Step;
use crate::pair::{Allowed, Pair};
use crate::tally::Tally;

/// How many sequences there are, whatever a test asks for.
const CASES_VARIABLE: &str = "POSTHASTE_COMPARISON_CASES";
/// Any other number than 0 makes other sequences.
const SEED_VARIABLE: &str = "POSTHASTE_COMPARISON_SEED";

/// A sequence that fails is shrunk for no longer than this.
const SHRINKING_MS_MAX: u32 = 60_000;

const HEADING: &str = "the store and the model differ";

/// A number of random sequences, and what the store may do differently.
///
/// An adapter's whole test, once it has a harness:
///
/// ```text
/// #[test]
/// fn the_store_does_what_the_model_does() {
///     Comparison::of(2_000).run(async || MyHarness::start().await);
/// }
/// ```
///
/// The sequences are the same at every run, so that a failure can be had again. The environment may ask for more of
/// them by `POSTHASTE_COMPARISON_CASES`, and for others by `POSTHASTE_COMPARISON_SEED`.
#[derive(Debug, Clone)]
pub struct Comparison {
    sequences: u32,
    seed: u64,
    allowed: Allowed,
}

/// A shortest sequence that the store and the model do not agree on, and where they part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence(String);

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Divergence {}

impl Comparison {
    pub fn of(sequences: u32) -> Self {
        Self { sequences, seed: 0, allowed: Allowed::default() }
    }

    /// Other sequences than those of seed 0.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets the store show attempts that retention no longer keeps, and know their settlements for replays: a store
    /// that drops whole partitions of attempts drops them later than one that deletes rows.
    #[must_use]
    pub fn attempts_may_linger(mut self) -> Self {
        self.allowed.attempts_linger = true;
        self
    }

    /// Every sequence on an empty store of its own.
    ///
    /// # Panics
    /// At the first sequence on which the store and the model differ.
    pub fn run<H: Harness>(&self, start: impl AsyncFn() -> H) {
        tell(self.as_the_environment_asks().check(start));
    }

    /// Every sequence on the same store, which is emptied before each.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_on_one<H: Harness>(&self, start: impl AsyncFnOnce() -> H, empty: impl AsyncFn(&H)) {
        tell(self.as_the_environment_asks().check_on_one(start, empty));
    }

    /// As [`Self::run`], for whoever expects a difference.
    pub fn check<H: Harness>(&self, start: impl AsyncFn() -> H) -> Result<Tally, Divergence> {
        let runtime = runtime();
        self.each_sequence(|steps| {
            runtime.block_on(async {
                let harness = start().await;
                self.compare(&harness, steps).await
            })
        })
    }

    /// As [`Self::run_on_one`], for whoever expects a difference.
    #[expect(clippy::needless_pass_by_value, reason = "a closure is written where it is passed")]
    pub fn check_on_one<H: Harness>(
        &self,
        start: impl AsyncFnOnce() -> H,
        empty: impl AsyncFn(&H),
    ) -> Result<Tally, Divergence> {
        let runtime = runtime();
        let harness = runtime.block_on(start());
        let compared = self.each_sequence(|steps| {
            runtime.block_on(async {
                empty(&harness).await;
                self.compare(&harness, steps).await
            })
        });
        // A store may want to be dropped where it was started.
        runtime.block_on(async { drop(harness) });
        compared
    }

    fn as_the_environment_asks(&self) -> Self {
        Self {
            sequences: variable(CASES_VARIABLE).unwrap_or(self.sequences),
            seed: variable(SEED_VARIABLE).unwrap_or(self.seed),
            ..self.clone()
        }
    }

    fn each_sequence(
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
        let compared = TestRunner::new_with_rng(config, rng).run(&sequences(), |steps| {
            let tally = compare(&steps).map_err(|found| TestCaseError::fail(found.0))?;
            total.borrow_mut().add(&tally);
            Ok(())
        });
        match compared {
            Ok(()) => Ok(total.into_inner()),
            Err(TestError::Fail(reason, _)) if reason.message().starts_with(HEADING) => {
                Err(Divergence(reason.message().to_owned()))
            }
            // The store panicked: then there is nothing but the bare sequence to tell.
            Err(error) => Err(Divergence(format!("{HEADING}: {error}"))),
        }
    }

    async fn compare(&self, harness: &dyn Harness, steps: &[Step]) -> Result<Tally, Divergence> {
        let mut pair = match Pair::new(harness, self.allowed).await {
            Ok(pair) => pair,
            Err(difference) => return Err(Divergence(format!("{HEADING} from the start: {difference}"))),
        };
        let mut compared = Ok(());
        for step in steps {
            compared = pair.step(step).await;
            if compared.is_err() {
                break;
            }
        }
        if compared.is_ok() {
            compared = pair.look_closely().await;
        }
        match compared {
            Ok(()) => Ok(pair.tally),
            Err(difference) => Err(Divergence(format!(
                "{HEADING} after these operations (seed {}):\n\n{}\n\n{difference}\n",
                self.seed,
                pair.told()
            ))),
        }
    }
}

fn tell(compared: Result<Tally, Divergence>) {
    match compared {
        Ok(tally) => println!("{tally}"),
        Err(divergence) => panic!("{divergence}"),
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime of one thread needs next to nothing")
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let number = value.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name} must be a number, got {value:?}")))
}
