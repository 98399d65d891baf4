//! The entry points of `libcuda`, a file for each chapter of its reference.

mod any_node;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod exec;
mod function;
mod graph;
mod host;
mod launch;
mod memory;
mod misc;
mod mock;
mod module;
mod node;
mod pool;
mod stream;

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The address of an entry point, by its name.
pub(crate) fn find(name: &str) -> Option<usize> {
    static ALL: OnceLock<BTreeMap<&'static str, usize>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let tables = [
            any_node::table(),
            capture::table(),
            context::table(),
            copy::table(),
            device::table(),
            event::table(),
            exec::table(),
            function::table(),
            graph::table(),
            host::table(),
            launch::table(),
            memory::table(),
            misc::table(),
            module::table(),
            node::table(),
            pool::table(),
            stream::table(),
            crate::lt::table(),
            crate::nccl::table(),
        ];
        tables.into_iter().flatten().map(|entry| (entry.name, entry.address)).collect()
    });
    all.get(name).copied()
}
