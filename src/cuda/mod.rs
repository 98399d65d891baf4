//! NVIDIA GPUs.
//!
//! Nothing of CUDA is needed to build or to link; the driver, NVRTC and the other libraries are looked for
//! when a tensor is first made on a GPU, or when they are [asked for](availability). Without them
//! everything on the CPU works, and a GPU is an error that says what is missing.
//!
//! ```
//! use straightline::{Device, DeviceType, Tensor, cuda};
//! let x = Tensor::from_vec([1f32, 2.0], 2)?;
//! match cuda::is_available() {
//!     true => assert_eq!(x.to_device(cuda::device(0))?.exp()?.device().index, 0),
//!     false => println!("{}", cuda::availability()),
//! }
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Streams
//!
//! A call on tensors of a GPU queues its work on the thread's current stream of that GPU and returns;
//! [`synchronize`], and reading data, wait. A tensor that work of another stream uses is to be told so
//! ([`record_stream`]), or kept until that work has ended, as in PyTorch.
//!
//! # Kernels at the CUDA key
//!
//! One boxed kernel serves the operators: what an operator is (its schema, its
//! shapes, its loops) is known already, so there is nothing to write for each.
//!
//! - What makes memory or a view is the kernel of the CPU: that allocates by device, and leaves
//!   tensors without bytes of the host alone.
//! - An operator with a loop form is a small schedule, compiled once for each signature but for its
//!   sizes (`loops`); a product is cuBLASLt's, where that is installed.
//! - What loops do not express (convolutions, attention, sorts, scans, random numbers) has a kernel of its
//!   own (`kernels`).
//! - An operator whose kernel for capture is made of others is made of them here too.
//! - The others run on the CPU, with a warning, as on a backend from outside
//!   ([`cpu_fallback`](crate::dispatch::cpu_fallback)).
//!
//! Functional variants of structured operators have a default kernel, which calls `out`; at this key
//! they get the boxed kernel, and `out` is made of them, as on the CPU.

mod collectives;
mod copy;
mod externs;
mod kernels;
mod loops;
mod memory;
pub(crate) mod program;
mod signature;
mod ways;

pub use collectives::Communicator;
pub(crate) use copy::copy_elements;
pub use memory::{
    current_stream, device, device_count, empty_cache, is_available, memory_statistics,
    record_stream, reset_peaks, stream, synchronize,
};
pub use straightline_cuda::allocator::{Amount, Statistics};
pub use straightline_cuda::driver::{Event, Stream, StreamGuard};
pub use straightline_cuda::nccl::Combine;
pub use straightline_cuda::nvrtc::Target;
pub use straightline_cuda::{Availability, Found, availability};
pub use ways::{Way, ways};

use crate::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, Library, OperatorHandle, Stack, Value, ViewFallback,
    call_on_cpu, is_reshape,
};
use crate::error::Result;
use crate::ops::foreign;
use crate::ops::forms::structured::arguments;
use crate::ops::forms::variants;
use crate::tensor::access;
use crate::tensor::on_device::before_first_use;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};
use straightline_catalog::entry::{ENTRIES, Entry};
use straightline_catalog::{Op, layout};

/// Has the kernels registered before the first call on a GPU, so that programs without one do not pay
/// for them.
pub(crate) fn register() {
    before_first_use(|| {
        enable().expect("the schemas and kernels fit together: tests load them all")
    });
}

/// Registers the boxed kernel for each operator that has a kernel at the CPU, or a default kernel that
/// computes: this would leave results without bytes of the host unset. Default kernels made of other
/// operators stay, and operators from outside have no kernel here.
fn enable() -> Result<()> {
    let key = DispatchKey::CUDA;
    let mut library = Library::implementation("aten", key)?;
    library.own();
    library.impl_at(Op::_copy_from.unqualified(), key, Kernel::boxed(fallback))?;
    let made: HashSet<Op> = ENTRIES.iter().filter_map(|e| e.structured.first().copied()).collect();
    for entry in ENTRIES {
        if let Some(functional) = entry.structured.first() {
            library.impl_at(functional.unqualified(), key, Kernel::boxed(fallback))?;
            let out = variants::of(*functional, entry.out, key);
            library.impl_at(entry.op.unqualified(), key, out)?;
        } else if let Some(functional) = entry.variant_of {
            if entry.variant_at.contains(&"CPU") {
                let variant = variants::of(functional, entry.out, key);
                library.impl_at(entry.op.unqualified(), key, variant)?;
            }
        } else if computes(entry) && !made.contains(&entry.op) {
            library.impl_at(entry.op.unqualified(), key, Kernel::boxed(fallback))?;
        }
    }
    library.leak();
    Ok(())
}

