//! Products by cuBLASLt.
//!
//! What a product needs there (descriptors, and the algorithm that its heuristic names) is made once for
//! each device and shape, and kept. cuBLASLt's matrices lie by columns: a product whose result lies by
//! rows is that of the transposed factors in the other order, which lie by columns where they are.

mod library;
mod shape;

pub use library::BlasError;

use crate::driver::{Device, Stream};
use crate::products::{Epilogue, Options, Product, Workspace};
use library::{Descriptor, Handle, Layout, Library, library};
use shape::{Leading, Shape};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// The most workspace that an algorithm may want: what NVIDIA recommends for its newer GPUs.
const WORKSPACE: u64 = 32 << 20;
/// So many shapes are kept.
const KEPT: usize = 4096;

/// How products of a shape are computed on a device.
pub(crate) struct Plan {
    library: &'static Library,
    handle: &'static Handle,
    shape: Shape,
    /// Where the bias is, is written into it: one call at a time.
    operation: Mutex<Descriptor>,
    layouts: [Layout; 4],
    algorithm: library::Algorithm,
    workspace: usize,
}

/// The plan of a product; `None` if cuBLASLt is not here or does not compute it.
pub(crate) fn plan(
    device: &'static Device,
    p: &Product,
    options: Options,
) -> Result<Option<Arc<Plan>>, BlasError> {
    type Known = HashMap<(u32, Shape), Option<Arc<Plan>>>;
    static ALL: OnceLock<Mutex<Known>> = OnceLock::new();
    let Some(library) = library() else { return Ok(None) };
    let Some(shape) = Shape::of(p, options) else { return Ok(None) };
    let all = ALL.get_or_init(Mutex::default);
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device.ordinal(), shape);
    if let Some(found) = lock().get(&key) {
        return Ok(found.clone());
    }
    let made = Plan::new(library, device, shape)?.map(Arc::new);
    let mut all = lock();
    if all.len() >= KEPT {
        all.clear();
    }
    all.insert(key, made.clone());
    Ok(made)
}

impl Plan {
    fn new(
        library: &'static Library,
        device: &'static Device,
        shape: Shape,
    ) -> Result<Option<Plan>, BlasError> {
        let handle = library.handle(device)?;
        let kind = library::kind(shape.dtype);
        let layout = |leading: Leading, rows: i64, cols: i64| {
            Layout::new(library, kind, [rows, cols], leading.leading, (shape.batch, leading.batch))
        };
        let [rows, cols, inner] = shape.sizes;
        let of = |turned: bool, a: i64, b: i64| if turned { (b, a) } else { (a, b) };
        let (a_rows, a_cols) = of(shape.a.transposed, rows, inner);
        let (b_rows, b_cols) = of(shape.b.transposed, inner, cols);
        let layouts = [
            layout(shape.a.lies, a_rows, a_cols)?,
            layout(shape.b.lies, b_rows, b_cols)?,
            layout(shape.c.unwrap_or(shape.d), rows, cols)?,
            layout(shape.d, rows, cols)?,
        ];
        let operation = Descriptor::new(library, shape.dtype, shape.tf32)?;
        operation.transposed(shape.a.transposed, shape.b.transposed)?;
        operation.epilogue(shape.bias, shape.activation)?;
        let found = library.algorithm(handle, &operation, &layouts, WORKSPACE, shape.alignment)?;
        Ok(found.map(|(algorithm, workspace)| Plan {
            library,
            handle,
            shape,
            operation: Mutex::new(operation),
            layouts,
            algorithm,
            workspace,
        }))
    }

    /// What [`Plan::queue`] wants.
    pub(crate) fn workspace_bytes(&self) -> usize {
        self.workspace
    }

    /// What is left to do after it.
    pub(crate) fn rest(&self, mut then: Epilogue) -> Epilogue {
        if self.shape.bias {
            then.bias = None;
        }
        if self.shape.activation != Activation::None {
            then.activation = Activation::None;
        }
        if self.shape.c.is_some() {
            then.residual = None;
        }
        then
    }

    /// Queues a product of this shape.
    ///
    /// # Safety
    ///
    /// As [`crate::products::product`]; the plan is of the product's shape, and the workspace as large as
    /// it says.
    pub(crate) unsafe fn queue(
        &self,
        stream: &Stream,
        p: &Product,
        workspace: Workspace,
    ) -> Result<(), BlasError> {
        let operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bias) = p.then.bias.filter(|_| self.shape.bias) {
            operation.bias(bias.address)?;
        }
        let residual = p.then.residual.filter(|_| self.shape.c.is_some());
        let (a, b) = match self.shape.turned {
            true => (p.b, p.a),
            false => (p.a, p.b),
        };
        let addresses =
            [a.address, b.address, residual.map_or(p.c.address, |r| r.address), p.c.address];
        let beta = f64::from(u8::from(residual.is_some()));
        let wide = self.shape.dtype == DType::F64;
        let call = library::Call {
            operation: &operation,
            layouts: &self.layouts,
            addresses,
            factors: if wide {
                library::Factors::F64([1.0, beta])
            } else {
                library::Factors::F32([1.0, beta as f32])
            },
            algorithm: &self.algorithm,
            workspace,
        };
        // SAFETY: the caller's contract.
        unsafe { self.library.product(self.handle, stream, &call) }
    }
}
