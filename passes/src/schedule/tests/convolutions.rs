//! What is folded into convolutions, and what is not.

use super::build::{B, add, ints, s, t};
use super::random::compare;
use crate::ir::graph::ValueRef;
use crate::ir::{Arg, DType, TensorMeta};
use crate::schedule::loops::{Activation, Convolution, Extern, Follow, Schedule, Step};
use crate::schedule::{ScheduleOptions, verify_schedule};

/// A convolution with 3x3 kernels that keeps the sizes.
fn conv(b: &mut B, x: ValueRef, outputs: i64) -> ValueRef {
    let sizes = b.meta(x).sizes;
    let w = b.param(&[outputs, sizes[1], 3, 3]);
    let args = vec![
        t(x),
        t(w),
        Arg::None,
        ints(&[1, 1]),
        ints(&[1, 1]),
        ints(&[1, 1]),
        s(false),
        ints(&[0, 0]),
        s(1),
    ];
    b.call("aten::convolution", args, DType::F32, &[sizes[0], outputs, sizes[2], sizes[3]])
}

/// Batch norm as the rewrites leave it, of the statistics of parameters.
fn norm(b: &mut B, x: ValueRef) -> ValueRef {
    let channels = b.meta(x).sizes[1];
    let (mean, var) = (b.param(&[channels]), b.param(&[channels]));
    let squared = b.bin("aten::mul.Tensor", var, var);
    let shifted = b.num("aten::add.Tensor", squared, 1.0);
    let scale = b.un("aten::rsqrt", shifted);
    let scaled = b.bin("aten::mul.Tensor", mean, scale);
    let shift = b.un("aten::neg", scaled);
    let [scale, shift] = [scale, shift].map(|v| b.reshape(v, &[channels, 1, 1]));
    let y = b.bin("aten::mul.Tensor", x, scale);
    b.bin("aten::add.Tensor", y, shift)
}

fn convolutions(plan: &Schedule) -> Vec<&Convolution> {
    let all = plan.steps.iter().filter_map(|s| match s {
        Step::Extern(Extern::Convolution(c)) => Some(c),
        _ => None,
    });
    all.collect()
}

fn names(c: &Convolution) -> Vec<&'static str> {
    let name = |f: &Follow<_>| match f {
        Follow::Scale(_) => "scale",
        Follow::Shift(_) => "shift",
        Follow::Add(_) => "add",
        Follow::Activation(Activation::Relu) => "relu",
        Follow::Activation(_) => "another",
    };
    c.follow.iter().map(name).collect()
}

/// The blocks of a residual network: with the input as residual, and with a convolution of it.
#[test]
fn batch_norm_residual_and_relu_are_folded() {
    for projected in [false, true] {
        let mut b = B::default();
        let x = b.input(&[2, 3, 4, 5]);
        let y = conv(&mut b, x, 3);
        let y = norm(&mut b, y);
        let y = b.un("aten::relu", y);
        let y = conv(&mut b, y, 3);
        let y = norm(&mut b, y);
        let around = match projected {
            true => {
                let around = conv(&mut b, x, 3);
                norm(&mut b, around)
            }
            false => x,
        };
        let y = b.bin("aten::add.Tensor", y, around);
        let y = b.un("aten::relu", y);
        let plan = b.schedule(&[y]);
        let all = convolutions(&plan);
        assert!(all.iter().all(|c| c.pack_weight), "{plan}");
        let mut names: Vec<_> = all.into_iter().map(names).collect();
        names.sort();
        let mut want = vec![vec!["scale", "shift", "add", "relu"], vec!["scale", "shift", "relu"]];
        if projected {
            want.insert(0, vec!["scale", "shift"]);
        }
        assert_eq!(names, want, "{plan}");
        // what is left are the scales and shifts
        for k in plan.kernels() {
            let points: i64 = k.grid.iter().map(|a| a.extent).product();
            assert!(points <= 3, "{plan}");
        }
        compare(&b.g, &plan, 1);
    }
}

