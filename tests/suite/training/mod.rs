//! Networks, optimisers, schedules, loaders and checkpoints: PyTorch's numbers, and the runs that
//! PyTorch has recorded.

mod beginnings;
mod checkpoints;
mod follows;
mod functional;
mod hooks;
mod layers;
mod loaders;
mod modules;
mod optimizers;
mod recorded;
mod rules;
mod schedules;
