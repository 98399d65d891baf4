//! Views and writes.

use super::{contains, grad, leaf, node, refused, values};
use straightline::autograd::{GradOptions, backward, grad_with, no_grad};
use straightline::{Tensor, tensor};

fn ones(n: i64) -> Tensor {
    Tensor::ones(n).unwrap()
}

#[test]
fn v1_v2_a_saved_tensor_that_was_written() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(2).unwrap();
    let w = y.sin().unwrap();
    y.add_(1).unwrap();
    let text = refused(w.sum().unwrap().backward());
    contains(
        &text,
        "one of the variables needed for gradient computation has been modified by an inplace operation: \
         [torch.FloatTensor [2]], which is output 0 of Add, is at version 1; expected version 0 instead.",
    );
    contains(&text, "`aten::sin` at tests/suite/autograd/views.rs");
    contains(&text, "written by `aten::add_.Scalar` at tests/suite/autograd/views.rs");
    let y = x.exp().unwrap();
    y.add_(1).unwrap();
    contains(&refused(y.sum().unwrap().backward()), "which is output 0 of Exp");
}

#[test]
fn v3_a_write_through_detach_is_seen() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.exp().unwrap();
    y.detach().unwrap().mul_(1).unwrap();
    contains(&refused(y.sum().unwrap().backward()), "is at version 1; expected version 0");
}

#[test]
fn v4_what_is_not_needed_may_be_written() {
    let x = leaf(&[0.0, 0.0]);
    let y = x.mul(2).unwrap();
    let z = y.exp().unwrap();
    y.add_(1).unwrap();
    z.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [2.0, 2.0]);
}

#[test]
fn v5_v6_leaves() {
    let x = leaf(&[1.0, 2.0]);
    contains(
        &refused(x.add_(1)),
        "a leaf Variable that requires grad is being used in an in-place operation.",
    );
    contains(
        &refused(x.i(0).unwrap().fill_(1)),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    );
    let before = x.version();
    no_grad(|| x.add_(1)).unwrap();
    assert_eq!(x.version(), before + 1);
    assert_eq!(values(&x), [2.0, 3.0]);
}

#[test]
fn v7_a_write_through_a_view() {
    let a = leaf(&[1.0; 4]);
    let b = a.mul(1).unwrap();
    b.i(1..3).unwrap().mul_(5).unwrap();
    b.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&a), [1.0, 5.0, 5.0, 1.0]);
    assert_eq!(node(&b), "torch::autograd::CopySlices");
}

#[test]
fn v8_overlapping_views() {
    let a = leaf(&[1.0; 4]);
    let b = a.mul(1).unwrap();
    let (v, w) = (b.i(1..3).unwrap(), b.i(2..4).unwrap());
    v.mul_(5).unwrap();
    w.mul_(3).unwrap();
    b.sum().unwrap().add(&v.sum().unwrap()).unwrap().backward().unwrap();
    assert_eq!(grad(&a), [1.0, 10.0, 30.0, 3.0]);
    assert_eq!(node(&v), "AsStridedBackward0");
}

#[test]
fn v9_a_part_of_plain_memory_is_set() {
    let b = Tensor::zeros(4).unwrap();
    let r = leaf(&[7.0, 8.0]);
    b.i_put_(1..3, &r.mul(1).unwrap()).unwrap();
    assert!(b.requires_grad());
    b.mul(&Tensor::arange(4).unwrap()).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&r), [1.0, 2.0]);
}

#[test]
fn v10_one_of_several_views() {
    let x = leaf(&[1.0; 4]).mul(1).unwrap();
    let parts = x.split(2, 0).unwrap();
    let text = refused(parts[0].add_(1));
    contains(
        &text,
        "Output 0 of Split is a view and is being modified inplace. This view is the output of a function that returns multiple views.",
    );
    // without a gradient there is nothing to check
    ones(4).split(2, 0).unwrap()[0].add_(1).unwrap();
    assert!(ones(4).split(2, 0).unwrap()[0].add_(&leaf(&[1.0, 1.0])).is_err());
}

