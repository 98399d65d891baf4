//! Matrix products of a plan: packed weights with the epilogue in the kernel, general products
//! otherwise.

use super::PlanError;
use super::packed::Packed;
use super::place::Located;
use crate::cpu::jit::RunContext;
use crate::cpu::kernels::matmul::{
    Epilogue, MatMut, MatRef, MatmulError, PackedB, Scaling, bmm, finish, matmul_packed_strided,
};
use std::sync::Arc;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{Activation, Matmul, Schedule};

/// A matrix, or a batch of them.
#[derive(Clone, Debug)]
struct Operand {
    view: Located,
    /// Strides of the batch dimensions.
    batch: Vec<i64>,
    rows: isize,
    cols: isize,
}

pub(super) struct MatmulStep {
    dtype: DType,
    m: usize,
    n: usize,
    k: usize,
    batch: Vec<i64>,
    a: Operand,
    b: Operand,
    out: Operand,
    /// With its stride.
    bias: Option<(Located, isize)>,
    activation: Activation,
    residual: Option<Operand>,
    /// Present where the right factor is packed.
    cache: Option<Packed<PackedB>>,
}

fn operand(view: Located, what: &str, step: usize) -> Result<Operand, PlanError> {
    let rank = view.sizes.len();
    if rank < 2 {
        return Err(malformed(step, format!("{what} has {rank} dimensions")));
    }
    Ok(Operand {
        batch: view.strides[..rank - 2].to_vec(),
        rows: view.strides[rank - 2] as isize,
        cols: view.strides[rank - 1] as isize,
        view,
    })
}

fn malformed(step: usize, message: String) -> PlanError {
    PlanError::Extern {
        step,
        op: "matmul".to_string(),
        error: Arc::new(message.into()),
        site: None,
    }
}

impl MatmulStep {
    pub(super) fn new(s: &Schedule, m: &Matmul, step: usize) -> Result<Self, PlanError> {
        let a = operand(Located::new(s, &m.a), "the left factor", step)?;
        let b = operand(Located::new(s, &m.b), "the right factor", step)?;
        let out = operand(Located::new(s, &m.out), "the result", step)?;
        let residual = m
            .residual
            .as_ref()
            .map(|r| operand(Located::new(s, r), "the residual", step))
            .transpose()?;
        let bias = m.bias.as_ref().map(|v| {
            let l = Located::new(s, v);
            let stride = l.strides.last().copied().unwrap_or(0) as isize;
            (l, stride)
        });
        let rank = out.view.sizes.len();
        let size = |d: usize| out.view.sizes[d] as usize;
        let mut this = MatmulStep {
            dtype: m.out.dtype,
            m: size(rank - 2),
            n: size(rank - 1),
            k: a.view.sizes[a.view.sizes.len() - 1] as usize,
            batch: out.view.sizes[..rank - 2].to_vec(),
            a,
            b,
            out,
            bias,
            activation: m.activation,
            residual,
            cache: None,
        };
        this.check(step)?;
        this.collapse();
        let rows_contiguous = |o: &Operand| o.cols == 1 || this.n <= 1;
        let packable = m.pack_b
            && this.dtype.is_floating()
            && this.b.batch.iter().all(|&s| s == 0)
            && rows_contiguous(&this.out)
            && this.residual.as_ref().is_none_or(rows_contiguous)
            && this.bias.as_ref().is_none_or(|b| b.1 == 1 || this.n <= 1);
        if packable {
            this.cache = Some(Packed::default());
        }
        Ok(this)
    }

    /// Takes the packed factor of a step of another plan, if it is made of the same parameter.
    pub(super) fn share(&mut self, other: &MatmulStep) {
        let factor = |m: &MatmulStep| (m.dtype, m.k, m.n, m.b.rows, m.b.cols);
        if factor(self) == factor(other)
            && self.b.view.is_same_argument(&other.b.view)
            && let (Some(own), Some(theirs)) = (&mut self.cache, &other.cache)
        {
            *own = theirs.clone();
        }
    }

