//! NCCL within one process: each rank is a device of the mock, a collective runs when all ranks have
//! called it and their streams have come to it.
//!
//! Ranks that are made one after the other do not wait for each other, as they would in NCCL.
//! A group is captured if its streams are of one capture and all ranks are in it.

mod collective;
mod communicator;
mod element;
mod entries;

pub(crate) use collective::Collective;
pub(crate) use communicator::{Clique, Communicator};
pub(crate) use entries::table;

use crate::code::Code;
use std::ffi::CStr;

/// An `ncclResult_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Status(pub(crate) i32);

impl Status {
    pub(crate) const UNHANDLED_CUDA_ERROR: Status = Status(1);
    pub(crate) const INVALID_ARGUMENT: Status = Status(4);
    pub(crate) const INVALID_USAGE: Status = Status(5);

    pub(crate) fn text(self) -> &'static CStr {
        match self.0 {
            0 => c"no error",
            1 => c"unhandled cuda error",
            2 => c"unhandled system error",
            3 => c"internal error",
            4 => c"invalid argument",
            5 => c"invalid usage",
            6 => c"remote process exited or there was a network error",
            7 => c"NCCL operation in progress",
            _ => c"unknown result code",
        }
    }
}

impl crate::door::Status for Status {
    const SUCCESS: Status = Status(0);
    const PANICKED: Status = Status(3);
}

impl From<Code> for Status {
    fn from(code: Code) -> Status {
        match code {
            Code::INVALID_VALUE => Status::INVALID_ARGUMENT,
            _ => Status::UNHANDLED_CUDA_ERROR,
        }
    }
}
