//! Forward mode: dual tensors, views and writes, mixed modes, `jvp`.

use super::{contains, leaf, refused, values};
use straightline::autograd::forward_ad::{DualLevel, dual_level, make_dual, unpack_dual};
use straightline::autograd::{
    AutogradError, Context, Function, GradOptions, VmapRule, grad_with, inference_mode, no_grad,
};
use straightline::func::{self, JvpOptions, grad, jacfwd, jacrev, jvp, jvp_with, linearize, vmap};
use straightline::ops::aten;
use straightline::{Compiled, ErrorKind, Result, Scalar, Tensor, assert_close, tensor};

fn t(v: &[f32]) -> Tensor {
    Tensor::from_vec(v.to_vec(), v.len() as i64).unwrap()
}

fn dual(p: &[f32], v: &[f32]) -> Tensor {
    make_dual(t(p), t(v)).unwrap()
}

fn tangent(x: &Tensor) -> Option<Vec<f32>> {
    unpack_dual(x).unwrap().tangent.map(|t| values(&t))
}

#[track_caller]
fn near(a: &[f32], b: &[f32]) {
    assert_close(&t(a), &t(b)).unwrap();
}

#[test]
fn f1_a_sum_of_functions() -> Result<()> {
    dual_level(|| {
        let d = dual(&[1.0, 2.0], &[10.0, 20.0]);
        let y = d.mul(&d)?.add(d.sin()?)?;
        near(&tangent(&y).unwrap(), &[25.403, 71.6771]);
        Ok(())
    })
}

#[test]
fn f2_a_write_through_a_view() -> Result<()> {
    dual_level(|| {
        let b = Tensor::zeros(4)?;
        let before = b.i(2..)?;
        b.i(1..3)?.copy_(&dual(&[1.0, 2.0], &[10.0, 20.0]))?;
        assert_eq!(tangent(&b).unwrap(), [0.0, 10.0, 20.0, 0.0]);
        // a view that was there before finds it
        assert_eq!(tangent(&before).unwrap(), [20.0, 0.0]);
        b.mul_(2)?;
        assert_eq!(tangent(&before).unwrap(), [40.0, 0.0]);
        Ok(())
    })
}

#[test]
fn f3_forward_over_reverse() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    dual_level(|| {
        let d = make_dual(&x, t(&[1.0, 0.0]))?;
        let y = d.pow(3)?.sum()?;
        let options = GradOptions { create_graph: true, ..GradOptions::default() };
        let g = grad_with(&[y], std::slice::from_ref(&x), &options)?.remove(0).unwrap();
        assert_eq!(values(&g), [3.0, 12.0]);
        assert_eq!(tangent(&g).unwrap(), [6.0, 0.0]);
        // a result that its node has saved
        let y = d.exp()?.sum()?;
        let g = grad_with(&[y], std::slice::from_ref(&x), &GradOptions::default())?.remove(0);
        near(&tangent(&g.unwrap()).unwrap(), &[1f32.exp(), 0.0]);
        Ok(())
    })
}

#[test]
fn f4_an_operator_without_a_forward_formula() -> Result<()> {
    dual_level(|| {
        let d = make_dual(Tensor::ones([2, 3])?, Tensor::ones([2, 3])?)?;
        let error = aten::_cdist_forward(&d, &Tensor::zeros([4, 3])?, 2.0, None).unwrap_err();
        assert_eq!(error.python_class(), "NotImplementedError");
        contains(
            &error.to_string(),
            "Trying to use forward AD with _cdist_forward that does not support it because it has not been implemented yet.",
        );
        assert!(matches!(error.kind(), ErrorKind::Autograd(e)
            if matches!(**e, AutogradError::ForwardNotImplemented { .. })));
        Ok(())
    })
}

