//! What a driver has not: entry points for tests.

use crate::door::{self, Out, Text};
use crate::driver::{self, Session};
use std::ffi::{c_char, c_int};

/// Writes why work failed last, or why a module was refused, with a zero at the end; cut at
/// `length` bytes. Gives the length of the whole sentence, without the zero.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn straightline_mock_last_fault(buffer: Out<c_char>, length: usize) -> usize {
    door::enter("straightline_mock_last_fault", 0, || {
        let text = Session::open().fault.clone();
        if length > 0 {
            let _ = door::set_text(&buffer, length, &text);
        }
        text.len()
    })
}

/// Forgets everything: devices, contexts, memory, counts. All handles are invalid from then on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn straightline_mock_reset() {
    door::enter("straightline_mock_reset", (), driver::reset);
}

/// Makes a setting for the state after the next reset, before the environment: `devices`, `memory`,
/// `order`, `races`, `patience`. Gives 0, or 1 if there is no such setting.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn straightline_mock_set(name: Text, value: Text) -> c_int {
    door::enter("straightline_mock_set", 1, || match (name.get(), value.get()) {
        (Ok(name), Ok(value)) if driver::set(&name, &value) => 0,
        _ => 1,
    })
}

/// A number by its name: how often an entry point was called (`cuLaunchKernel`), all of them
/// together (`calls`), or what was done (`launches`, `copied_bytes` ...). `u64::MAX` for other names
/// than these.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn straightline_mock_statistics(name: Text) -> u64 {
    // not counted itself
    let answer = std::panic::catch_unwind(|| {
        let name = name.get().ok()?;
        if name == "calls" {
            return Some(door::calls(None));
        }
        if let Some(value) = Session::open().statistic(&name) {
            return Some(value);
        }
        super::find(&name).map(|_| door::calls(Some(&name)))
    });
    answer.ok().flatten().unwrap_or(u64::MAX)
}
