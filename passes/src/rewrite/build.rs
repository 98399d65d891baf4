//! What rules build: one method per primitive operator, with the type of its result worked out.
//!
//! Each writes every argument of the operator's schema, in order, as a captured call has them.

use super::language::{Children, Term};
use super::site::Site;
use crate::ir::args::{self, Arguments};
use crate::ir::graph::Constant;
use crate::ir::layout;
use crate::ir::view::ViewMap;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Dims, Kind, MetaError, Op, Scalar};
use egg::Id;

impl Site<'_> {
    /// Adds a call. Tensor arguments are values of the e-graph.
    pub fn call_op(&mut self, op: Op, args: &[Arg<Id>], results: &[TensorMeta]) -> Id {
        let mut children = Children::new();
        let args: Vec<Arg<u32>> = (args.iter())
            .map(|a| {
                a.map(|id| {
                    children.push(*id);
                    children.len() as u32 - 1
                })
            })
            .collect();
        let how = (0, op.effects(&args, results));
        let call = (self.egraph.analysis.interner).intern_call(op, args, results, how);
        self.egraph.add(Term::Call(call, children))
    }

    /// Adds a call of one operator, with a result of this type.
    pub fn call_as<A: Arguments<Id>>(&mut self, args: A, result: TensorMeta) -> Id {
        self.call_op(A::OP, &args.write(), &[result])
    }

    /// [`Site::made`], from the arguments of one operator.
    pub(crate) fn made_as<A: Arguments<Id>>(&mut self, args: A, dtype: DType) -> Id {
        self.made(A::OP, &args.write(), dtype)
    }

    /// A call with one fresh result, whose sizes follow from its operands ([`Op::shapes`]); the
    /// rule does not apply where they do not fit.
    ///
    /// The strides are those of the first operand that has these sizes (and this dtype, where there
    /// is one), if the operator is pointwise, and row-major otherwise. Nobody can see the strides
    /// of intermediates; the last one gets those of what it replaces.
    fn made(&mut self, op: Op, args: &[Arg<Id>], dtype: DType) -> Id {
        let sizes = match op.shapes(args, |id| self.meta(*id)) {
            Some(Ok(shapes)) => shapes[0].sizes.clone(),
            Some(Err(_)) | None => {
                self.misfit.set(true);
                Dims::new()
            }
        };
        let mut meta = self.fresh(dtype, &sizes);
        if matches!(op.facts().kind, Kind::Pointwise | Kind::Test) {
            let alike = || {
                let operands = args.iter().filter_map(|a| match a {
                    Arg::Tensor(id) => Some(self.meta(*id)),
                    _ => None,
                });
                operands.filter(|m| m.sizes == sizes)
            };
            if let Some(m) = alike().find(|m| m.dtype == dtype).or(alike().next()) {
                meta.strides = layout::preserved_strides(&m.sizes, &m.strides);
            }
        }
        self.call_op(op, args, &[meta])
    }

    fn fresh(&self, dtype: DType, sizes: &[i64]) -> TensorMeta {
        TensorMeta { device: self.out().device, ..TensorMeta::contiguous(dtype, sizes) }
    }

    /// A constant without dimensions.
    pub fn constant(&mut self, value: impl Into<Scalar>, dtype: DType) -> Id {
        let meta = self.fresh(dtype, &[]);
        self.constant_of(value.into(), meta)
    }

    /// A constant of equal elements.
    pub fn constant_of(&mut self, value: Scalar, meta: TensorMeta) -> Id {
        let value = Constant::Splat(value.cast(meta.dtype));
        let id = self.egraph.analysis.interner.intern_constant(value, meta);
        self.egraph.add(Term::Constant(id))
    }

    /// An operator of one tensor with a result of its dtype, `aten::exp`.
    pub fn unary(&mut self, op: Op, x: Id) -> Id {
        self.made(op, &[Arg::Tensor(x)], self.dtype(x))
    }

    /// An operator of one tensor with a `bool` result, `aten::isnan`.
    pub fn test(&mut self, op: Op, x: Id) -> Id {
        self.made(op, &[Arg::Tensor(x)], DType::Bool)
    }

    /// `aten::mul.Tensor`, `aten::maximum` ...: two tensors, dtypes promoted.
    pub fn binary(&mut self, op: Op, a: Id, b: Id) -> Id {
        let dtype = DType::promote(self.dtype(a), self.dtype(b));
        self.made(op, &[Arg::Tensor(a), Arg::Tensor(b)], dtype)
    }

    /// A comparison or a logical operator of two tensors.
    pub fn compare(&mut self, op: Op, a: Id, b: Id) -> Id {
        self.made(op, &[Arg::Tensor(a), Arg::Tensor(b)], DType::Bool)
    }

    /// A comparison with a number, `aten::gt.Scalar`.
    pub fn compare_scalar(&mut self, op: Op, a: Id, b: impl Into<Scalar>) -> Id {
        let b = Arg::Scalar(self.number(a, b));
        self.made(op, &[Arg::Tensor(a), b], DType::Bool)
    }

    /// A number in the kind that the tensor beside it stores, so that it promotes nothing.
    fn number(&self, beside: Id, s: impl Into<Scalar>) -> Scalar {
        match (self.dtype(beside), s.into()) {
            (d, s) if d.is_floating() => Scalar::Float(s.as_f64()),
            (d, Scalar::Float(x)) if x.fract() == 0.0 => Scalar::Float(x).cast(d),
            (_, s) => s,
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: Id, b: Id) -> Id {
        let dtype = DType::promote(self.dtype(a), self.dtype(b));
        let call = args::add_Tensor { self_: a, other: b, alpha: 1.into() };
        self.made_as(call, dtype)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Id, b: Id) -> Id {
        let dtype = DType::promote(self.dtype(a), self.dtype(b));
        let call = args::sub_Tensor { self_: a, other: b, alpha: 1.into() };
        self.made_as(call, dtype)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: Id, b: Id) -> Id {
        self.binary(Op::mul_Tensor, a, b)
    }

    /// `a / b`, of floats.
    pub fn div(&mut self, a: Id, b: Id) -> Id {
        self.binary(Op::div_Tensor, a, b)
    }

    /// `a / b` rounded to a whole number: `floor` or `trunc`.
    pub fn div_rounded(&mut self, a: Id, b: Id, mode: &str) -> Id {
        let dtype = DType::promote(self.dtype(a), self.dtype(b));
        let call = args::div_Tensor_mode { self_: a, other: b, rounding_mode: Some(mode.into()) };
        self.made_as(call, dtype)
    }

    /// `aten::gelu`, exact (`none`) or approximate (`tanh`).
    pub fn gelu(&mut self, x: Id, approximate: &str) -> Id {
        let approximate = approximate.into();
        let call = args::gelu { self_: x, approximate };
        self.made_as(call, self.dtype(x))
    }

    /// `a + number`.
    pub fn add_scalar(&mut self, a: Id, b: impl Into<Scalar>) -> Id {
        let call = args::add_Scalar { self_: a, other: self.number(a, b), alpha: 1.into() };
        self.made_as(call, self.dtype(a))
    }

    /// `a - number`.
    pub fn sub_scalar(&mut self, a: Id, b: impl Into<Scalar>) -> Id {
        let call = args::sub_Scalar { self_: a, other: self.number(a, b), alpha: 1.into() };
        self.made_as(call, self.dtype(a))
    }

    /// `a * number`; `a` itself where the number is 1.
    pub fn mul_scalar(&mut self, a: Id, b: impl Into<Scalar>) -> Id {
        let b = b.into();
        if b.as_f64() == 1.0 {
            return a;
        }
        let other = self.number(a, b);
        self.made_as(args::mul_Scalar { self_: a, other }, self.dtype(a))
    }

    /// `a / number`, of floats; `a` itself where the number is 1.
    pub fn div_scalar(&mut self, a: Id, b: impl Into<Scalar>) -> Id {
        let b = b.into();
        if b.as_f64() == 1.0 {
            return a;
        }
        let other = self.number(a, b);
        self.made_as(args::div_Scalar { self_: a, other }, self.dtype(a))
    }

    /// `condition ? a : b`, elementwise; `a` and `b` of one dtype.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        let dtype = DType::promote(self.dtype(a), self.dtype(b));
        let call = args::where_self { condition, self_: a, other: b };
        self.made_as(call, dtype)
    }

    /// The value in another dtype; itself where it has it already.
    pub fn convert(&mut self, x: Id, dtype: DType) -> Id {
        if self.dtype(x) == dtype {
            return x;
        }
        self.made_as(args::prims_convert_element_type { a: x, dtype }, dtype)
    }

    /// An operand in the type in which the call computes: its result's dtype, `f32` for half
    /// types.
    pub fn lift(&mut self, x: Id) -> Id {
        let dtype = self.out().dtype.opmath();
        self.convert(x, dtype)
    }

    /// A reduction with the arguments `dim` and `keepdim`, `aten::amax`.
    pub fn reduce(&mut self, op: Op, x: Id, dims: &[usize], keepdim: bool) -> Id {
        // an empty list of dimensions would mean all of them
        debug_assert!(!dims.is_empty() || self.meta(x).sizes.is_empty());
        let dims = Arg::Ints(dims.iter().map(|d| *d as i64).collect());
        let args = [Arg::Tensor(x), dims, Arg::Scalar(keepdim.into())];
        self.made(op, &args, self.dtype(x))
    }

    /// The sum over dimensions, in the dtype of the operand.
    pub fn sum(&mut self, x: Id, dims: &[usize], keepdim: bool) -> Id {
        let call = args::sum_dim_IntList {
            self_: x,
            dim: Some(dims.iter().map(|d| *d as i64).collect()),
            keepdim,
            dtype: None,
        };
        self.made_as(call, self.dtype(x))
    }

    /// Marks the rule as not applicable; the value returned is not used.
    pub(crate) fn unfit(&self, x: Id) -> Id {
        self.misfit.set(true);
        x
    }

    /// `aten::mm`.
    pub fn mm(&mut self, a: Id, b: Id) -> Id {
        self.made_as(args::mm { self_: a, mat2: b }, self.dtype(a))
    }

    /// `aten::bmm`.
    pub fn bmm(&mut self, a: Id, b: Id) -> Id {
        self.made_as(args::bmm { self_: a, mat2: b }, self.dtype(a))
    }

    /// The same elements in other sizes: a view where the operand is row-major, else a reshape.
    pub fn reshape(&mut self, x: Id, sizes: &[i64]) -> Id {
        let same_count = self.meta(x).numel() == layout::numel(sizes);
        if !same_count {
            self.misfit.set(true);
        }
        if self.meta(x).sizes[..] == *sizes || !same_count {
            return x;
        }
        let meta = self.fresh(self.dtype(x), sizes);
        let (self_, sizes) = (x, sizes.to_vec());
        match self.meta(x).is_contiguous() {
            true => self.call_as(args::view { self_, size: sizes }, meta),
            false => self.call_as(args::reshape { self_, shape: sizes }, meta),
        }
    }

    /// A view of a value, by the operator that says so in the fewest words; the value itself where
    /// it is no other.
    pub fn viewed(&mut self, x: Id, map: &ViewMap) -> Id {
        let m = self.meta(x).clone();
        if map.is_identity(&m.sizes) {
            return x;
        }
        let Ok((sizes, strides, _)) = map.strides(&m.sizes, &m.strides, 0) else {
            return self.unfit(x);
        };
        let meta = TensorMeta { sizes, strides, ..m.clone() };
        let self_ = x;
        let dims = |d: &[usize]| d.iter().map(|d| *d as i64).collect();
        match map {
            ViewMap::Identity => x,
            ViewMap::Permute(order) => {
                let dims = dims(order);
                self.call_as(args::permute { self_, dims }, meta)
            }
            ViewMap::Slice { dim, start, len, step } => {
                let end = (start + 1).saturating_add((len - 1).saturating_mul(*step));
                let call = args::slice_Tensor {
                    self_,
                    dim: *dim as i64,
                    start: Some(*start),
                    end: Some(end.min(m.sizes[*dim]).max(*start)),
                    step: *step,
                };
                self.call_as(call, meta)
            }
            ViewMap::Select { dim, index } => {
                let (dim, index) = (*dim as i64, *index);
                self.call_as(args::select_int { self_, dim, index }, meta)
            }
            ViewMap::Expand(to) => {
                let (size, implicit) = (to.to_vec(), false);
                let call = args::expand { self_, size, implicit };
                self.call_as(call, meta)
            }
            ViewMap::Unsqueeze(dim) => {
                let dim = *dim as i64;
                self.call_as(args::unsqueeze { self_, dim }, meta)
            }
            ViewMap::Squeeze(gone) => match &gone[..] {
                [dim] => {
                    let dim = *dim as i64;
                    self.call_as(args::squeeze_dim { self_, dim }, meta)
                }
                gone => {
                    let dim = dims(gone);
                    self.call_as(args::squeeze_dims { self_, dim }, meta)
                }
            },
            ViewMap::Diagonal { offset, dim1, dim2 } => {
                let call = args::diagonal {
                    self_,
                    offset: *offset,
                    dim1: *dim1 as i64,
                    dim2: *dim2 as i64,
                };
                self.call_as(call, meta)
            }
            ViewMap::Unfold { dim, size, step } => {
                let call = args::unfold { self_, dimension: *dim as i64, size: *size, step: *step };
                self.call_as(call, meta)
            }
            ViewMap::Reshape(to) => {
                let size = to.to_vec();
                self.call_as(args::view { self_, size }, meta)
            }
        }
    }

    /// The view that a map is, where there is one.
    pub(crate) fn viewed_as(&mut self, x: Id, map: Result<ViewMap, MetaError>) -> Id {
        match map {
            Ok(map) => self.viewed(x, &map),
            Err(_) => self.unfit(x),
        }
    }

    /// A dimension of size 1 before `dim`.
    pub fn unsqueeze(&mut self, x: Id, dim: usize) -> Id {
        let map = ViewMap::unsqueeze(&self.meta(x).sizes, dim as i64);
        self.viewed_as(x, map)
    }

    /// Without the dimension `dim`, whose size is 1.
    pub fn squeeze(&mut self, x: Id, dim: usize) -> Id {
        if self.meta(x).sizes.get(dim) != Some(&1) {
            return self.unfit(x);
        }
        self.viewed(x, &ViewMap::Squeeze([dim][..].into()))
    }

    /// Repeated to larger sizes without a copy.
    pub fn expand(&mut self, x: Id, sizes: &[i64]) -> Id {
        let map = ViewMap::expand(&self.meta(x).sizes, sizes);
        self.viewed_as(x, map)
    }

    /// `start..end` of a dimension.
    pub fn slice(&mut self, x: Id, dim: usize, start: i64, end: i64) -> Id {
        let within = |n: &i64| 0 <= start && start <= end && end <= *n;
        if !self.meta(x).sizes.get(dim).is_some_and(within) {
            return self.unfit(x);
        }
        let (len, step) = (end - start, 1);
        let map = ViewMap::Slice { dim, start, len, step };
        self.viewed(x, &map)
    }

    /// The concatenation along a dimension.
    pub fn cat(&mut self, parts: &[Id], dim: usize) -> Id {
        let (tensors, dim) = (parts.to_vec(), dim as i64);
        self.made_as(args::cat { tensors, dim }, self.dtype(parts[0]))
    }

    /// `aten::gather`.
    pub fn gather(&mut self, x: Id, dim: usize, index: Id) -> Id {
        let sizes = self.meta(index).sizes.clone();
        let of = &self.meta(x).sizes;
        let fits = |(i, n): (usize, &i64)| i == dim || *n <= of[i];
        if sizes.len() != of.len() || !sizes.iter().enumerate().all(fits) {
            return self.unfit(x);
        }
        let call = args::gather { self_: x, dim: dim as i64, index, sparse_grad: false };
        self.made_as(call, self.dtype(x))
    }

    /// The value with the strides of `want`, as the last operator that made it can give them.
    /// `None` where sizes or dtypes differ: the call has results that its operator does not give,
    /// which the verifier does not know of every operator.
    pub(super) fn finish(&mut self, id: Id, want: &TensorMeta) -> Option<Id> {
        let have = self.meta(id);
        if have == want {
            return Some(id);
        }
        let same_value = have.dtype == want.dtype && have.sizes == want.sizes;
        if !same_value || have.device != want.device {
            return None;
        }
        // an operator that allocates its result can allocate it in any order of dimensions
        let restrided = self.egraph[id].nodes.iter().find_map(|term| match term {
            Term::Call(c, children) => {
                let call = self.egraph.analysis.interner.call(*c);
                (call.tag == 0 && super::cost::allocates(call.op) && call.results.len() == 1)
                    .then(|| (call.clone(), children.clone()))
            }
            _ => None,
        });
        if let Some((call, children)) = restrided {
            let interner = &mut self.egraph.analysis.interner;
            let want = std::slice::from_ref(want);
            let how = (0, call.effects);
            let new = interner.intern_call(call.op, call.args.clone(), want, how);
            return Some(self.egraph.add(Term::Call(new, children)));
        }
        if let Some(value) = self.splat(id) {
            return Some(self.constant_of(value, want.clone()));
        }
        let call = args::clone { self_: id, memory_format: None };
        Some(self.call_as(call, want.clone()))
    }
}
