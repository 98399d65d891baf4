//! Composites as rewrite rules: what a [`Composer`] makes, as calls in the e-graph.

use super::{Composer, Made};
use crate::ir::args::{self, Arguments};
use crate::ir::promote::{Operand, result_type};
use crate::ir::view::{ViewMap, wrap_dim};
use crate::ir::{DType, Dims, MetaError, Op, Scalar};
use crate::rewrite::Site;
use crate::rewrite::rule::{Apply, Rule, RuleSet};
use egg::Id;

/// Operands that do not fit: the call stays as it is, for its kernel to say what is wrong.
pub struct Unfit;

impl From<MetaError> for Unfit {
    fn from(_: MetaError) -> Unfit {
        Unfit
    }
}

/// Rules whose definitions are composites: `"law" name: operator;`.
macro_rules! composites {
    ($($law:literal $name:ident: $op:ident;)*) => {
        /// The rules of composites.
        pub(crate) const RULES: &[Rule] = &[$(Rule {
            name: stringify!($name),
            law: $law,
            ops: &[Op::$op],
            set: RuleSet::Decompose,
            apply: Apply::One(|s| {
                let (given, operands) = s.given();
                let a = args::$op::read(&given, |at| &operands[*at as usize])?;
                super::$op(s, a).ok()
            }),
        },)*];
    };
}

composites! {
    "a stack is a concatenation along a new dimension"
        stack: stack;
    "matmul is mm or bmm, of vectors as matrices and of leading dimensions as one"
        matmul: matmul;
    "linear(x, w, b) = x @ w^T + b over the last dimension"
        linear: linear;
    "softmax in a dtype is _softmax of the converted tensor"
        softmax_int: softmax_int;
    "log_softmax in a dtype is _log_softmax of the converted tensor"
        log_softmax_int: log_softmax_int;
    "logsumexp(x) = log(sum(exp(x - m))) + m with m = max x, or 0 where that is infinite"
        logsumexp: logsumexp;
    "where(c, number, b) is where with a constant"
        where_scalar_self: where_ScalarSelf;
    "where(c, a, number) is where with a constant"
        where_scalar_other: where_ScalarOther;
    "masked_fill(x, m, v) = where(m, v, x)"
        masked_fill_tensor: masked_fill_Tensor;
}

impl Site<'_> {
    /// What a method of the site has built, where it could.
    fn fitting(&self, x: Id) -> Result<Id, Unfit> {
        match self.is_misfit() {
            true => Err(Unfit),
            false => Ok(x),
        }
    }

    fn axes(&self, x: Id, dims: &[i64]) -> Result<Vec<usize>, Unfit> {
        Ok(crate::ir::meta::dims(Some(dims), self.meta(x).sizes.len())?.to_vec())
    }

    fn through(&mut self, x: Id, map: Result<ViewMap, MetaError>) -> Result<Id, Unfit> {
        let y = self.viewed_as(x, map);
        self.fitting(y)
    }
}

