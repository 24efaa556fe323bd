//! Panics that nobody planted.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// From now on, panics of this process are noted by the thread that they happen on. Planted ones unwind without
/// the hook and are not.
pub(crate) fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            before(panic);
        }));
    });
    PANICKED.set(false);
}

pub(crate) fn happened() -> bool {
    PANICKED.get()
}
