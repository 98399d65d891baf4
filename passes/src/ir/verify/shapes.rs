//! The sizes that the results of known operators must have.
//!
//! Calls that a person wrote may leave out arguments at their defaults and the names of tensors,
//! so arguments are looked up by name, then by their position in the schema.

use crate::ir::graph::{Arg, Call, Graph, NodeId, TensorMeta, ValueRef};
use crate::ir::{DType, Dims, layout};
use smallvec::SmallVec;

/// What does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are named by the messages
pub enum ShapeError {
    /// Result sizes that do not follow from the operands.
    #[error("expected sizes {expected:?}, found {found:?}")]
    Sizes { expected: Vec<i64>, found: Vec<i64> },
    /// A result dtype that the operator never gives.
    #[error("expected dtype {expected}, found {found}")]
    DType { expected: DType, found: DType },
    /// Operands that do not broadcast.
    #[error("the operand sizes {a:?} and {b:?} do not broadcast")]
    Broadcast { a: Vec<i64>, b: Vec<i64> },
    /// Matrices that cannot be multiplied.
    #[error("cannot multiply {a:?} by {b:?}")]
    Matmul { a: Vec<i64>, b: Vec<i64> },
    /// A view of another number of elements.
    #[error("a view of {from} elements cannot have {to}")]
    ViewCount { from: i64, to: i64 },
    /// An operand of another rank than the operator takes.
    #[error("expected an operand of {expected} dimensions, found {found}")]
    Rank { expected: usize, found: usize },
    /// A dimension out of range.
    #[error("dimension {dim} does not exist in a tensor of {rank} dimensions")]
    Dim { dim: i64, rank: usize },
    /// A call without an argument that the operator needs.
    #[error("the argument `{0}` is missing or of another kind")]
    Argument(&'static str),
    /// Another number of results than the operator has.
    #[error("expected {expected} results, found {found}")]
    Results { expected: usize, found: usize },
    /// Operands of a concatenation that differ beside the dimension concatenated.
    #[error("cannot concatenate {a:?} and {b:?} along dimension {dim}")]
    Cat {
        a: Vec<i64>,
        b: Vec<i64>,
        dim: usize,
    },
}

type Result<T> = std::result::Result<T, ShapeError>;

/// What decides an operator's result sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// All tensor arguments broadcast.
    Pointwise,
    /// As [`Family::Pointwise`], with a `bool` result.
    Predicate,
    /// Removes the dimensions `dim`, or all of them where there is no such argument.
    Reduction,
    /// As [`Family::Reduction`], with `bool` or `i64` as result dtype.
    IndexReduction(DType),
    /// As many elements, in the order of the sizes given.
    View,
    /// Something else: see the code of [`check`].
    Other,
}

/// The family of an operator without its overload.
pub fn family(op: &str) -> Family {
    let Some(name) = op.strip_prefix("aten::") else {
        return match op {
            "prims::convert_element_type" => Family::Pointwise,
            _ => Family::Other,
        };
    };
    match name.split_once('.').map_or(name, |(base, _)| base) {
        "neg" | "abs" | "sign" | "sqrt" | "rsqrt" | "reciprocal" | "exp" | "exp2" | "expm1"
        | "log" | "log2" | "log10" | "log1p" | "sin" | "cos" | "tan" | "asin" | "acos" | "atan"
        | "sinh" | "cosh" | "asinh" | "acosh" | "atanh" | "tanh" | "sigmoid" | "erf" | "erfc"
        | "floor" | "ceil" | "round" | "trunc" | "frac" | "bitwise_not" | "relu" | "relu6"
        | "silu" | "gelu" | "mish" | "elu" | "selu" | "celu" | "leaky_relu" | "hardtanh"
        | "hardsigmoid" | "hardswish" | "hardshrink" | "softshrink" | "softplus" | "threshold"
        | "log_sigmoid" | "square" | "add" | "sub" | "rsub" | "mul" | "div" | "pow" | "atan2"
        | "fmod" | "remainder" | "maximum" | "minimum" | "fmax" | "fmin" | "bitwise_and"
        | "bitwise_or" | "bitwise_xor" | "addcmul" | "addcdiv" | "lerp" | "clamp" | "clamp_min"
        | "clamp_max" | "masked_fill" | "logaddexp" | "xlogy" | "heaviside" | "clone"
        | "_to_copy" | "alias" | "detach" | "_softmax" | "_log_softmax" | "softmax"
        | "log_softmax" | "zeros_like" | "ones_like" | "full_like" | "tril" | "triu" | "fill" => {
            Family::Pointwise
        }
        "where" if name == "where.self" => Family::Pointwise,
        "bitwise_left_shift" | "bitwise_right_shift" => Family::Pointwise,
        "sgn" | "floor_divide" | "nan_to_num" | "special_xlog1py" => Family::Pointwise,
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "isnan" | "isinf" | "isfinite"
        | "logical_not" | "logical_and" | "logical_or" | "logical_xor" => Family::Predicate,
        "sum" | "mean" | "amax" | "amin" | "prod" => Family::Reduction,
        "var" | "std" if !name.ends_with("mean") => Family::Reduction,
        "any" | "all" => Family::IndexReduction(DType::Bool),
        "argmax" | "argmin" => Family::IndexReduction(DType::I64),
        "view" | "_unsafe_view" | "reshape" if name != "view.dtype" => Family::View,
        _ => Family::Other,
    }
}