#[test]
fn v11_a_view_of_another_mode() {
    let x = leaf(&[1.0; 4]).mul(1).unwrap();
    let v = no_grad(|| x.i(..2)).unwrap();
    assert!(v.requires_grad() && v.grad_fn().is_none());
    let text = refused(v.mul_(2));
    contains(
        &text,
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
    );
}

#[test]
fn v14_elements_that_a_view_shows_twice() {
    let x = Tensor::arange(4).unwrap().to(straightline::DType::F32).unwrap();
    let x = x.requires_grad_(true).unwrap();
    let v = straightline::ops::aten::as_strided(&x, &[3, 2], &[1, 1], None).unwrap();
    let weights = Tensor::from_vec((1..7).map(|i| i as f32).collect::<Vec<_>>(), [3, 2]).unwrap();
    v.mul(&weights).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [1.0, 5.0, 9.0, 6.0]);
}

#[test]
fn v15_second_derivatives_through_a_write() {
    let (a, k) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[2.0, 3.0]));
    let b = a.mul(&a).unwrap();
    b.i(..2).unwrap().mul_(&k).unwrap();
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let inputs = [a, k];
    let first = grad_with(&[b.sum().unwrap()], &inputs, &options).unwrap();
    let first: Vec<Tensor> = first.into_iter().map(Option::unwrap).collect();
    assert_eq!((values(&first[0]), values(&first[1])), (vec![4.0, 12.0, 6.0], vec![1.0, 4.0]));
    let sum = first[0].sum().unwrap().add(&first[1].sum().unwrap()).unwrap();
    let second = grad_with(&[sum], &inputs, &GradOptions::default()).unwrap();
    let second: Vec<Vec<f32>> = second.iter().map(|g| values(g.as_ref().unwrap())).collect();
    assert_eq!(second, [vec![6.0, 10.0, 2.0], vec![2.0, 4.0]]);
}

#[test]
fn v16_a_base_that_becomes_differentiable() {
    let b = Tensor::zeros(4).unwrap();
    let v = b.i(..2).unwrap();
    assert!(!v.requires_grad());
    b.mul_(&leaf(&[1.0; 4])).unwrap();
    assert!(v.requires_grad());
    assert_eq!(node(&v), "AsStridedBackward0");
    // and calls of the view record
    assert!(v.mul(2).unwrap().requires_grad());
}

#[test]
fn v17_zeroed() {
    let x = leaf(&[1.0]).mul(1).unwrap();
    x.zero_().unwrap();
    assert!(x.requires_grad());
    assert_eq!(node(&x), "ZeroBackward0");
}

#[test]
fn a_copy_into_a_view() {
    let b = Tensor::zeros(4).unwrap();
    let r = leaf(&[1.0, 1.0]);
    b.i(1..3).unwrap().copy_(&r.mul(2).unwrap()).unwrap();
    assert_eq!(node(&b), "torch::autograd::CopySlices");
    b.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&r), [2.0, 2.0]);
}

#[test]
fn views_of_views_have_one_base() {
    let x = leaf(&[1.0; 4]).mul(1).unwrap();
    let v = x.view([2, 2]).unwrap();
    let t = v.t().unwrap();
    assert!(t.base().unwrap().is_same(&x));
    t.add_(&ones(2)).unwrap();
    assert_eq!(node(&x), "torch::autograd::CopySlices");
    assert_eq!((node(&v), node(&t)), ("AsStridedBackward0".into(), "AsStridedBackward0".into()));
}

#[test]
fn what_is_expanded_is_not_written() {
    let x = leaf(&[1.0]).mul(1).unwrap().expand([3]).unwrap();
    let error = x.add_(1).unwrap_err().to_string();
    contains(
        &error,
        "more than one element of the written-to tensor refers to a single memory location",
    );
}

