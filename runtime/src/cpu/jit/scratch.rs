//! Scratch rows that are too long for the stack: one buffer per thread, grown on demand.

use std::cell::RefCell;

thread_local! {
    static ROWS: RefCell<Vec<[u64; 8]>> = const { RefCell::new(Vec::new()) };
}

/// At least `bytes` bytes for the generated function that runs on this thread. Its contents are
/// those of the function before; a kernel writes a scratch row before it reads it.
pub(super) extern "C" fn sl_scratch(bytes: i64) -> *mut u8 {
    ROWS.with_borrow_mut(|rows| {
        let lines = (bytes.max(0) as usize).div_ceil(64);
        if rows.len() < lines {
            rows.resize(lines, [0; 8]);
        }
        rows.as_mut_ptr().cast()
    })
}