/// A dimension counted from 0; a tensor without dimensions has one for this purpose.
pub fn wrap_dim(dim: i64, rank: usize) -> Option<usize> {
    let n = rank.max(1) as i64;
    (-n..n).contains(&dim).then(|| dim.rem_euclid(n) as usize)
}

/// Sizes after reducing `dims`; none, and an empty list, mean all dimensions.
pub fn reduced(sizes: &[i64], dims: &[usize], keepdim: bool) -> Dims {
    let mut out = Dims::new();
    for (i, &size) in sizes.iter().enumerate() {
        if !(dims.is_empty() || dims.contains(&i)) {
            out.push(size);
        } else if keepdim {
            out.push(1);
        }
    }
    out
}

/// A call with its operands' types.
struct Checked<'a> {
    call: &'a Call,
    operands: SmallVec<[&'a TensorMeta; 4]>,
    results: &'a [TensorMeta],
}

/// Checks one call's results. The graph's structure must be sound.
///
/// # Errors
///
/// What does not fit; operators that are not known here always fit.
pub fn check(graph: &Graph, id: NodeId, call: &Call) -> Result<()> {
    let family = family(&call.op);
    let operands: SmallVec<[ValueRef; 4]> = graph.operands(id);
    let c = Checked {
        call,
        operands: operands.iter().map(|v| graph.meta(*v)).collect(),
        results: &graph.node(id).results,
    };
    match family {
        Family::Pointwise => c.pointwise(),
        Family::Predicate => {
            c.pointwise()?;
            c.dtype(0, DType::Bool)
        }
        Family::Reduction => c.reduction(),
        Family::IndexReduction(dtype) => {
            c.reduction()?;
            // any and all keep u8, as PyTorch does
            let byte = dtype == DType::Bool && c.results[0].dtype == DType::U8;
            if byte { Ok(()) } else { c.dtype(0, dtype) }
        }
        Family::View => {
            let (from, to) = (c.operand(0)?.numel(), c.result()?.numel());
            if from == to {
                Ok(())
            } else {
                Err(ShapeError::ViewCount { from, to })
            }
        }
        Family::Other => c.other(),
    }
}

impl<'a> Checked<'a> {
    fn arg(&self, name: &'static str, position: usize) -> Option<&'a Arg<u32>> {
        let by_name = self.call.names.iter().position(|n| &**n == name);
        match by_name {
            Some(i) => self.call.args.get(i),
            // an unnamed argument at the position: a tensor in text form
            None => (self.call.names.get(position))
                .filter(|n| n.is_empty())
                .and_then(|_| self.call.args.get(position)),
        }
    }

    fn operand(&self, i: usize) -> Result<&'a TensorMeta> {
        (self.operands.get(i).copied()).ok_or(ShapeError::Argument("self"))
    }

