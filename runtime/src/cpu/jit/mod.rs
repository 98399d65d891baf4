//! Loop IR to machine code.
