//! straightline
