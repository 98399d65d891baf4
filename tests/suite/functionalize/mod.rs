//! What functionalisation makes of views and writes: graphs, errors, operators from outside. Random
//! programs of them are in `tests/suite/programs`.

mod derived;
mod function;
mod traces;
mod writes;
