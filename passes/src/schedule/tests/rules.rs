//! The schedule verifier finds what is wrong; graphs that make no sense are errors.

use super::build::{B, ints, s, t};
use crate::ir::TensorMeta;
use crate::ir::graph::Constant;
use crate::ir::{DType, Dims};
use crate::schedule::loops::*;
use crate::schedule::tests::build::add;
use crate::schedule::{ScheduleError, ScheduleOptions, schedule, verify_schedule};

fn softmax_then_product() -> Schedule {
    let mut b = B::default();
    let (x, w) = (b.input(&[4, 16]), b.param(&[16, 16]));
    let h = b.mm(x, w);
    let p = b.softmax(h);
    let y = b.mm(p, w);
    b.schedule(&[y])
}

/// Breaks a kernel of a good schedule and returns what the verifier says.
fn broken(f: impl FnOnce(&mut Kernel)) -> String {
    let mut plan = softmax_then_product();
    for step in &mut plan.steps {
        if let Step::Kernel(k) = step {
            f(k);
            break;
        }
    }
    verify_schedule(&plan).expect_err("broken").what
}

#[test]
fn broken_kernels_are_found() {
    let what = broken(|k| k.grid[0].extent = 5);
    assert!(what.contains("outside of 64 elements"), "{what}");
    let what = broken(|k| k.stages[1].body[0].dtype = DType::F64);
    assert!(what.contains("memory holds f32"), "{what}");
    let what = broken(|k| k.scratch[0].len = 8);
    assert!(what.contains("outside of 8 elements"), "{what}");
    let what = broken(|k| k.stages.swap(0, 2));
    assert!(what.contains("is not earlier"), "{what}");
    let what = broken(|k| k.stages[0].body.swap(0, 1));
    assert!(what.contains("before it is made"), "{what}");
}

#[test]
fn overlapping_ranges_are_found() {
    let broken = |kind: BufferKind| {
        let mut plan = softmax_then_product();
        let temporary = |b: &&mut Buffer| {
            matches!(b.kind, BufferKind::Arena { .. } | BufferKind::Within { .. })
        };
        plan.buffers.iter_mut().filter(temporary).for_each(|b| b.kind = kind.clone());
        verify_schedule(&plan).expect_err("broken").what
    };
    for kind in [BufferKind::Arena { offset: 0 }, BufferKind::Within { output: 0, offset: 0 }] {
        let what = broken(kind);
        assert!(what.contains("is not free"), "{what}");
    }
}

#[test]
fn wrong_shapes_name_the_node() {
    let mut b = B::default();
    let x = b.input(&[4, 3]);
    let y = b.call("aten::sum.dim_IntList", vec![t(x), ints(&[0]), s(false)], DType::F32, &[4]);
    b.g.set_outputs(&[y]);
    let e = schedule(&b.g, &ScheduleOptions::default()).expect_err("wrong sizes");
    let ScheduleError::Shape { node, expected, found } = e else {
        panic!("{e}");
    };
    assert!(node.contains("aten::sum.dim_IntList"));
    assert_eq!((expected, found), (vec![3], vec![4]));
}

/// Invalid arguments in a hand-written graph are left to the kernel, which refuses them.
#[test]
fn padding_that_does_not_fit_is_not_lowered() {
    let pads: [(&[i64], &[i64], &[i64]); 5] = [
        (&[334], &[9, 1], &[3, 6]),
        (&[4], &[1, 1], &[5]),
        (&[4, 4], &[1, 1], &[3, 6]),
        (&[4], &[i64::MIN, 1], &[5]),
        (&[4], &[i64::MAX, 1], &[5]),
    ];
    for (sizes, pad, of) in pads {
        let mut b = B::default();
        let x = b.input(sizes);
        let args = vec![t(x), ints(pad), s(2.5)];
        let y = b.call("aten::constant_pad_nd", args, DType::F32, of);
        let plan = b.schedule(&[y]);
        assert_eq!((plan.kernels().count(), plan.steps.len()), (0, 1), "{pad:?}");
    }
}

#[test]
fn constants_of_the_wrong_length_are_errors() {
    let mut b = B::default();
    let meta = TensorMeta::contiguous(DType::F32, &[2]);
    let c = b.g.constant(Constant::Elements(vec![1.0.into(); 3]), meta);
    b.g.set_outputs(&[c]);
    let e = schedule(&b.g, &ScheduleOptions::default()).expect_err("too long");
    assert!(matches!(e, ScheduleError::Constant { elements: 3, .. }), "{e}");
}

#[test]
fn results_may_be_views_of_inputs_and_of_each_other() {
    let mut b = B::default();
    let x = b.input(&[4, 6]);
    let y = b.un("aten::exp", x);
    let (xt, yt) = (b.t(x), b.t(y));
    let plan = b.schedule(&[xt, yt, y, y]);
    assert_eq!(plan.kernels().count(), 1);
    let of: Vec<Option<ViewSource>> = plan
        .outputs
        .iter()
        .map(|o| match o {
            OutputBinding::View { of, .. } => Some(*of),
            OutputBinding::Fresh { .. } => None,
        })
        .collect();
    let y = Some(ViewSource::Output(0));
    assert_eq!(of, [Some(ViewSource::Input(0)), y, None, y]);
}

/// The caller of a plan allocates a result by its sizes and strides, so the buffer must not be
/// longer.
#[test]
fn a_result_without_elements_has_no_bytes_whatever_its_strides() {
    let geometries: [(&[i64], &[i64]); 4] = [
        (&[64, 0, 3], &[2, 0, 0]),
        (&[4, 0, 1, 3], &[3, 0, 1, 0]),
        (&[2, 1, 0], &[0, 1, 0]),
        (&[4, 3], &[0, 1]),
    ];
    for (sizes, strides) in geometries {
        let mut b = B::default();
        let meta = TensorMeta {
            strides: Dims::from_slice(strides),
            ..TensorMeta::contiguous(DType::F32, sizes)
        };
        let x = b.g.input("x", meta.clone());
        let y = add(&mut b.g, "aten::exp", vec![t(x)], meta.clone());
        let plan = b.schedule(&[y]);
        for buffer in &plan.buffers {
            let bytes = buffer.len * buffer.dtype.size();
            assert!(bytes <= meta.storage_bytes(), "{sizes:?} {strides:?}: {bytes} bytes");
        }
    }
}

#[test]
fn nothing_to_compute_is_no_step() {
    let mut b = B::default();
    let x = b.input(&[0, 6]);
    let y = b.un("aten::exp", x);
    let plan = b.schedule(&[y]);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.buffers.len(), 1);
}
