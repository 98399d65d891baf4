//! straightline
pub mod dispatch;
