//! Shows on a terminal that something is being done.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// A line that moves until the work is done, then goes away. Nothing where there is no terminal.
pub(crate) async fn show<T>(what: &'static str, work: impl Future<Output = T>) -> T {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner
        .set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("the template is valid"));
    spinner.enable_steady_tick(TICK);
    let done = work.await;
    spinner.finish_and_clear();
    done
}