    fn check(&self, step: usize) -> Result<(), PlanError> {
        let last = |o: &Operand| {
            let s = &o.view.sizes;
            (s[s.len() - 2] as usize, s[s.len() - 1] as usize)
        };
        let (a, b, out) = (last(&self.a), last(&self.b), last(&self.out));
        let fits = a == (self.m, self.k)
            && b == (self.k, self.n)
            && self.residual.as_ref().is_none_or(|r| last(r) == out);
        if !fits {
            return Err(PlanError::Matmul { step, source: MatmulError::Shape { a, b, out } });
        }
        let lead = |o: &Operand| o.view.sizes[..o.view.sizes.len() - 2] == self.batch[..];
        if !(lead(&self.a) && lead(&self.b) && self.residual.as_ref().is_none_or(lead)) {
            return Err(malformed(step, "batch dimensions differ".to_string()));
        }
        let extra = self.activation != Activation::None || self.residual.is_some();
        let empty = self.m == 0 || self.n == 0 || self.k == 0;
        if (self.dtype == DType::Bool && !empty) || (extra && !self.dtype.is_floating()) {
            return Err(PlanError::Matmul {
                step,
                source: MatmulError::DType { dtype: self.dtype },
            });
        }
        Ok(())
    }

    /// Takes batch dimensions into the rows where the right factor is shared and the rows go on
    /// regularly.
    fn collapse(&mut self) {
        while let (Some(&size), Some(&b)) = (self.batch.last(), self.b.batch.last()) {
            let m = self.m as i64;
            let regular = |o: &Operand| {
                let outer = o.batch.last().copied().unwrap_or(0);
                size == 1 || m == 1 || outer == o.rows as i64 * m
            };
            let all = regular(&self.a)
                && regular(&self.out)
                && self.residual.as_ref().is_none_or(regular);
            if !(size == 1 || (b == 0 && all)) {
                break;
            }
            let fold = |o: &mut Operand| {
                let outer = o.batch.pop().unwrap_or(0);
                if m == 1 && size != 1 {
                    o.rows = outer as isize;
                }
            };
            fold(&mut self.a);
            fold(&mut self.out);
            if let Some(r) = &mut self.residual {
                fold(r);
            }
            self.b.batch.pop();
            self.batch.pop();
            self.m *= size as usize;
        }
    }

    pub(super) fn run(&self, step: usize, run: &RunContext) -> Result<(), PlanError> {
        let error = |source| PlanError::Matmul { step, source };
        let (b, version) = self.b.view.resolve(run);
        let factor = match &self.cache {
            Some(cache) => self.packed(cache, (b, version)).map_err(error)?,
            None => None,
        };
        if let Some(factor) = factor {
            self.for_each_batch(run, |at| {
                let epilogue = Epilogue {
                    bias: at.bias.map(|b| b.cast_const()),
                    activation: self.activation,
                    residual: at.residual.map(|r| (r.ptr, r.row_stride)),
                };
                // SAFETY: the schedule's views lie inside its buffers, which `Plan::run`'s caller
                // vouches for; the planner gives the result memory of its own.
                unsafe { matmul_packed_strided(at.a, &factor, at.out, epilogue) };
                Ok(())
            })
            .map_err(error)
        } else {
            self.general(run, b).map_err(error)
        }
    }

    /// The packed right factor for these values, unless packing is not worth it.
    fn packed(
        &self,
        cache: &Packed<PackedB>,
        values: (*mut u8, u64),
    ) -> Result<Option<Arc<PackedB>>, MatmulError> {
        let (ptr, (rows, cols)) = (values.0, (self.b.rows, self.b.cols));
        cache.get(values, self.finishes(), |old| match old {
            Some(panels) => {
                // SAFETY: the schedule's view of the parameter, valid by the contract of
                // `Plan::run`.
                unsafe { panels.repack(ptr, rows, cols) };
                Ok(None)
            }
            // SAFETY: as above.
            None => unsafe { PackedB::pack(self.dtype, self.k, self.n, ptr, rows, cols) }.map(Some),
        })
    }