#[test]
fn what_others_need_is_not_folded() {
    // the convolution itself is a result
    let mut b = B::default();
    let x = b.input(&[1, 3, 4, 4]);
    let y = conv(&mut b, x, 2);
    let z = norm(&mut b, y);
    let plan = b.schedule(&[y, z]);
    assert!(convolutions(&plan)[0].follow.is_empty(), "{plan}");
    compare(&b.g, &plan, 2);
    // something else reads it
    let mut b = B::default();
    let x = b.input(&[1, 3, 4, 4]);
    let y = conv(&mut b, x, 3);
    let z = b.un("aten::relu", y);
    let z = b.bin("aten::mul.Tensor", y, z);
    let plan = b.schedule(&[z]);
    assert!(convolutions(&plan)[0].follow.is_empty(), "{plan}");
    compare(&b.g, &plan, 3);
    // neither a number, nor an element for each row, nor a factor of full size
    for sizes in [&[1][..], &[4, 1], &[1, 3, 4, 5], &[3, 1, 1, 1]] {
        let mut b = B::default();
        let x = b.input(&[3, 3, 4, 5]);
        let y = conv(&mut b, x, 3);
        let f = b.input(sizes);
        let z = b.bin("aten::mul.Tensor", y, f);
        let plan = b.schedule(&[z]);
        assert!(convolutions(&plan)[0].follow.is_empty(), "{plan}");
        compare(&b.g, &plan, 4);
    }
    // a residual that would have to be computed first is
    let mut b = B::default();
    let x = b.input(&[1, 3, 4, 5]);
    let y = conv(&mut b, x, 3);
    let e = b.un("aten::exp", x);
    let z = b.bin("aten::add.Tensor", y, e);
    let plan = b.schedule(&[z]);
    assert!(convolutions(&plan)[0].follow.is_empty(), "{plan}");
    compare(&b.g, &plan, 5);
}

#[test]
fn other_convolutions_stay_calls() {
    let mut b = B::default();
    let meta = TensorMeta {
        strides: [60, 1, 15, 3].into_iter().collect(),
        ..TensorMeta::contiguous(DType::F32, &[1, 3, 4, 5])
    };
    let x = b.g.input("x", meta.clone());
    let w = b.param(&[3, 3, 3, 3]);
    let args = vec![
        t(x),
        t(w),
        Arg::None,
        ints(&[1, 1]),
        ints(&[1, 1]),
        ints(&[1, 1]),
        s(false),
        ints(&[0, 0]),
        s(1),
    ];
    let y = add(&mut b.g, "aten::convolution", args, meta);
    let plan = b.schedule(&[y]);
    assert!(convolutions(&plan).is_empty(), "{plan}");
    compare(&b.g, &plan, 6);
}

#[test]
fn convolutions_that_do_not_fit_are_found() {
    let plan = {
        let mut b = B::default();
        let x = b.input(&[1, 3, 4, 5]);
        let y = conv(&mut b, x, 2);
        let y = norm(&mut b, y);
        b.schedule(&[y])
    };
    let broken = |f: &dyn Fn(&mut Convolution)| {
        let mut plan = plan.clone();
        for s in &mut plan.steps {
            if let Step::Extern(Extern::Convolution(c)) = s {
                f(c);
            }
        }
        verify_schedule(&plan).expect_err("broken").what
    };
    assert!(broken(&|c| c.stride[0] = 0).contains("sizes of the convolution"));
    assert!(broken(&|c| c.padding[1] = 2).contains("sizes of the convolution"));
    assert!(broken(&|c| c.dilation[1] = i64::MAX).contains("sizes of the convolution"));
    assert!(broken(&|c| c.groups = 3).contains("sizes of the convolution"));
    assert!(broken(&|c| c.input.strides[1] = 10).contains("not dense"));
    assert!(broken(&|c| c.weight.dtype = DType::F64).contains("buffer holds f32"));
    let integers = broken(&|c| {
        for v in [&mut c.input, &mut c.weight, &mut c.out] {
            v.dtype = DType::I32;
        }
        c.follow.clear();
    });
    assert!(integers.contains("convolutions of i32 are no steps"));
    assert!(broken(&|c| c.padding.truncate(1)).contains("numbers are missing"));
    assert!(broken(&|c| c.bias = Some(c.input.clone())).contains("sizes of the bias"));
    assert!(broken(&|c| c.follow.push(Follow::Shift(c.out.clone()))).contains("what follows"));
}

/// The permission to compute with larger errors goes from the options to the step, which says so.
#[test]
fn fast_math_is_said_of_the_step() {
    let mut b = B::default();
    let x = b.input(&[1, 32, 28, 28]);
    let y = conv(&mut b, x, 32);
    let plan = b.schedule(&[y]);
    assert!(!convolutions(&plan)[0].fast_math && !plan.to_string().contains("fast math"), "{plan}");
    let options = ScheduleOptions { fast_math: true, ..ScheduleOptions::default() };
    let plan = crate::schedule::schedule(&b.g, &options).unwrap();
    assert!(convolutions(&plan)[0].fast_math && plan.to_string().contains(", fast math"), "{plan}");
}
