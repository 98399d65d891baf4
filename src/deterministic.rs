//! Whether what has several orders is done in one of them, for the whole process.

use crate::dispatch;
use crate::error::Result;
use crate::modes::outside;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Asks for the same bits in each run, or no longer.
///
/// What runs on the CPU gives them always. On a GPU scatters (`index_add`, `scatter_reduce`, `index_put` with
/// sources that meet, and their gradients) are combined by atomic operations, in whatever order these
/// come, unless they are asked for here: then a thread combines all that meet, in their order, which is
/// slower. As in PyTorch this is one setting for the process, and off at first; where several sources are
/// stored in one place, and not combined, the last one stays if it is on.
///
/// A compiled function is compiled anew if the setting is another one than it was.
///
/// ```standalone_crate
/// use straightline::{are_deterministic_algorithms_enabled, use_deterministic_algorithms};
/// assert!(!are_deterministic_algorithms_enabled());
/// use_deterministic_algorithms(true)?;
/// assert!(are_deterministic_algorithms_enabled());
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// A call in a function that [`compile()`](crate::compile()) captures: set it before the call.
#[track_caller]
pub fn use_deterministic_algorithms(mode: bool) -> Result<()> {
    outside::check("use_deterministic_algorithms()", "set it before the call")?;
    if ASKED.swap(mode, Ordering::Relaxed) != mode {
        dispatch::plans_look_again();
    }
    Ok(())
}

/// Whether [`use_deterministic_algorithms`] asks for them.
///
/// ```
/// assert!(!straightline::are_deterministic_algorithms_enabled());
/// ```
pub fn are_deterministic_algorithms_enabled() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// What schedules for a GPU may do now.
#[cfg(feature = "compile")]
pub(crate) fn schedules_of_gpu() -> straightline_passes::schedule::ScheduleOptions {
    use straightline_passes::schedule::ScheduleOptions;
    let deterministic = are_deterministic_algorithms_enabled();
    ScheduleOptions { deterministic, ..ScheduleOptions::of_gpu() }
}
