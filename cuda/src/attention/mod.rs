//! Attention, `softmax(scale * q k^T + mask) v`, without the matrix of scores, and its gradients.
//!
//! A block of queries passes over blocks of keys: each row keeps its largest score and the sum of its
//! exponentials so far, and what was summed before is scaled when a larger one appears. The gradients
//! compute weights again, from the logarithm of each row's sum: one kernel for those of the queries, one for
//! those of keys and values, which goes through all heads that share them; so no two blocks add to one
//! element, and the same call gives the same bits. Blocks that a causal mask hides are not computed.
//!
//! Halves are summed in `f32`; blocks of them are computed by tensor cores, whose operands weights become by
//! rounding to the dtype. A row whose scores are all `-inf` gives zeros, and 0 for the logarithm of
//! its sum, as on the CPU.

use crate::driver::{Argument, Device, DriverError, Function, Launch, Stream};
use crate::emit::Numeric;
use crate::products::Workspace;
use crate::programs::{Known, ProgramError};
use std::sync::Arc;
use straightline_passes::ir::DType;

/// Blocks along the second dimension.
const MOST: i64 = 65_535;
/// Features of a head.
const FEATURES: i64 = 256;
/// Features of a head whose gradients tensor cores compute.
const CORES_FEATURES: i64 = 128;
/// Rows that a block sums up at once.
const WARPS: i64 = 8;

/// Rows of heads on a device: strides, in elements, of (batch, head, position, feature).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    /// The first element.
    pub address: u64,
    /// Strides.
    pub strides: [i64; 4],
}

/// What is added to scores: strides of (batch, head, query, key), 0 where it is one for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask {
    /// The first element.
    pub address: u64,
    /// Strides.
    pub strides: [i64; 4],
    /// That of the queries, the dtype of their sums, or `Bool`: true where a key is seen.
    pub dtype: DType,
}

/// A number for each row of scores, in the dtype of sums: strides of (batch, head, query).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Logarithms {
    /// The first element.
    pub address: u64,
    /// Strides.
    pub strides: [i64; 3],
}

/// An attention.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attention {
    /// Of queries, keys, values and the result.
    pub dtype: DType,
    /// How many of each.
    pub batch: i64,
    /// Heads of the queries.
    pub heads: i64,
    /// Heads of keys and values: as many, or fewer, of which each serves several.
    pub kv_heads: i64,
    /// Queries of a head.
    pub queries: i64,
    /// Keys of a head.
    pub keys: i64,
    /// Features of a query, a key and a value: up to 256.
    pub features: i64,
    /// Queries.
    pub q: Heads,
    /// Keys.
    pub k: Heads,
    /// Values.
    pub v: Heads,
    /// Added to scores.
    pub mask: Option<Mask>,
    /// The result. The gradients read it.
    pub out: Heads,
    /// The logarithm of the sum of each row's exponentials. The gradients read it.
    pub logarithms: Option<Logarithms>,
    /// Query `i` sees keys `0..=i`.
    pub causal: bool,
    /// The factor of scores.
    pub scale: f64,
}

/// The gradients of an attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gradients {
    /// Of the result: read.
    pub out: Heads,
    /// Of the queries.
    pub q: Heads,
    /// Of the keys.
    pub k: Heads,
    /// Of the values.
    pub v: Heads,
}

