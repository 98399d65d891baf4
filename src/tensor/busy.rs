//! Whether calls wait for tensors that other threads use.

use super::borrow::Access;
use super::waiting::Refusal;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// How long a call waits while nothing that it wants is given back. Far longer than any kernel
/// runs: this catches threads that wait for each other in ways that are invisible here, such as a
/// user's lock in a user's kernel.
const LIMIT: Duration = Duration::from_secs(600);

thread_local! {
    static PATIENCE: Cell<Option<Duration>> = const { Cell::new(Some(LIMIT)) };
}

/// How long calls of this thread wait, if they do.
pub(super) fn patience() -> Option<Duration> {
    PATIENCE.get()
}

/// The memory of a tensor is in use, and the call did not get it
/// ([`ErrorKind::Busy`](crate::ErrorKind::Busy)).
///
/// A call holds the memory that it reads and writes for its length, however many kernels it is made
/// of: any number of calls read it, or one writes it. A call that meets another one waits, first
/// come, first served, and so do compiled functions, which hold what they write from the first read
/// to the last write: their calls on several threads come one after another. (A function that runs
/// eagerly, compiled or not, is as many calls as it has operators; and the kernel of a custom
/// operator has to make its own calls atomic if it needs that.) So this error is rare:
///
/// | [`BusyReason`] | when |
/// |---|---|
/// | `OtherThread` | under [`try_borrows`] |
/// | `ThisThread` | a call further up the stack holds it, and would wait for itself |
/// | `Deadlock` | the calls that hold it wait for what a call further up this stack holds |
/// | `TimedOut` | it was not given back in the time that [`borrows_wait`] says, or in ten minutes |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Busy {
    /// The others write it, or are about to; otherwise they read it.
    pub written: bool,
    /// Why the call did not get it.
    pub reason: BusyReason,
}

/// Why a call did not get memory that is in use: see [`Busy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BusyReason {
    /// Another thread uses it, and the call was not to wait.
    OtherThread,
    /// A call further up the stack of this thread uses it.
    ThisThread,
    /// Waiting would never end.
    Deadlock,
    /// It was not given back in this time.
    TimedOut(Duration),
}

impl Busy {
    #[cold]
    pub(super) fn new(refusal: Refusal, found: Access) -> Busy {
        Busy {
            written: found == Access::Write,
            reason: match refusal {
                Refusal::Taken => BusyReason::OtherThread,
                Refusal::Own => BusyReason::ThisThread,
                Refusal::Circle => BusyReason::Deadlock,
                Refusal::Late(limit) => BusyReason::TimedOut(limit),
            },
        }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = if self.written { "written" } else { "read" };
        write!(f, "the tensor's storage is being {used} by another call")?;
        match self.reason {
            BusyReason::OtherThread => {
                f.write_str(", and `try_borrows` says not to wait: try again, or clone the tensor's values first")
            }
            BusyReason::ThisThread => f.write_str(
                " further up the stack of this thread, which would wait for itself: give that call a copy of the tensor's \
                 values, or this one",
            ),
            BusyReason::Deadlock => f.write_str(
                ", which itself waits for what a call further up the stack of this thread holds: neither would ever go \
                 on. Give one of them a copy of the tensor's values, or let no kernel call operators on tensors that \
                 other threads write",
            ),
            BusyReason::TimedOut(limit) => write!(
                f,
                ", and was not given back in {limit:?}: if that call waits for this thread, through a lock or a channel, \
                 it must not; if it only takes long, `borrows_wait` sets the time"
            ),
        }
    }
}

impl std::error::Error for Busy {}

/// The scope of [`try_borrows`] and [`borrows_wait`]; dropping it ends it.
#[must_use = "the scope ends where it is dropped"]
#[derive(Debug)]
pub struct BorrowScope {
    before: Option<Duration>,
    on_this_thread: PhantomData<*const ()>,
}

impl BorrowScope {
    fn new(patience: Option<Duration>) -> BorrowScope {
        BorrowScope { before: PATIENCE.replace(patience), on_this_thread: PhantomData }
    }
}

impl Drop for BorrowScope {
    fn drop(&mut self) {
        PATIENCE.set(self.before);
    }
}

/// Calls on this thread, operators and compiled functions, do not wait for tensors that other
/// threads use while the scope lives: they give [`ErrorKind::Busy`](crate::ErrorKind::Busy) at
/// once.
///
/// ```
/// use straightline::{ErrorKind, Tensor, try_borrows};
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// let scope = try_borrows();
/// match x.add_(1) {
///     Ok(_) => println!("added"),
///     Err(e) if matches!(e.kind(), ErrorKind::Busy(_)) => println!("another thread has it"),
///     Err(e) => return Err(e),
/// }
/// drop(scope);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn try_borrows() -> BorrowScope {
    BorrowScope::new(None)
}

/// Calls on this thread wait this long, while the scope lives, for a tensor that other threads use
/// to be given back by one of them; then they give [`ErrorKind::Busy`](crate::ErrorKind::Busy).
/// Without a scope it is ten minutes.
///
/// ```
/// use std::time::Duration;
/// use straightline::{Tensor, borrows_wait};
/// let x = Tensor::from_vec([1f32, 2.0], 2)?;
/// let scope = borrows_wait(Duration::from_millis(50));
/// x.add_(1)?;
/// drop(scope);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn borrows_wait(limit: Duration) -> BorrowScope {
    BorrowScope::new(Some(limit))
}