impl Composer for Site<'_> {
    type Value = Id;
    type Error = Unfit;

    fn sizes(&self, x: &Id) -> Dims {
        self.meta(*x).sizes.clone()
    }
    fn dtype(&self, x: &Id) -> DType {
        Site::dtype(self, *x)
    }

    fn to(&mut self, x: &Id, dtype: DType) -> Made<Self> {
        Ok(self.convert(*x, dtype))
    }
    fn number_beside(&mut self, number: Scalar, x: &Id) -> Made<Self> {
        let m = self.meta(*x);
        let operands = [Operand::tensor(m.dtype, m.sizes.len()), Operand::number(number)];
        let dtype = result_type(operands).ok_or(Unfit)?;
        Ok(self.constant(number, dtype))
    }

    fn t(&mut self, x: &Id) -> Made<Self> {
        let map = ViewMap::t(&self.meta(*x).sizes);
        self.through(*x, map)
    }
    fn unsqueeze(&mut self, x: &Id, dim: i64) -> Made<Self> {
        let map = ViewMap::unsqueeze(&self.meta(*x).sizes, dim);
        self.through(*x, map)
    }
    fn squeeze(&mut self, x: &Id, dims: &[i64]) -> Made<Self> {
        let map = ViewMap::squeeze(&self.meta(*x).sizes, Some(dims));
        self.through(*x, map)
    }
    fn expand(&mut self, x: &Id, sizes: &[i64]) -> Made<Self> {
        let map = ViewMap::expand(&self.meta(*x).sizes, sizes);
        self.through(*x, map)
    }
    fn view(&mut self, x: &Id, sizes: &[i64]) -> Made<Self> {
        Composer::reshape(self, x, sizes)
    }
    fn unsafe_view(&mut self, x: &Id, sizes: &[i64]) -> Made<Self> {
        Composer::reshape(self, x, sizes)
    }
    fn reshape(&mut self, x: &Id, sizes: &[i64]) -> Made<Self> {
        let y = Site::reshape(self, *x, sizes);
        self.fitting(y)
    }
    fn contiguous(&mut self, x: &Id) -> Made<Self> {
        // what a rule gives is copied to the strides of what it replaces
        Ok(*x)
    }
    fn cat(&mut self, parts: &[Id], dim: i64) -> Made<Self> {
        let rank = self.meta(*parts.first().ok_or(Unfit)?).sizes.len();
        let dtypes = parts.iter().map(|x| Site::dtype(self, *x));
        let dtype = dtypes.reduce(DType::promote).ok_or(Unfit)?;
        let parts: Vec<Id> = parts.iter().map(|x| self.convert(*x, dtype)).collect();
        let y = Site::cat(self, &parts, wrap_dim(dim, rank)?);
        self.fitting(y)
    }

    fn real(&mut self, x: &Id) -> Made<Self> {
        // calls with complex numbers are not taken apart
        Ok(*x)
    }
    fn abs(&mut self, x: &Id) -> Made<Self> {
        Ok(self.unary(Op::abs, *x))
    }
    fn exp(&mut self, x: &Id) -> Made<Self> {
        Ok(self.unary(Op::exp, *x))
    }
    fn log(&mut self, x: &Id) -> Made<Self> {
        Ok(self.unary(Op::log, *x))
    }
    fn sqrt(&mut self, x: &Id) -> Made<Self> {
        Ok(self.unary(Op::sqrt, *x))
    }
    fn add(&mut self, a: &Id, b: &Id) -> Made<Self> {
        let y = Site::add(self, *a, *b);
        self.fitting(y)
    }
    fn sub(&mut self, a: &Id, b: &Id) -> Made<Self> {
        let y = Site::sub(self, *a, *b);
        self.fitting(y)
    }
    fn mul(&mut self, a: &Id, b: &Id) -> Made<Self> {
        let y = Site::mul(self, *a, *b);
        self.fitting(y)
    }
    fn pow(&mut self, x: &Id, power: f64) -> Made<Self> {
        let call = args::pow_Tensor_Scalar { self_: *x, exponent: power.into() };
        let y = self.made_as(call, Site::dtype(self, *x));
        self.fitting(y)
    }
    fn eq(&mut self, x: &Id, number: f64) -> Made<Self> {
        Ok(self.compare_scalar(Op::eq_Scalar, *x, number))
    }
    fn ne(&mut self, x: &Id, number: f64) -> Made<Self> {
        Ok(self.compare_scalar(Op::ne_Scalar, *x, number))
    }
    fn masked_fill(&mut self, x: &Id, mask: &Id, number: f64) -> Made<Self> {
        let number = self.constant(number, Site::dtype(self, *x));
        Composer::select(self, mask, &number, x)
    }
    fn select(&mut self, condition: &Id, a: &Id, b: &Id) -> Made<Self> {
        let dtype = DType::promote(Site::dtype(self, *a), Site::dtype(self, *b));
        let (a, b) = (self.convert(*a, dtype), self.convert(*b, dtype));
        let y = Site::select(self, *condition, a, b);
        self.fitting(y)
    }

    fn sum(&mut self, x: &Id, dims: &[i64], keepdim: bool) -> Made<Self> {
        let dims = self.axes(*x, dims)?;
        Ok(Site::sum(self, *x, &dims, keepdim))
    }
    fn amax(&mut self, x: &Id, dims: &[i64], keepdim: bool) -> Made<Self> {
        let dims = self.axes(*x, dims)?;
        Ok(self.reduce(Op::amax, *x, &dims, keepdim))
    }
    fn amin(&mut self, x: &Id, dims: &[i64], keepdim: bool) -> Made<Self> {
        let dims = self.axes(*x, dims)?;
        Ok(self.reduce(Op::amin, *x, &dims, keepdim))
    }
    fn softmax(&mut self, x: &Id, dim: i64) -> Made<Self> {
        let call = args::_softmax { self_: *x, dim, half_to_float: false };
        let meta = self.meta(*x).clone();
        Ok(self.call_as(call, meta))
    }
    fn log_softmax(&mut self, x: &Id, dim: i64) -> Made<Self> {
        let call = args::_log_softmax { self_: *x, dim, half_to_float: false };
        let meta = self.meta(*x).clone();
        Ok(self.call_as(call, meta))
    }

    fn matmul(&mut self, a: &Id, b: &Id) -> Made<Self> {
        super::matmul(self, args::matmul { self_: a, other: b })
    }
    fn mm(&mut self, a: &Id, b: &Id) -> Made<Self> {
        let y = Site::mm(self, *a, *b);
        self.fitting(y)
    }
    fn bmm(&mut self, a: &Id, b: &Id) -> Made<Self> {
        let y = Site::bmm(self, *a, *b);
        self.fitting(y)
    }
    fn addmm(&mut self, addend: &Id, a: &Id, b: &Id) -> Made<Self> {
        let one = || Scalar::Int(1);
        let call = args::addmm { self_: *addend, mat1: *a, mat2: *b, beta: one(), alpha: one() };
        let y = self.made_as(call, Site::dtype(self, *a));
        self.fitting(y)
    }
}
