//! Shows on a terminal that something is being done.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// A line that moves until it is dropped, then goes away. Nothing where there is no terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn start(what: String) -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_message(what);
        bar.set_style(style.expect("the template is valid"));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(crate) fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Whether anybody sees it.
    pub(crate) fn is_seen(&self) -> bool {
        !self.0.is_hidden()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Spins while the work is done.
pub(crate) async fn show<T>(what: &str, work: impl Future<Output = T>) -> T {
    let _spinner = Spinner::start(what.to_owned());
    work.await
}