#[test]
fn what_a_dual_tensor_is() -> Result<()> {
    let (p, v) = (t(&[1.0, 2.0]), t(&[3.0, 4.0]));
    let text = refused(make_dual(&p, &v));
    contains(
        &text,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.",
    );
    let kept = dual_level(|| {
        contains(
            &refused(DualLevel::enter()),
            "Nested forward mode AD is not supported at the moment",
        );
        let d = make_dual(&p, &v)?;
        assert!(d.base().is_some_and(|b| b.is_same(&p)) && d.shares_storage_with(&p));
        assert!(unpack_dual(&d)?.tangent.unwrap().is_same(&v));
        assert!(tangent(&p).is_none());
        contains(
            &refused(make_dual(&d, &v)),
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported.",
        );
        contains(
            &refused(make_dual(&p, t(&[1.0, 2.0, 3.0]))),
            "Tensor is of size [2] while the given forward gradient is of size [3].",
        );
        let error = make_dual(tensor([1, 2])?, &v).unwrap_err();
        assert_eq!(error.python_class(), "ValueError");
        contains(
            &error.to_string(),
            "Expected primal to be floating point or complex, but got: torch.int64",
        );
        // another dtype is accepted, and another layout copied
        let wide = make_dual(&p, v.to(straightline::DType::F64)?)?;
        assert!(tangent_dtype(&wide) == straightline::DType::F64);
        let square = Tensor::ones([2, 2])?;
        let turned = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2])?.t()?;
        let d2 = make_dual(&square, &turned)?;
        let kept = unpack_dual(&d2)?.tangent.unwrap();
        assert_eq!((kept.strides(), values(&kept)), (&[2, 1][..], vec![1.0, 3.0, 2.0, 4.0]));
        let y = d.mul(2)?;
        let halves = unpack_dual(&y)?;
        assert!(tangent(&halves.primal).is_none() && tangent(&halves.primal.mul(2)?).is_none());
        assert!(tangent(&y.detach()?).is_none());
        Ok(y)
    })?;
    assert!(tangent(&kept).is_none());
    // and a new level begins without them
    dual_level(|| {
        assert!(tangent(&kept).is_none() && tangent(&kept.mul(2)?).is_none());
        Ok(())
    })
}

fn tangent_dtype(x: &Tensor) -> straightline::DType {
    unpack_dual(x).unwrap().tangent.unwrap().dtype()
}

#[test]
fn what_is_written() -> Result<()> {
    dual_level(|| {
        let d = dual(&[1.0, 2.0], &[10.0, 20.0]);
        // a plain tensor becomes dual
        let plain = t(&[1.0, 1.0]);
        plain.mul_(&d)?;
        assert_eq!(tangent(&plain).unwrap(), [10.0, 20.0]);
        // the tangent is written in place, and that of the operand is not
        let before = unpack_dual(&plain)?.tangent.unwrap();
        plain.mul_(3)?;
        assert_eq!(values(&before), [30.0, 60.0]);
        assert_eq!(tangent(&d).unwrap(), [10.0, 20.0]);
        let y = d.add(1)?;
        y.mul_(5)?;
        assert_eq!(
            (tangent(&y).unwrap(), tangent(&d).unwrap()),
            (vec![50.0, 100.0], vec![10.0, 20.0])
        );
        // a formula that reads what was written over
        let z = d.mul(1)?;
        z.pow_(2)?;
        assert_eq!(tangent(&z).unwrap(), [20.0, 80.0]);
        z.zero_()?;
        assert_eq!(tangent(&z).unwrap(), [0.0, 0.0]);
        let z = d.mul(1)?;
        z.i(..1)?.exp_()?;
        near(&tangent(&z).unwrap(), &[10.0 * 1f32.exp(), 20.0]);
        z.copy_(&t(&[1.0, 1.0]))?;
        assert_eq!(tangent(&z).unwrap(), [0.0, 0.0]);
        let z = d.mul(1)?.view([1, 2])?;
        aten::t_(&z)?;
        assert_eq!((z.sizes(), tangent(&z).unwrap()), (&[2, 1][..], vec![10.0, 20.0]));
        let out = Tensor::zeros(2)?;
        let error = aten::add_out(&d, &d, Scalar::Int(1), &out).unwrap_err();
        contains(&error.to_string(), "does not support it because it is an out= function");
        Ok(())
    })
}

#[test]
fn lists_and_missing_tangents() -> Result<()> {
    dual_level(|| {
        let (d, plain) = (dual(&[1.0, 2.0], &[10.0, 20.0]), t(&[5.0, 6.0]));
        let s = Tensor::stack([&d, &plain], 0)?;
        assert_eq!(tangent(&s).unwrap(), [10.0, 20.0, 0.0, 0.0]);
        assert_eq!(tangent(&plain.mul(&d)?).unwrap(), [50.0, 120.0]);
        let parts = s.unbind(0)?;
        assert_eq!(tangent(&parts[1]).unwrap(), [0.0, 0.0]);
        assert_eq!(tangent(&plain.add(&s)?).unwrap(), [10.0, 20.0, 0.0, 0.0]);
        let z = aten::complex(&d, &plain)?;
        let z = aten::real(&aten::mul_tensor(&z, &z)?)?;
        assert_eq!(tangent(&z).unwrap(), [20.0, 80.0]);
        Ok(())
    })
}

