//! Allocation of tensor memory.