    fn ranked(&self, i: usize, expected: usize) -> Result<&'a TensorMeta> {
        let m = self.operand(i)?;
        let found = m.sizes.len();
        if found == expected {
            Ok(m)
        } else {
            Err(ShapeError::Rank { expected, found })
        }
    }

    fn result(&self) -> Result<&'a TensorMeta> {
        match self.results {
            [m] => Ok(m),
            _ => Err(ShapeError::Results {
                expected: 1,
                found: self.results.len(),
            }),
        }
    }

    fn int(&self, name: &'static str, position: usize) -> Result<i64> {
        (self.arg(name, position).and_then(Arg::as_int)).ok_or(ShapeError::Argument(name))
    }

    fn dim(&self, dim: i64, rank: usize) -> Result<usize> {
        wrap_dim(dim, rank).ok_or(ShapeError::Dim { dim, rank })
    }

    fn sizes(&self, index: usize, expected: &[i64]) -> Result<()> {
        let found = self.results.get(index).ok_or(ShapeError::Results {
            expected: index + 1,
            found: self.results.len(),
        })?;
        if found.sizes[..] == *expected {
            Ok(())
        } else {
            Err(ShapeError::Sizes {
                expected: expected.to_vec(),
                found: found.sizes.to_vec(),
            })
        }
    }

    fn dtype(&self, index: usize, expected: DType) -> Result<()> {
        match self.results.get(index) {
            Some(m) if m.dtype != expected => Err(ShapeError::DType {
                expected,
                found: m.dtype,
            }),
            _ => Ok(()),
        }
    }

    fn pointwise(&self) -> Result<()> {
        self.result()?;
        let mut sizes = Dims::from_slice(&self.operand(0)?.sizes);
        for m in &self.operands[1..] {
            sizes = layout::broadcast(&sizes, &m.sizes).ok_or_else(|| ShapeError::Broadcast {
                a: sizes.to_vec(),
                b: m.sizes.to_vec(),
            })?;
        }
        self.sizes(0, &sizes)
    }

    fn dims(&self, rank: usize) -> Result<Vec<usize>> {
        let dims = match self.arg("dim", 1) {
            Some(a) => a.as_ints().unwrap_or_default(),
            None => Vec::new(),
        };
        dims.into_iter().map(|d| self.dim(d, rank)).collect()
    }

    fn reduction(&self) -> Result<()> {
        self.result()?;
        let x = self.operand(0)?;
        let dims = self.dims(x.sizes.len())?;
        let keepdim = self.arg("keepdim", 2).and_then(Arg::as_bool) == Some(true);
        self.sizes(0, &reduced(&x.sizes, &dims, keepdim))
    }

    fn matmul(a: &TensorMeta, b: &TensorMeta) -> Result<Dims> {
        let (x, y) = (&a.sizes, &b.sizes);
        let n = x.len();
        if x[..n - 2] != y[..n - 2] || x[n - 1] != y[n - 2] {
            return Err(ShapeError::Matmul {
                a: x.to_vec(),
                b: y.to_vec(),
            });
        }
        let mut out = x.clone();
        out[n - 1] = y[n - 1];
        Ok(out)
    }

    fn other(&self) -> Result<()> {
        match &*self.call.op {
            "aten::mm" => self.sizes(0, &Self::matmul(self.ranked(0, 2)?, self.ranked(1, 2)?)?),
            "aten::bmm" => self.sizes(0, &Self::matmul(self.ranked(0, 3)?, self.ranked(1, 3)?)?),
            "aten::addmm" | "aten::baddbmm" => {
                let rank = if &*self.call.op == "aten::addmm" {
                    2
                } else {
                    3
                };
                let sizes = Self::matmul(self.ranked(1, rank)?, self.ranked(2, rank)?)?;
                let bias = &self.operand(0)?.sizes;
                if layout::broadcast(bias, &sizes).as_ref() != Some(&sizes) {
                    return Err(ShapeError::Broadcast {
                        a: bias.to_vec(),
                        b: sizes.to_vec(),
                    });
                }
                self.sizes(0, &sizes)
            }
            "aten::max.dim" | "aten::min.dim" => {
                let x = self.operand(0)?;
                let dim = self.dim(self.int("dim", 1)?, x.sizes.len())?;
                let keepdim = self.arg("keepdim", 2).and_then(Arg::as_bool) == Some(true);
                let sizes = reduced(&x.sizes, &[dim], keepdim);
                self.sizes(0, &sizes)?;
                self.sizes(1, &sizes)?;
                self.dtype(1, DType::I64)
            }
            "aten::t" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                if sizes.len() > 2 {
                    let (expected, found) = (2, sizes.len());
                    return Err(ShapeError::Rank { expected, found });
                }
                sizes.reverse();
                self.sizes(0, &sizes)
            }
            "aten::transpose.int" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let a = self.dim(self.int("dim0", 1)?, sizes.len())?;
                let b = self.dim(self.int("dim1", 2)?, sizes.len())?;
                if !sizes.is_empty() {
                    sizes.swap(a, b);
                }
                self.sizes(0, &sizes)
            }
            "aten::permute" => {
                let x = self.operand(0)?;
                let rank = x.sizes.len();
                let dims = (self.arg("dims", 1).and_then(Arg::as_ints))
                    .ok_or(ShapeError::Argument("dims"))?;
                let dims: Vec<usize> = (dims.into_iter())
                    .map(|d| self.dim(d, rank))
                    .collect::<Result<_>>()?;
                let mut seen = dims.clone();
                seen.sort_unstable();
                if seen != (0..rank).collect::<Vec<_>>() {
                    return Err(ShapeError::Argument("dims"));
                }
                let sizes: Vec<i64> = dims.iter().map(|d| x.sizes[*d]).collect();
                self.sizes(0, &sizes)
            }
            "aten::expand" => {
                let (x, to) = (self.operand(0)?, self.result()?);
                if layout::broadcast(&x.sizes, &to.sizes).as_ref() == Some(&to.sizes) {
                    return Ok(());
                }
                Err(ShapeError::Broadcast {
                    a: x.sizes.to_vec(),
                    b: to.sizes.to_vec(),
                })
            }
            "aten::select.int" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let (dim, rank) = (self.int("dim", 1)?, sizes.len());
                if rank == 0 {
                    return Err(ShapeError::Dim { dim, rank });
                }
                sizes.remove(self.dim(dim, rank)?);
                self.sizes(0, &sizes)
            }
            "aten::unsqueeze" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let dim = self.dim(self.int("dim", 1)?, sizes.len() + 1)?;
                sizes.insert(dim, 1);
                self.sizes(0, &sizes)
            }
            "aten::slice.Tensor" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let dim = self.arg("dim", 1).and_then(Arg::as_int).unwrap_or(0);
                let rank = sizes.len();
                if rank == 0 {
                    return Err(ShapeError::Dim { dim, rank });
                }
                let dim = self.dim(dim, rank)?;
                let int =
                    |name, i, default| self.arg(name, i).and_then(Arg::as_int).unwrap_or(default);
                let step = int("step", 4, 1);
                let range = slice_range(sizes[dim], int("start", 2, 0), int("end", 3, i64::MAX));
                if step < 1 {
                    return Err(ShapeError::Argument("step"));
                }
                let count = range.end - range.start;
                sizes[dim] = count / step + i64::from(count % step != 0);
                self.sizes(0, &sizes)
            }
            "aten::cat" => self.cat(),
            "aten::embedding" => {
                let mut sizes = self.operand(1)?.sizes.clone();
                sizes.push(self.ranked(0, 2)?.sizes[1]);
                self.sizes(0, &sizes)
            }
            "aten::gather" => self.sizes(0, &self.operand(1)?.sizes),
            "aten::index_select" => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let dim = self.dim(self.int("dim", 1)?, sizes.len())?;
                if !sizes.is_empty() {
                    sizes[dim] = self.operand(1)?.numel();
                }
                self.sizes(0, &sizes)
            }
            _ => Ok(()),
        }
    }

    fn cat(&self) -> Result<()> {
        let dim = self.arg("dim", 1).and_then(Arg::as_int).unwrap_or(0);
        // PyTorch skips one-dimensional empty operands whatever the others are
        let is_legacy_empty = |m: &&&TensorMeta| m.sizes[..] == [0];
        let mut parts = self.operands.iter().filter(|m| !is_legacy_empty(m));
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let mut sizes = first.sizes.clone();
        if sizes.is_empty() {
            return Err(ShapeError::Dim { dim, rank: 0 });
        }
        let dim = self.dim(dim, sizes.len())?;
        for m in parts {
            let same = m.sizes.len() == sizes.len()
                && (0..sizes.len()).all(|i| i == dim || m.sizes[i] == sizes[i]);
            if !same {
                return Err(ShapeError::Cat {
                    a: sizes.to_vec(),
                    b: m.sizes.to_vec(),
                    dim,
                });
            }
            sizes[dim] = sizes[dim].saturating_add(m.sizes[dim]);
        }
        self.sizes(0, &sizes)
    }
}

/// The elements that a slice of a dimension covers: negative bounds count from the end, and both
/// are clamped into the dimension.
///
/// ```
/// use straightline_passes::ir::verify::shapes::slice_range;
/// assert_eq!(slice_range(5, -2, i64::MAX), 3..5);
/// assert_eq!(slice_range(5, 4, 2), 4..4);
/// ```
pub fn slice_range(size: i64, start: i64, end: i64) -> std::ops::Range<i64> {
    let wrap = |i: i64| if i < 0 { i.saturating_add(size) } else { i };
    let start = wrap(start).clamp(0, size);
    start..wrap(end).clamp(start, size)
}
