//! What is going on, on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A message with the time that has passed; it disappears when this is dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Something else is going on now.
    pub(crate) fn now(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows a message until the spinner is dropped.
pub(crate) fn spinner(what: String) -> Spinner {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    Spinner(bar)
}