#[test]
fn modes() -> Result<()> {
    dual_level(|| {
        let d = dual(&[1.0, 2.0], &[10.0, 20.0]);
        assert_eq!(tangent(&no_grad(|| d.mul(&d))?).unwrap(), [20.0, 80.0]);
        assert!(tangent(&inference_mode(|| d.mul(&d))?).is_none());
        // tangents record graphs
        let v = leaf(&[1.0, 1.0]);
        let p = leaf(&[1.0, 2.0]);
        let y = make_dual(&p, &v)?.pow(3)?;
        let slope = unpack_dual(&y)?.tangent.unwrap();
        assert!(slope.requires_grad());
        slope.sum()?.backward()?;
        assert_eq!(values(&v.grad().unwrap()), [3.0, 12.0]);
        assert_eq!(values(&p.grad().unwrap()), [6.0, 12.0]);
        // of an operator without a forward formula as well
        let v = leaf(&[1.0, 1.0]);
        let p = leaf(&[1.0, 2.0]);
        let y = aten::logcumsumexp(&make_dual(&p, &v)?, 0)?;
        let slope = unpack_dual(&y)?.tangent.unwrap();
        slope.sum()?.backward()?;
        assert!(v.grad().is_some() && p.grad().is_some());
        Ok(())
    })
}

/// A cube with the rules given.
struct Cube {
    pushes: bool,
}

impl Function for Cube {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0]]);
        Ok(vec![inputs[0].pow(3)?])
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &context.saved()?[0];
        grads.iter().map(|g| g.as_ref().map(|g| g.mul(x)?.mul(x)?.mul(3)).transpose()).collect()
    }

    fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        match self.pushes {
            true => self.backward(context, tangents),
            false => Err(AutogradError::NoJvp.into()),
        }
    }

    fn vmap_rule(&self) -> VmapRule {
        VmapRule::Generated
    }
}

#[test]
fn functions_of_the_users() -> Result<()> {
    let f = |x: &Tensor| Ok(Cube { pushes: true }.apply(std::slice::from_ref(x))?.remove(0));
    let (x, v) = (t(&[1.0, 2.0]), t(&[1.0, 10.0]));
    assert_eq!(values(&jvp(f, &x, &v)?.1), [3.0, 120.0]);
    // below another transform, and above
    let twice = |x: &Tensor| Ok(jvp(f, x, &v)?.1);
    assert_eq!(values(&jvp(twice, &x, &v)?.1), [6.0, 1200.0]);
    let g = grad(|x: &Tensor| jvp(f, x, &v)?.1.sum())(&x)?;
    assert_eq!(values(&g), [6.0, 120.0]);
    let rows = vmap(|v: &Tensor| Ok(jvp(f, &x, v)?.1))(&Tensor::eye(2)?)?;
    assert_eq!(values(&rows), [3.0, 0.0, 0.0, 12.0]);
    let batch = jvp(|x: &Tensor| vmap(f)(x), &x, &v)?.1;
    assert_eq!(values(&batch), [3.0, 120.0]);
    let without = |x: &Tensor| Ok(Cube { pushes: false }.apply(std::slice::from_ref(x))?.remove(0));
    let error = jvp(without, &x, &v).unwrap_err();
    assert_eq!(error.python_class(), "NotImplementedError");
    contains(
        &error.to_string(),
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD.",
    );
    Ok(())
}

#[test]
fn transforms_in_any_order() -> Result<()> {
    let f = |x: &Tensor| x.sin()?.mul(x)?.sum();
    let x = Tensor::from_vec(vec![0.3f64, 1.1, -0.7], 3)?;
    let v = Tensor::from_vec(vec![1.0f64, -2.0, 0.5], 3)?;
    let want = jacrev(jacrev(f))(&x)?;
    for h in [jacfwd(jacrev(f))(&x)?, jacrev(jacfwd(f))(&x)?, jacfwd(jacfwd(f))(&x)?] {
        assert_close(&h, &want)?;
    }
    let hv = want.mv(&v)?;
    assert_close(&jvp(grad(f), &x, &v)?.1, &hv)?;
    assert_close(&grad(|x: &Tensor| Ok(jvp(f, x, &v)?.1))(&x)?, &hv)?;
    // a dual tensor from outside is a variable of the outer level alone
    let outer = dual_level(|| {
        let d = make_dual(&x, &v)?;
        let g = grad(f)(&d)?;
        assert_close(&unpack_dual(&g)?.tangent.unwrap(), &hv)?;
        let (_, push) = jvp(|y: &Tensor| y.mul(&d), &x, &Tensor::ones_like(&x)?)?;
        assert_close(&push, &x)?;
        Ok(unpack_dual(&push)?.tangent.unwrap())
    })?;
    assert_close(&outer, &v)?;
    // dual tensors in a function that is batched, and in one that is differentiated
    let rows = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2])?;
    let slopes = vmap(|r: &Tensor| {
        dual_level(|| {
            let d = make_dual(r, Tensor::ones(2)?)?;
            Ok(unpack_dual(d.mul(&d)?)?.tangent.unwrap())
        })
    })(&rows)?;
    assert_eq!(values(&slopes), [2.0, 4.0, 6.0, 8.0]);
    let slopes = vmap(|v: &Tensor| {
        dual_level(|| {
            let d = make_dual(t(&[1.0, 2.0]), v)?;
            Ok(unpack_dual(d.mul(&d)?)?.tangent.unwrap())
        })
    })(&rows)?;
    assert_eq!(values(&slopes), [2.0, 8.0, 6.0, 16.0]);
    let g = grad(|x: &Tensor| {
        dual_level(|| {
            let d = make_dual(x, Tensor::ones(2)?)?;
            unpack_dual(d.pow(3)?)?.tangent.unwrap().sum()
        })
    })(&t(&[1.0, 2.0]))?;
    assert_eq!(values(&g), [6.0, 12.0]);
    Ok(())
}

