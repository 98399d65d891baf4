//! The entries of the table that code reads its arguments from.

/// A tensor argument of one call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArgPtr {
    /// The tensor's first element.
    pub ptr: *mut u8,
    /// The version counter of its storage: a packed copy of a parameter is made anew when it
    /// changes.
    pub version: u64,
}

impl ArgPtr {
    /// No argument yet.
    pub const NONE: ArgPtr = ArgPtr { ptr: std::ptr::null_mut(), version: 0 };

    /// An argument of version 0.
    pub fn new(ptr: *mut u8) -> ArgPtr {
        ArgPtr { ptr, version: 0 }
    }
}