/// Why an attention is not queued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttentionError {
    /// Of a dtype that has none.
    #[error("attention of {dtype} is not computed on GPUs")]
    DType {
        /// Which.
        dtype: DType,
    },
    /// A mask of a dtype that is not added to scores.
    #[error("a mask of {mask} for an attention of {dtype}")]
    Mask {
        /// The mask's.
        mask: DType,
        /// The attention's.
        dtype: DType,
    },
    /// Sizes that do not go together, or are too large.
    #[error(
        "an attention of {heads} heads over {kv_heads}, with {features} features and {positions:?} positions"
    )]
    Sizes {
        /// Heads of queries.
        heads: i64,
        /// Heads of keys.
        kv_heads: i64,
        /// Features.
        features: i64,
        /// Queries and keys.
        positions: [i64; 2],
    },
    /// Gradients without the logarithms of the rows' sums.
    #[error("the gradients of an attention want the logarithms of its sums")]
    Logarithms,
    /// Gradients without the workspace that they want.
    #[error("the gradients of an attention want a workspace of {wanted} bytes, not of {given}")]
    Workspace {
        /// What is there.
        given: usize,
        /// What is wanted.
        wanted: usize,
    },
    /// The kernel.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl From<DriverError> for AttentionError {
    fn from(e: DriverError) -> AttentionError {
        ProgramError::from(e).into()
    }
}

/// Whether attention of a dtype, with so many features, is computed here.
///
/// ```
/// use straightline_cuda::attention::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::BF16, 128) && !computes(DType::BF16, 512) && !computes(DType::I8, 8));
/// ```
pub fn computes(dtype: DType, features: i64) -> bool {
    Numeric::floating(dtype).is_some() && (0..=FEATURES).contains(&features)
}

/// Features, rounded up to one of a few numbers, so that there are few programs.
fn padded(features: i64) -> i64 {
    let step = match features {
        ..=64 => 16,
        65..=128 => 32,
        _ => 64,
    };
    (features.max(1) + step - 1) / step * step
}

/// How blocks are computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Way {
    /// By threads.
    Blocks {
        /// Rows of scores that a thread has: fewer of many features, for whose sums it has registers.
        rows: i64,
        /// Columns.
        cols: i64,
        /// Rows of an operand that lie in shared memory at once.
        slice: i64,
    },
    /// By tensor cores.
    Cores,
}

impl Way {
    fn of(dtype: DType, features: i64) -> Way {
        match dtype {
            DType::F64 => Way::Blocks { rows: 2, cols: 2, slice: 8 },
            _ => Way::Blocks { rows: if features > 128 { 2 } else { 4 }, cols: 4, slice: 16 },
        }
    }

    /// Rows of a block of scores.
    fn rows(self) -> i64 {
        match self {
            Way::Blocks { rows, .. } => 16 * rows,
            Way::Cores => 64,
        }
    }

    /// How blocks are launched, with room for so many tiles where tiles are whole.
    fn launch(self, [x, y]: [i64; 2], features: i64, tiles: i64) -> Launch {
        let blocks = [x.clamp(1, i64::from(i32::MAX)) as u32, y.clamp(1, MOST) as u32, 1];
        let (threads, shared) = match self {
            Way::Blocks { .. } => (256, 0),
            Way::Cores => (128, tile_bytes(features) * tiles),
        };
        Launch { blocks, threads: [threads, 1, 1], shared_bytes: shared as u32 }
    }
}

/// 64 rows of halves in shared memory.
fn tile_bytes(features: i64) -> i64 {
    64 * (padded(features) + 8) * 2
}

impl Attention {
    fn check(&self) -> Result<(), AttentionError> {
        if Numeric::floating(self.dtype).is_none() {
            return Err(AttentionError::DType { dtype: self.dtype });
        }
        let known = |mask: DType| [DType::Bool, self.dtype, self.dtype.opmath()].contains(&mask);
        if let Some(mask) = self.mask.map(|m| m.dtype).filter(|m| !known(*m)) {
            return Err(AttentionError::Mask { mask, dtype: self.dtype });
        }
        let sizes = [self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.features];
        let counts = sizes.iter().all(|n| (0..1 << 40).contains(n))
            && [self.heads, self.kv_heads].iter().all(|heads| {
                let rows = self.batch.checked_mul(*heads);
                rows.and_then(|n| n.checked_mul(self.queries.max(self.keys))).is_some()
            });
        let heads = match self.kv_heads {
            0 => self.heads == 0,
            kv => self.heads % kv == 0,
        };
        // blocks are numbered by 31 bits, of 32 rows at least
        let far = |n: i64| n / 32 < i64::from(i32::MAX);
        let fits = self.features <= FEATURES && far(self.queries) && far(self.keys);
        if counts && heads && fits {
            return Ok(());
        }
        Err(AttentionError::Sizes {
            heads: self.heads,
            kv_heads: self.kv_heads,
            features: self.features,
            positions: [self.queries, self.keys],
        })
    }

