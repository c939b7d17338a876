//! Code of the application that runs on an engine's own thread: wakers, owners of payloads,
//! callbacks, subscribers of the log. A panic in it ends here.
//!
//! Everything that may call such code goes through this module, messages of the log included
//! ([`log!`](crate::log!)): a panic that went on would end the shard, or skip those behind it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[doc(hidden)]
pub use tracing;

/// Runs `run`, which is code of the application or calls it. A panic in it is caught and logged
/// under this name.
pub fn contained(what: &'static str, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        discard(panic);
        crate::log!(
            error,
            what,
            "code of the application panicked on a thread that serves others; the panic was caught"
        );
    }
}

/// Runs `run`; a panic in it is caught and forgotten. For the log itself.
pub fn quietly(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        discard(panic);
    }
}

/// Drops every item, each on its own: while a panic unwinds, the panic of a second drop would end
/// the process. The list keeps its memory.
pub fn drop_each<T>(what: &'static str, items: &mut Vec<T>) {
    for item in items.drain(..) {
        contained(what, || drop(item));
    }
}

/// What a panic carries belongs to the application, too: dropping it may panic once more.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// An event of the log: the level, then what the macro of `tracing` of that name takes. A
/// subscriber that panics does no harm.
#[macro_export]
macro_rules! log {
    ($level:ident, $($event:tt)*) => {
        $crate::foreign::quietly(|| $crate::foreign::tracing::$level!($($event)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics when it is dropped, and so does what its panic carries.
    struct Spiteful;

    struct Payload;

    impl Drop for Spiteful {
        fn drop(&mut self) {
            std::panic::panic_any(Payload);
        }
    }

    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("on purpose, while the panic is dropped");
        }
    }

    #[test]
    fn each_item_is_dropped_whatever_the_others_do() {
        let counted = std::sync::Arc::new(());
        let mut items: Vec<Box<dyn Any>> = Vec::new();
        for _ in 0..3 {
            items.push(Box::new(Spiteful));
            items.push(Box::new(std::sync::Arc::clone(&counted)));
        }
        drop_each("a test", &mut items);
        assert!(items.is_empty());
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }
}
