//! What generated code reports when it cannot go on.

/// Written by generated code through a pointer; zero `code` means all went well.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Status {
    /// [`INDEX_OUT_OF_RANGE`], [`ZERO_DIVISION`], [`EXTERN_FAILED`] or 0.
    pub code: i64,
    /// The step of the schedule.
    pub step: i64,
    /// The index that was out of range.
    pub value: i64,
    /// The size of the dimension that it indexed.
    pub size: i64,
    /// Which call of [`Schedule::sites`](straightline_passes::schedule::loops::Schedule::sites)
    /// failed; -1 if unknown.
    pub site: i64,
}

/// An [`Op::CheckIndex`](straightline_passes::schedule::loops::Op::CheckIndex) failed.
pub const INDEX_OUT_OF_RANGE: i64 = 1;
/// An integer was divided by zero.
pub const ZERO_DIVISION: i64 = 2;
/// A runtime kernel failed; it kept the error itself.
pub const EXTERN_FAILED: i64 = 3;