    /// How a device computes it, or its gradients.
    fn way(&self, device: &Device, gradients: bool) -> Way {
        let properties = device.properties();
        let halves = matches!(self.dtype, DType::F16 | DType::BF16);
        // threads have registers for the sums of both gradients of so many features
        let most = if gradients { CORES_FEATURES } else { FEATURES };
        let room = tile_bytes(self.features) * if gradients { 4 } else { 2 };
        let fits = room <= properties.shared_per_block.into();
        match halves && properties.capability >= 80 && self.features <= most && fits {
            true => Way::Cores,
            false => Way::of(self.dtype, self.features),
        }
    }

    fn numbers(&self, gradients: Option<&Gradients>) -> Vec<i64> {
        let mut all =
            vec![self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.features];
        let mask = self.mask.map_or([0; 4], |m| m.strides);
        let of = [self.q.strides, self.k.strides, self.v.strides, mask, self.out.strides];
        all.extend(of.as_flattened());
        all.extend(self.logarithms.map_or([0; 3], |l| l.strides));
        let of = |of: fn(&Gradients) -> Heads| gradients.map_or([0; 4], |g| of(g).strides);
        all.extend([of(|g| g.out), of(|g| g.q), of(|g| g.k), of(|g| g.v)].as_flattened());
        all.extend([i64::from(self.causal), self.scale.to_bits().cast_signed()]);
        all
    }

    fn text(&self, way: Way) -> Result<String, AttentionError> {
        let numeric =
            Numeric::floating(self.dtype).ok_or(AttentionError::DType { dtype: self.dtype })?;
        let (mask, value) = match self.mask.map(|m| m.dtype) {
            Some(DType::Bool) => {
                ("unsigned char", "x ? (wide)0 : (wide)__int_as_float(0xff800000)")
            }
            Some(dtype) if dtype == self.dtype => ("element", "widened(x)"),
            Some(_) => ("wide", "x"),
            None => ("unsigned char", "0"),
        };
        let (defined, text) = match way {
            Way::Blocks { rows, cols, slice } => {
                let defined = format!("#define R {rows}\n#define C {cols}\n#define SLICE {slice}");
                (defined, include_str!("blocks.cu"))
            }
            Way::Cores => {
                let halves = if self.dtype == DType::F16 { "f16" } else { "bf16" };
                (format!("#define HALVES \"{halves}\""), include_str!("cores.cu"))
            }
        };
        Ok(format!(
            "{}
{defined}
#define FEATURES {}
#define MASKED {}
typedef {mask} mask_element;
__device__ __forceinline__ wide mask_value(const mask_element x) {{ return {value}; }}
{}{text}",
            numeric.header(),
            padded(self.features),
            u8::from(self.mask.is_some()),
            include_str!("common.cu"),
        ))
    }

    /// Kernels of a program, which has those of the gradients too where there are such.
    fn functions(&self, stream: &Stream, way: Way) -> Result<Arc<[Function]>, AttentionError> {
        let names = ["forward", "dots", "backward_q", "backward_kv"];
        let only_forward = way == Way::Cores && self.features > CORES_FEATURES;
        let names = &names[..if only_forward { 2 } else { 4 }];
        type Key = (DType, Way, i64, Option<DType>);
        static KNOWN: Known<Key> = Known::new();
        let key = (self.dtype, way, padded(self.features), self.mask.map(|m| m.dtype));
        KNOWN.functions(stream.device(), key, names, || self.text(way))
    }

