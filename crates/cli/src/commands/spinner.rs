//! A spinner that shows on a terminal that work is in progress.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// An animated line with a message, removed on drop. It is hidden where standard error is not a terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn start(message: String) -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_message(message);
        bar.set_style(style.expect("the template is valid"));
        bar.enable_steady_tick(FRAME_INTERVAL);
        Self(bar)
    }

    pub(crate) fn set_message(&self, message: String) {
        self.0.set_message(message);
    }

    pub(crate) fn is_visible(&self) -> bool {
        !self.0.is_hidden()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Awaits `work` and shows a spinner until it ends.
pub(crate) async fn with_spinner<T>(message: &str, work: impl Future<Output = T>) -> T {
    let _spinner = Spinner::start(message.to_owned());
    work.await
}