#[test]
fn jvp_and_its_options() -> Result<()> {
    let (x, v) = (t(&[1.0, 2.0]), t(&[1.0, 10.0]));
    let seen = std::cell::RefCell::new(Vec::new());
    let f = |x: &Tensor| {
        *seen.borrow_mut() = func::levels();
        let text = refused(DualLevel::enter());
        contains(&text, "Nested forward mode AD");
        Ok((x.mul(x)?, tensor([1, 2])?, x.clone()))
    };
    let ((y, n, same), (dy, dn, dsame)) = jvp(f, &x, &v)?;
    assert_eq!(*seen.borrow(), [("Jvp", 1)]);
    assert_eq!((values(&y), values(&dy)), (vec![1.0, 4.0], vec![2.0, 40.0]));
    assert_eq!((n.dtype(), dn.dtype()), (straightline::DType::I64, straightline::DType::I64));
    assert_eq!((values(&same), values(&dsame)), (vec![1.0, 2.0], vec![1.0, 10.0]));
    let constant = |_: &Tensor| Ok(t(&[7.0]));
    assert_eq!(values(&jvp(constant, &x, &v)?.1), [0.0]);
    let error = jvp_with(constant, &x, &v, &JvpOptions { strict: true }).unwrap_err();
    contains(
        &error.to_string(),
        "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True.",
    );
    let error = jvp(|x: &Tensor| x.mul(2), &tensor([1, 2])?, &v).unwrap_err();
    contains(&error.to_string(), "Expected primal to be floating point or complex");
    // writes of intermediate results, views among them, and none of captured tensors
    let captured = Tensor::zeros(2)?;
    let f = |x: &Tensor| {
        captured.copy_(x)?;
        Ok(captured.clone())
    };
    let error = jvp(f, &x, &v).unwrap_err();
    contains(&error.to_string(), "that would mutate a captured Tensor");
    let f = |x: &Tensor| {
        let y = x.mul(1)?;
        y.i(..1)?.mul_(&x.i(1..)?)?;
        let z = Tensor::zeros(3)?;
        z.i(1..)?.copy_(&y)?;
        Ok(z)
    };
    assert_eq!(values(&jvp(f, &x, &v)?.1), [0.0, 12.0, 10.0]);
    let (_, push) = linearize(|x: &Tensor| x.pow(3), &x)?;
    for v in [t(&[1.0, 0.0]), t(&[0.0, 1.0])] {
        assert_eq!(values(&push.call(&v)?), values(&jvp(|x: &Tensor| x.pow(3), &x, &v)?.1));
    }
    // gradients of outer leaves flow through
    let w = leaf(&[2.0, 3.0]);
    let (_, dy) = jvp(|x: &Tensor| x.mul(x)?.mul(&w), &x, &v)?;
    dy.sum()?.backward()?;
    assert_eq!(values(&w.grad().unwrap()), [2.0, 40.0]);
    Ok(())
}

