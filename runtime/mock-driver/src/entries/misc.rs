//! Initialisation, errors, versions, finding entry points.

use crate::code::Code;
use crate::door::{Out, Text, entries};
use crate::driver::Session;
use std::ffi::{c_char, c_int, c_uint};

/// The version of the driver: CUDA 13.0.
const VERSION: c_int = 13_000;

/// The address of an entry point: under its newest name, as a driver of this version gives it.
fn address(symbol: &str) -> Option<usize> {
    ["_v4", "_v3", "_v2", ""].iter().find_map(|suffix| match (symbol, *suffix) {
        // the second version of these takes other arguments since 12.0, which callers ask for by it
        ("cuGetProcAddress", "") => crate::entries::find("cuGetProcAddress_v2"),
        // versions that came after 13.0, or take another name
        ("cuCtxSynchronize" | "cuLaunchHostFunc" | "cuCtxGetDevice", "_v2") => None,
        _ => crate::entries::find(&format!("{symbol}{suffix}")),
    })
}

entries! {
    Code;

    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut session = Session::open();
        if session.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        session.initialized = true;
        Ok(())
    }

    fn cuDriverGetVersion(version: Out<c_int>) {
        version.set(VERSION)
    }

    fn cuGetErrorName(code: Code, text: Out<*const c_char>) {
        match code.name() {
            Some(name) => text.set(name.as_ptr()),
            None => {
                text.set(std::ptr::null())?;
                Err(Code::INVALID_VALUE)
            }
        }
    }

    fn cuGetErrorString(code: Code, text: Out<*const c_char>) {
        match code.text() {
            Some(sentence) => text.set(sentence.as_ptr()),
            None => {
                text.set(std::ptr::null())?;
                Err(Code::INVALID_VALUE)
            }
        }
    }

    fn cuGetExportTable(table: Out<usize>, _id: usize) {
        // NVRTC asks for tables that are nowhere described, and does without
        table.offer(0);
        Err(Code::NOT_SUPPORTED)
    }

    fn cuGetProcAddress_v2(
        symbol: Text,
        function: Out<usize>,
        _version: c_int,
        _flags: u64,
        status: Out<c_uint>,
    ) {
        let found = address(&symbol.get()?);
        status.offer(c_uint::from(found.is_none()));
        function.set(found.unwrap_or(0))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    }

    fn cuGetProcAddress(symbol: Text, function: Out<usize>, _version: c_int, _flags: u64) {
        let found = address(&symbol.get()?);
        function.set(found.unwrap_or(0))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    }

    fn cuProfilerStart() {
        Session::open().context().map(|_| ())
    }

    fn cuProfilerStop() {
        Session::open().context().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_their_plain_names() {
        assert_eq!(address("cuMemAlloc"), crate::entries::find("cuMemAlloc_v2"));
        assert_eq!(address("cuCtxCreate"), crate::entries::find("cuCtxCreate_v4"));
        assert_eq!(address("cuInit"), crate::entries::find("cuInit"));
        assert_eq!(address("cuGetProcAddress"), crate::entries::find("cuGetProcAddress_v2"));
        assert!(address("cuInit").is_some());
        assert_eq!(address("cuNothing"), None);
    }
}
