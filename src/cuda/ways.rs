//! How calls run on a GPU, for who wants to know what is copied to the CPU and back.

use crate::dispatch::OperatorHandle;
use std::cell::{Cell, RefCell};
use std::fmt;

/// How an operator ran on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Way {
    /// It made memory, or a view; nothing was computed.
    View,
    /// By generated loops, products among them.
    Loops,
    /// By a kernel of its own.
    Kernel,
    /// By other operators.
    Others,
    /// On the CPU: its tensors were copied there, and its results back.
    Cpu,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::View => "view",
            Way::Loops => "loops",
            Way::Kernel => "kernel",
            Way::Others => "others",
            Way::Cpu => "CPU",
        })
    }
}

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Vec<(String, Way)>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn note(op: OperatorHandle, way: Way) {
    if WATCHED.get() {
        SEEN.with_borrow_mut(|seen| seen.push((op.name().to_string(), way)));
    }
}

/// Runs a function, and says which operators its calls on GPUs reached, and how each ran. What a function
/// calls is listed in the order in which it was done: operators that another one is made of come before it.
///
/// ```
/// use straightline::cuda::{self, Way};
/// use straightline::Tensor;
/// if cuda::is_available() {
///     let x = Tensor::with(cuda::device(0)).ones([3, 3])?;
///     let (y, ways) = cuda::ways(|| x.exp());
///     assert_eq!(ways, [("aten::exp".to_string(), Way::Loops)]);
///     assert_eq!(y?.sizes(), [3, 3]);
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn ways<R>(f: impl FnOnce() -> R) -> (R, Vec<(String, Way)>) {
    /// Puts back what was, also where the function panics.
    struct Before(bool, Vec<(String, Way)>);
    impl Drop for Before {
        fn drop(&mut self) {
            WATCHED.set(self.0);
            SEEN.set(std::mem::take(&mut self.1));
        }
    }
    let _before = Before(WATCHED.replace(true), SEEN.take());
    let result = f();
    (result, SEEN.take())
}
