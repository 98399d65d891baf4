//! Graphs written in a few lines.

use crate::ir::graph::{Graph, ValueRef};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Op, Scalar, layout};
use crate::schedule::loops::Schedule;
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

/// A graph under construction; shapes of pointwise results are inferred, others are given.
#[derive(Default)]
pub(super) struct B {
    pub(super) g: Graph,
}

pub(super) fn t(v: ValueRef) -> Arg<ValueRef> {
    Arg::Tensor(v)
}

pub(super) fn s(x: impl Into<Scalar>) -> Arg<ValueRef> {
    Arg::Scalar(x.into())
}

pub(super) fn ints(v: &[i64]) -> Arg<ValueRef> {
    Arg::Ints(v.to_vec())
}

/// Adds a call of the operator of this name.
pub(super) fn add(g: &mut Graph, op: &str, args: Vec<Arg<ValueRef>>, meta: TensorMeta) -> ValueRef {
    let op = Op::named(op).unwrap_or_else(|| panic!("no operator `{op}`"));
    g.call(op, args, [meta]).expect("its arguments")
}

impl B {
    pub(super) fn input(&mut self, sizes: &[i64]) -> ValueRef {
        let n = self.g.inputs().len();
        let meta = TensorMeta::contiguous(DType::F32, sizes);
        self.g.input(&format!("x{n}"), meta)
    }

    pub(super) fn param(&mut self, sizes: &[i64]) -> ValueRef {
        let n = self.g.parameters().len();
        let meta = TensorMeta::contiguous(DType::F32, sizes);
        self.g.parameter(&format!("w{n}"), meta)
    }

    pub(super) fn meta(&self, v: ValueRef) -> TensorMeta {
        self.g.meta(v).clone()
    }

    pub(super) fn call(
        &mut self,
        op: &str,
        args: Vec<Arg<ValueRef>>,
        dtype: DType,
        sizes: &[i64],
    ) -> ValueRef {
        let meta = TensorMeta::contiguous(dtype, sizes);
        add(&mut self.g, op, args, meta)
    }

    /// A unary operator that keeps dtype and shape.
    pub(super) fn un(&mut self, op: &str, x: ValueRef) -> ValueRef {
        let m = self.meta(x);
        self.call(op, vec![t(x)], m.dtype, &m.sizes)
    }

    /// A binary operator on tensors of one dtype, broadcast.
    pub(super) fn bin(&mut self, op: &str, x: ValueRef, y: ValueRef) -> ValueRef {
        let (a, b) = (self.meta(x), self.meta(y));
        let sizes = layout::broadcast(&a.sizes, &b.sizes).expect("shapes broadcast");
        self.call(op, vec![t(x), t(y)], a.dtype, &sizes)
    }

    /// A binary operator with a number.
    pub(super) fn num(&mut self, op: &str, x: ValueRef, y: impl Into<Scalar>) -> ValueRef {
        let m = self.meta(x);
        self.call(op, vec![t(x), s(y)], m.dtype, &m.sizes)
    }

    /// A reduction that keeps its dimension.
    pub(super) fn keep(&mut self, op: &str, x: ValueRef, dim: usize) -> ValueRef {
        let mut m = self.meta(x);
        m.sizes[dim] = 1;
        let args = vec![t(x), ints(&[dim as i64]), s(true)];
        self.call(op, args, m.dtype, &m.sizes)
    }

    /// A view, with the strides that the operator gives.
    pub(super) fn view(
        &mut self,
        op: &str,
        args: Vec<Arg<ValueRef>>,
        sizes: &[i64],
        strides: &[i64],
    ) -> ValueRef {
        let x = args[0].as_tensor().copied().expect("a tensor first");
        let mut meta = self.meta(x);
        meta.sizes = sizes.into();
        meta.strides = strides.into();
        add(&mut self.g, op, args, meta)
    }

    pub(super) fn t(&mut self, x: ValueRef) -> ValueRef {
        let m = self.meta(x);
        let (sizes, strides) = ([m.sizes[1], m.sizes[0]], [m.strides[1], m.strides[0]]);
        self.view("aten::t", vec![t(x)], &sizes, &strides)
    }

    pub(super) fn reshape(&mut self, x: ValueRef, sizes: &[i64]) -> ValueRef {
        let strides = layout::contiguous_strides(sizes);
        self.view("aten::view", vec![t(x), ints(sizes)], sizes, &strides)
    }

    pub(super) fn mm(&mut self, a: ValueRef, b: ValueRef) -> ValueRef {
        let sizes = [self.meta(a).sizes[0], self.meta(b).sizes[1]];
        self.call("aten::mm", vec![t(a), t(b)], DType::F32, &sizes)
    }

    pub(super) fn softmax(&mut self, x: ValueRef) -> ValueRef {
        let dim = self.meta(x).sizes.len() - 1;
        let max = self.keep("aten::amax", x, dim);
        let shifted = self.bin("aten::sub.Tensor", x, max);
        let e = self.un("aten::exp", shifted);
        let sum = self.keep("aten::sum.dim_IntList", e, dim);
        self.bin("aten::div.Tensor", e, sum)
    }

    pub(super) fn layer_norm(&mut self, x: ValueRef, w: ValueRef, b: ValueRef) -> ValueRef {
        let dim = self.meta(x).sizes.len() - 1;
        let n = self.meta(x).sizes[dim] as f64;
        let sum = self.keep("aten::sum.dim_IntList", x, dim);
        let mean = self.num("aten::div.Tensor", sum, n);
        let centred = self.bin("aten::sub.Tensor", x, mean);
        let square = self.bin("aten::mul.Tensor", centred, centred);
        let sum = self.keep("aten::sum.dim_IntList", square, dim);
        let var = self.num("aten::div.Tensor", sum, n);
        let var = self.num("aten::add.Tensor", var, 1e-5);
        let scale = self.un("aten::rsqrt", var);
        let y = self.bin("aten::mul.Tensor", centred, scale);
        let y = self.bin("aten::mul.Tensor", y, w);
        self.bin("aten::add.Tensor", y, b)
    }

    /// `x w^T + b`.
    pub(super) fn linear(&mut self, x: ValueRef, w: ValueRef, b: ValueRef) -> ValueRef {
        let wt = self.t(w);
        let y = self.mm(x, wt);
        self.bin("aten::add.Tensor", y, b)
    }

    pub(super) fn schedule(&mut self, outputs: &[ValueRef]) -> Schedule {
        self.g.set_outputs(outputs);
        let plan = schedule(&self.g, &ScheduleOptions::default()).expect("a schedule");
        if let Err(e) = verify_schedule(&plan) {
            panic!("{e}\n{plan}");
        }
        plan
    }
}
