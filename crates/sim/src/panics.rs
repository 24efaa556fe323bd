//! Detection of panics that the simulation did not inject.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Installs a panic hook that records panics per thread, and clears the record of this thread. Injected panics use
/// `resume_unwind`, which does not call the hook.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            previous_hook(panic);
        }));
    });
    PANICKED.set(false);
}

/// Returns whether this thread has panicked since [`install_hook`].
pub(crate) fn occurred() -> bool {
    PANICKED.get()
}