#[test]
fn compiled_functions() -> Result<()> {
    let f = straightline::compile(|x: &Tensor| x.mul(x)?.sin());
    let f: Compiled<Tensor, Tensor> = f;
    let x = t(&[0.5, 1.0]);
    f.call(&x)?;
    dual_level(|| {
        let d = make_dual(&x, t(&[1.0, 1.0]))?;
        let want = tangent(&d.mul(&d)?.sin()?).unwrap();
        near(&tangent(&f.call(&d)?).unwrap(), &want);
        near(&tangent(&f.call(&d)?).unwrap(), &want);
        assert!(tangent(&f.call(&x)?).is_none());
        Ok(())
    })?;
    // dual tensors and `jvp` inside
    let inside = straightline::compile(|x: &Tensor| {
        let (_, a) = jvp(|x: &Tensor| x.mul(x)?.sin(), x, x)?;
        let b = dual_level(|| {
            let d = make_dual(x, x)?;
            Ok(unpack_dual(d.exp()?)?.tangent.unwrap())
        })?;
        a.add(b)
    });
    let inside: Compiled<Tensor, Tensor> = inside;
    for x in [t(&[0.5, 1.0]), t(&[0.25, 2.0])] {
        assert_close(&inside.call(&x)?, &inside.eager(&x)?)?;
    }
    Ok(())
}

#[test]
fn a_level_on_each_thread() -> Result<()> {
    dual_level(|| {
        let d = dual(&[1.0], &[1.0]);
        std::thread::scope(|s| {
            // another thread may have a level of its own, and carries on what it is given
            let other = s.spawn(|| {
                let y = d.mul(&d)?;
                dual_level(|| Ok(tangent(&y.mul(2)?)))
            });
            let found = other.join().map_err(|_| ()).unwrap()?;
            assert_eq!(found.unwrap(), [4.0]);
            Ok(())
        })
    })
}

#[test]
fn hooks_of_saved_tensors_keep_tangents() -> Result<()> {
    use std::sync::{Arc, Mutex};
    use straightline::autograd::saved_tensors_hooks;
    // what is differentiated, its gradient's tangent, and the tangents that the hook sees
    type Case = (fn(&Tensor) -> Result<Tensor>, [f32; 2], Vec<Vec<f32>>);
    let operand = vec![1.0, 0.5];
    let exp = vec![2.718_281_7, 3.694_528];
    let cases: [Case; 4] = [
        (|d| d.exp(), [2.718_281_7, 3.694_528], vec![exp.clone()]),
        (|d| d.mul(d), [2.0, 1.0], vec![operand.clone(), operand.clone()]),
        (|d| d.i(1..)?.mul(d.i(..1)?), [0.5, 1.0], vec![vec![0.5], vec![1.0]]),
        (|d| d.mul(1)?.exp_(), [2.718_281_7, 3.694_528], vec![exp]),
    ];
    let x = leaf(&[1.0, 2.0]);
    for (f, want, packed) in cases {
        dual_level(|| {
            let d = make_dual(&x, t(&[1.0, 0.5]))?;
            let seen = Arc::new(Mutex::new(Vec::new()));
            let sees = seen.clone();
            let pack = move |t: &Tensor| {
                if let Some(tangent) = tangent(t) {
                    sees.lock().unwrap().push(tangent);
                }
                t.detach()?.copied()
            };
            let y = saved_tensors_hooks(pack, |t| Ok(t.clone()), || f(&d)?.sum())?;
            let g = grad_with(&[y], std::slice::from_ref(&x), &GradOptions::default())?.remove(0);
            near(&tangent(&g.unwrap()).expect("the gradient has a tangent"), &want);
            let seen = seen.lock().unwrap().clone();
            assert_eq!(seen.len(), packed.len(), "{seen:?}");
            seen.iter().zip(&packed).for_each(|(a, b)| near(a, b));
            Ok(())
        })?;
    }
    Ok(())
}

/// Numbers of PyTorch, which are those of Jacobians of gradients.
#[test]
fn second_derivatives_through_writes_to_views() {
    use straightline::func::{grad, hessian, jacrev};
    type Of = fn(&Tensor) -> Result<Tensor>;
    let all: [(Of, f64); 2] = [
        (
            |a| {
                let y = a.mul(1.5)?;
                let v = y.squeeze()?;
                v.tril_()?;
                Tensor::einsum("ij,kj->ik", &[v, y])?.sum()
            },
            22.5,
        ),
        (
            |a| {
                let y = a.cumprod(0)?.copied()?;
                y.view([-1])?.sin_()?;
                y.mul(&y)?.sum()
            },
            0.0,
        ),
    ];
    let a = Tensor::from_slice(&[0.3f64, -0.5, 0.2, 0.4], [2, 2]).unwrap();
    for (f, want) in all {
        let sum = |t: Tensor| t.sum().unwrap().item::<f64>().unwrap();
        let second = sum(jacrev(grad(f))(&a).unwrap());
        assert!(want == 0.0 || (second - want).abs() < 1e-9, "{second}");
        assert!((sum(hessian(f)(&a).unwrap()) - second).abs() < 1e-9);
    }
}