#[test]
fn values_that_writes_need() {
    // the new value is kept where a formula needs that
    let x = leaf(&[0.5]);
    let y = x.mul(1).unwrap();
    y.sigmoid_().unwrap();
    backward(&[y.mul(2).unwrap().sum().unwrap()], &[], &Default::default()).unwrap();
    let s = 1.0 / (1.0 + (-0.5f32).exp());
    assert!((grad(&x)[0] - 2.0 * s * (1.0 - s)).abs() < 1e-6);
    // and may not be written again
    let y = x.mul(1).unwrap();
    y.sigmoid_().unwrap();
    y.relu_().unwrap();
    contains(&refused(y.sum().unwrap().backward()), "which is output 0 of Sigmoid");
    // the old value is kept where a formula needs it
    let t = x.mul(2).unwrap();
    t.pow_(2).unwrap();
    x.set_grad(None).unwrap();
    t.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [4.0]);
    // and its own operand may not be what is written
    let t = x.mul(2).unwrap();
    t.mul_(&t).unwrap();
    assert!(t.sum().unwrap().backward().is_err());
}

#[test]
fn detached_in_place() {
    let x = leaf(&[1.0]);
    let y = x.mul(2).unwrap();
    y.detach_().unwrap();
    assert!(!y.requires_grad() && y.is_leaf());
    contains(&refused(x.view(1).unwrap().detach_()), "Can't detach views in-place.");
    assert!(!tensor([1.0]).unwrap().requires_grad());
}

#[test]
fn shapes_that_change_in_place() {
    let x = Tensor::ones([2, 3]).unwrap().requires_grad_(true).unwrap();
    let y = x.mul(2).unwrap();
    straightline::ops::aten::t_(&y).unwrap();
    assert_eq!((node(&y).as_str(), y.sizes()), ("TBackward1", &[3, 2][..]));
    y.i(0).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [2.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    assert!(straightline::ops::aten::t_(&x).is_err());
    contains(
        &refused(straightline::ops::aten::resize_(&x, &[6], None)),
        "cannot resize variables that require grad",
    );
}

/// A fresh result is no view, whatever its kernel made it of: what writes it changes nobody else.
#[test]
fn results_of_operators_that_are_no_views_may_be_written() {
    type Fresh = fn(&Tensor) -> straightline::Result<Tensor>;
    let all: [(&str, Fresh); 7] = [
        ("stack", |x| Tensor::stack(&[x.clone(), x.clone()], 0)),
        ("stack along 1", |x| Tensor::stack(&[x.clone(), x.clone()], 1)),
        ("max_dim", |x| Ok(x.max_dim(0)?.0)),
        ("min_dim", |x| Ok(x.min_dim(1)?.0)),
        ("rot90", |x| straightline::ops::aten::rot90(x, 1, &[0, 1])),
        ("einsum", |x| Tensor::einsum("ij->ji", &[x.clone()])),
        ("square", |x| x.mul(1.5)?.square_()),
    ];
    for (name, f) in all {
        let x = || {
            let t = Tensor::from_slice(&[2f32, 1.0, 0.5, 3.0], [2, 2]).unwrap();
            t.requires_grad_(true).unwrap()
        };
        let of = |x: &Tensor, change: fn(Tensor) -> straightline::Result<Tensor>| {
            let y = change(f(&x.mul(1)?)?)?;
            y.mul(&y)?.sum()?.backward()?;
            Ok::<_, straightline::Error>(x.grad().map(|g| g.to_vec::<f32>().unwrap()))
        };
        let want = of(&x(), |y| y.mul(2)).unwrap();
        assert!(want.is_some());
        assert_eq!(of(&x(), |y| y.mul_(2)).unwrap(), want, "{name}");
        let through = |y: Tensor| y.view([-1]).and_then(|v| v.mul_(2)).map(|_| y);
        if f(&x()).unwrap().is_contiguous() {
            assert_eq!(of(&x(), through).unwrap(), want, "{name} through a view");
        }
    }
}

#[test]
fn a_sum_of_products_of_one_tensor_is_a_view_of_it() {
    let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    let x = x.requires_grad_(true).unwrap();
    let y = Tensor::einsum("ij->ji", &[x.clone()]).unwrap();
    assert!(y.base().is_some_and(|b| b.is_same(&x)));
    contains(&refused(y.mul_(2)), "a view of a leaf Variable that requires grad");
}