/// Whether a kernel of the operator, at the CPU or for all backends, computes by itself.
fn computes(entry: &Entry) -> bool {
    const OF_OTHERS: [&str; 2] = ["composite", "composed"];
    entry.kernels.iter().any(|(key, kernel)| match *key {
        "CPU" => true,
        "CompositeExplicitAutograd" | "CompositeExplicitAutogradNonFunctional" => {
            !entry.of_others && !OF_OTHERS.contains(kernel)
        }
        _ => false,
    })
}

fn fallback(op: OperatorHandle, _: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let schema = op.schema();
    match op.op() {
        Some(Op::_copy_from) => return copy::copy_from(op, stack),
        Some(Op::_local_scalar_dense) => return copy::item(op, stack),
        // what gives memory and nothing in it, or looks at sizes alone
        Some(_) if op.tags().iter().any(|t| matches!(*t, "unset" | "no_data")) => {
            return of_the_cpu(op, stack);
        }
        // `_unsafe_view` is one although its schema is silent
        Some(known) if known.facts().view => return of_the_cpu(op, stack),
        _ if schema.is_some_and(|s| s.is_view()) || is_reshape(op) => {
            return of_the_cpu(op, stack);
        }
        _ => {}
    }
    let args = arguments(op, stack)?;
    if let Some((results, way)) = kernels::run(op, &args)? {
        ways::note(op, way);
        stack.extend(results);
        return Ok(());
    }
    if op.op() == Some(Op::binary_cross_entropy) && !kernels::are_probabilities(&args)? {
        // the CPU says what is wrong
        stack.extend(args);
        return call_on_cpu(op, stack, ViewFallback::Refuse);
    }
    let functional = schema.is_some_and(|s| !s.args.iter().any(|a| a.is_write()));
    if functional && let Some((results, way)) = loops::run(op, &args)? {
        ways::note(op, way);
        stack.extend(results);
        return Ok(());
    }
    // one that takes elements which are one in memory writes them there once
    let written = || {
        let written = schema.into_iter().flat_map(|s| args.iter().zip(&s.args));
        written.filter(|(_, a)| a.is_write()).flat_map(|(v, _)| v.tensors())
    };
    // without the tag the kernel of the CPU refuses them, and so do its parts here
    if !op.tags().contains(&"takes_overlaps") {
        for (to, from) in
            written().flat_map(|w| args.iter().flat_map(Value::tensors).map(move |t| (w, t)))
        {
            access::check_no_partial_overlap(to, from)?;
        }
    }
    let repeats = written().any(|t| layout::repeats(t.sizes(), t.strides()));
    if !repeats && let Some(result) = foreign::parts(op, &args)? {
        ways::note(op, Way::Others);
        stack.push(result);
        return Ok(());
    }
    if !repeats && op.op().is_some_and(has_parts) {
        // what capture records of it
        ways::note(op, Way::Others);
        stack.extend(args);
        let kernel = op.kernel_for(DispatchKey::Functionalize)?;
        return kernel.call_boxed(op, DispatchKey::CUDA.into(), stack);
    }
    program::draws::check_repeats("what runs on the CPU")?;
    warn_once(op);
    ways::note(op, Way::Cpu);
    stack.extend(args);
    call_on_cpu(op, stack, ViewFallback::Refuse)
}

/// Whether the operator has a kernel for capture that is made of calls of others, and not one for what only
/// capture meets.
fn has_parts(op: Op) -> bool {
    static ALL: OnceLock<HashSet<Op>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let parts = |e: &&Entry| {
            let mut kernels = e.kernels.iter();
            kernels.any(|(key, name)| *key == "Functionalize" && !name.starts_with("captured::"))
        };
        ENTRIES.iter().filter(parts).map(|e| e.op).collect()
    });
    all.contains(&op)
}

/// The kernel of the CPU, which touches no bytes of such tensors.
fn of_the_cpu(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    ways::note(op, Way::View);
    let kernel = op.kernel_for(DispatchKey::CPU)?;
    kernel.call_boxed(op, DispatchKey::CUDA.into(), stack)
}

/// Says once of each operator that it runs on the CPU.
fn warn_once(op: OperatorHandle) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = op.name().to_string();
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
        tracing::warn!(
            "{name} has no CUDA kernel yet and runs on the CPU: its tensors are copied there and back"
        );
    }
}
