//! How many threads kernels use, for the whole process.

use crate::modes::outside;
use straightline_runtime::cpu::threads;

/// Sets how many threads a parallel kernel may use, the calling thread counted; 0 and 1 both mean
/// serial. It takes effect from the next kernel on, for the whole process. A function that does so
/// cannot be captured by [`compile()`](crate::compile()).
///
/// ```
/// let before = straightline::num_threads();
/// straightline::set_num_threads(1);
/// assert_eq!(straightline::num_threads(), 1);
/// straightline::set_num_threads(before);
/// ```
#[track_caller]
pub fn set_num_threads(n: usize) {
    if outside::check("set_num_threads()", "set it before the call").is_ok() {
        threads::set_num_threads(n);
    }
}

/// How many threads a parallel kernel may use, the calling thread counted.
///
/// At first the environment variable `STRAIGHTLINE_NUM_THREADS`, else the parallelism of the
/// machine.
pub fn num_threads() -> usize {
    let n = threads::num_threads();
    outside::asks_threads(n);
    n
}
