//! Forms of operators that write: into `out`, or in place.

pub(crate) mod over;
pub(crate) mod relation;
pub(crate) mod structured;
pub(crate) mod variants;