    fn addresses(&self) -> [Argument<'static>; 4] {
        let mask = self.mask.map_or(0, |m| m.address);
        [self.q.address, self.k.address, self.v.address, mask].map(Argument::Pointer)
    }
}

/// Queues an attention.
///
/// # Safety
///
/// The tensors are memory of the stream's device until it has come so far, and nothing overlaps the
/// results.
///
/// # Errors
///
/// [`AttentionError`].
pub unsafe fn attention(stream: &Stream, a: &Attention) -> Result<(), AttentionError> {
    a.check()?;
    if a.batch * a.heads * a.queries == 0 {
        return Ok(());
    }
    let way = a.way(stream.device(), false);
    let functions = a.functions(stream, way)?;
    let [forward, ..] = &*functions else { return Ok(()) };
    let numbers = a.numbers(None);
    let mut arguments = a.addresses().to_vec();
    arguments.push(Argument::Pointer(a.out.address));
    arguments.push(Argument::Pointer(a.logarithms.map_or(0, |l| l.address)));
    arguments.push(Argument::Numbers(&numbers));
    let blocks = [(a.queries - 1) / way.rows() + 1, a.batch * a.heads];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { forward.launch(stream, way.launch(blocks, a.features, 2), &arguments)? };
    Ok(())
}

/// The workspace that [`gradients`] want.
///
/// # Errors
///
/// [`AttentionError`].
pub fn gradients_workspace_bytes(a: &Attention) -> Result<usize, AttentionError> {
    a.check()?;
    Ok((a.batch * a.heads * a.queries) as usize * a.dtype.opmath().size())
}

/// Queues the gradients of an attention, whose result and logarithms are there.
///
/// # Safety
///
/// As [`attention`], with the workspace.
///
/// # Errors
///
/// [`AttentionError`].
pub unsafe fn gradients(
    stream: &Stream,
    a: &Attention,
    g: &Gradients,
    workspace: Workspace,
) -> Result<(), AttentionError> {
    let wanted = gradients_workspace_bytes(a)?;
    if workspace.bytes < wanted {
        return Err(AttentionError::Workspace { given: workspace.bytes, wanted });
    }
    let Some(logarithms) = a.logarithms else { return Err(AttentionError::Logarithms) };
    let way = a.way(stream.device(), true);
    let functions = a.functions(stream, way)?;
    let [_, dots, backward_q, backward_kv] = &*functions else { return Ok(()) };
    let numbers = a.numbers(Some(g));
    let queue = |function: &Function, launch: Launch, first: &[Argument<'static>]| {
        let all: Vec<Argument<'_>> =
            first.iter().copied().chain([Argument::Numbers(&numbers)]).collect();
        // SAFETY: the arguments are the kernel's, and the caller's contract.
        unsafe { function.launch(stream, launch, &all) }
    };
    let at = Argument::Pointer;
    let delta = at(workspace.address);
    let operands: Vec<Argument<'static>> = (a.addresses().into_iter())
        .chain([at(logarithms.address), at(g.out.address), delta])
        .collect();
    let launch = |rows: i64, heads: i64| {
        way.launch([(rows - 1) / way.rows() + 1, a.batch * heads], a.features, 4)
    };
    let count = a.batch * a.heads * a.queries;
    if count > 0 {
        let blocks = ((count - 1) / WARPS + 1).min(i64::from(i32::MAX)) as u32;
        let each = Launch { blocks: [blocks, 1, 1], threads: [256, 1, 1], shared_bytes: 0 };
        queue(dots, each, &[at(g.out.address), at(a.out.address), delta])?;
        let all = [&operands[..], &[at(g.q.address)]].concat();
        queue(backward_q, launch(a.queries, a.heads), &all)?;
    }
    if a.batch * a.kv_heads * a.keys > 0 {
        let all = [&operands[..], &[at(g.k.address), at(g.v.address)]].concat();
        queue(backward_kv, launch(a.keys, a.kv_heads), &all)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