    /// Whether more than a bias follows the sums, which the kernel of packed factors does best.
    fn finishes(&self) -> bool {
        self.activation != Activation::None || self.residual.is_some()
    }

    /// Calls `f` with the views of each matrix of the batch.
    fn for_each_batch(
        &self,
        run: &RunContext,
        mut f: impl FnMut(Matrices) -> Result<(), MatmulError>,
    ) -> Result<(), MatmulError> {
        let size = self.dtype.size() as i64;
        let (a, out) = (self.a.view.resolve(run).0, self.out.view.resolve(run).0);
        let residual = self.residual.as_ref().map(|r| r.view.resolve(run).0);
        let bias = self.bias.as_ref().map(|b| b.0.resolve(run).0);
        let count: i64 = self.batch.iter().product();
        for i in 0..count {
            let offset = |o: &Operand| {
                let mut rest = i;
                let mut at = 0;
                for (d, &extent) in self.batch.iter().enumerate().rev() {
                    at += (rest % extent) * o.batch[d];
                    rest /= extent;
                }
                (at * size) as isize
            };
            f(Matrices {
                a: MatRef::new(
                    a.wrapping_offset(offset(&self.a)),
                    (self.m, self.k),
                    (self.a.rows, self.a.cols),
                ),
                out: MatMut::new(
                    out.wrapping_offset(offset(&self.out)),
                    (self.m, self.n),
                    (self.out.rows, self.out.cols),
                ),
                b_offset: offset(&self.b),
                bias,
                residual: self.residual.as_ref().zip(residual).map(|(o, ptr)| {
                    MatRef::new(ptr.wrapping_offset(offset(o)), (self.m, self.n), (o.rows, o.cols))
                }),
            })?;
        }
        Ok(())
    }

    fn general(&self, run: &RunContext, b: *mut u8) -> Result<(), MatmulError> {
        let stride = self.bias.as_ref().map_or(0, |b| b.1);
        let scaling = |bias: Option<*mut u8>| Scaling {
            addend: bias.map(|p| {
                let view = MatRef::new(p, (self.m, self.n), (0, stride));
                (Scalar::Int(1), view)
            }),
            ..Scaling::default()
        };
        let finishes = self.finishes();
        if self.batch.len() == 1 && !finishes {
            // the kernel splits one batch dimension among threads
            let mut first = None;
            self.for_each_batch(run, |m| {
                first.get_or_insert(m);
                Ok(())
            })?;
            let Some(m) = first else { return Ok(()) };
            let b = MatRef::new(b, (self.k, self.n), (self.b.rows, self.b.cols));
            // SAFETY: as in `run`.
            return unsafe {
                bmm(
                    self.dtype,
                    self.batch[0] as usize,
                    (m.a, self.a.batch[0] as isize),
                    (b, self.b.batch[0] as isize),
                    (m.out, self.out.batch[0] as isize),
                    scaling(m.bias),
                    0,
                )
            };
        }
        self.for_each_batch(run, |m| {
            let b = MatRef::new(
                b.wrapping_offset(m.b_offset),
                (self.k, self.n),
                (self.b.rows, self.b.cols),
            );
            // SAFETY: as in `run`.
            unsafe {
                crate::cpu::kernels::matmul::gemm(self.dtype, m.a, b, m.out, scaling(m.bias))?;
            }
            if finishes {
                // SAFETY: the result was just written, the residual is a view of the schedule; the
                // dtype is theirs.
                unsafe { finish(self.dtype, self.activation, m.out, m.residual) };
            }
            Ok(())
        })
    }
}

/// The operands of one product.
#[derive(Clone, Copy)]
struct Matrices {
    a: MatRef,
    out: MatMut,
    b_offset: isize,
    bias: Option<*mut u8>,
    residual: Option<MatRef>,
}
