//! What is computed again, hooks that are there more than once, and tensors of inference mode.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use straightline::autocast::autocast;
use straightline::autograd::{checkpoint, inference_mode, no_grad};
use straightline::func::{grad as gradient, hessian, jvp, vjp, vmap};
use straightline::nn::{Layer, Linear};
use straightline::{DType, DeviceType, ones, randn};

#[test]
fn a_checkpoint_remembers_autocast() -> Result<()> {
    let l = Linear::new(8, 4)?;
    let x = randn([2, 8])?.requires_grad_(true)?;
    let run = |checkpointed: bool| -> Result<Tensor> {
        let l = l.clone();
        let f = move |a: &[Tensor]| Ok(vec![l.forward(&a[0])?.tanh()?]);
        let y = {
            let _on = autocast(DeviceType::Cpu, None)?;
            match checkpointed {
                true => checkpoint(f, &[x.clone()])?.remove(0),
                false => f(&[x.clone()])?.remove(0),
            }
        };
        assert_eq!(y.dtype(), DType::BF16);
        x.set_grad(None)?;
        y.to_dtype(DType::F32)?.sum()?.backward()?;
        Ok(x.grad().unwrap())
    };
    assert_eq!(values(&run(true)?), values(&run(false)?));
    Ok(())
}

#[test]
fn a_checkpoint_without_autocast_stays_without() -> Result<()> {
    let l = Linear::new(8, 4)?;
    let x = randn([2, 8])?.requires_grad_(true)?;
    let f = l.clone();
    let y = checkpoint(move |a: &[Tensor]| Ok(vec![f.forward(&a[0])?.tanh()?]), &[x.clone()])?;
    let _on = autocast(DeviceType::Cpu, None)?;
    y[0].sum()?.backward()?;
    assert_eq!(x.grad().unwrap().dtype(), DType::F32);
    Ok(())
}

#[test]
fn a_checkpoint_notices_that_its_input_was_written() -> Result<()> {
    let x = ones([3])?.requires_grad_(true)?;
    let h = x.mul(2)?;
    let y = checkpoint(|x: &[Tensor]| Ok(vec![x[0].sin()?]), &[h.clone()])?[0].sum()?;
    let line = line!() - 1;
    h.add_(1)?;
    let text = refused(y.backward());
    contains(&text, "modified by an inplace operation: [torch.FloatTensor [3]]");
    contains(&text, &format!("saved by `checkpoint` at tests/suite/autograd/again.rs:{line}"));
    Ok(())
}

#[test]
fn hooks_after_accumulation_run_in_order() -> Result<()> {
    let a = ones([2])?.requires_grad_(true)?;
    let count = Arc::new(AtomicU32::new(1));
    let hook = |f: fn(u32) -> u32| {
        let count = count.clone();
        move |_: &Tensor| {
            count.store(f(count.load(Ordering::Relaxed)), Ordering::Relaxed);
            Ok(())
        }
    };
    let first = a.register_post_accumulate_grad_hook(hook(|n| n + 1))?;
    let _second = a.register_post_accumulate_grad_hook(hook(|n| n * 10))?;
    a.sum()?.backward()?;
    assert_eq!(count.load(Ordering::Relaxed), 20);
    first.remove();
    a.sum()?.backward()?;
    assert_eq!(count.load(Ordering::Relaxed), 200);
    Ok(())
}

const WORDS: &str = "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a \
                     normal tensor before doing inplace update.";

#[test]
fn inference_tensors_are_written_in_inference_mode_only() -> Result<()> {
    let normal = ones([2, 2])?;
    let (t, view) = inference_mode(|| Ok::<_, straightline::Error>((ones([2, 2])?, normal.t()?)))?;
    contains(&refused(t.add_(1)), WORDS);
    contains(&refused(t.add_(&t.clone().copied()?)), WORDS);
    contains(&refused(t.zero_()), WORDS);
    contains(&refused(t.select(0, 1)?.fill_(3.0)), WORDS);
    contains(&refused(t.copy_(&normal)), WORDS);
    contains(&refused(no_grad(|| t.mul_(2))), WORDS);
    assert_eq!(values(&t), [1.0; 4]);
    inference_mode(|| t.add_(1))?;
    assert_eq!(values(&t), [2.0; 4]);
    // memory of a normal tensor, and a copy
    no_grad(|| view.add_(1))?;
    t.copied()?.add_(1)?;
    Ok(())
}

#[test]
fn transforms_in_inference_mode_are_right() -> Result<()> {
    let x = tensor([3.0])?;
    let square = |x: &Tensor| x.mul(x)?.sum();
    let g = inference_mode(|| gradient(square)(&x))?;
    assert_eq!(values(&g), [6.0]);
    assert!(g.is_inference());
    let made_inside = inference_mode(|| gradient(square)(&tensor([3.0])?))?;
    assert_eq!(values(&made_inside), [6.0]);
    let cube = |x: &Tensor| x.mul(x)?.mul(x)?.sum();
    assert_eq!(values(&inference_mode(|| hessian(cube)(&x))?), [18.0]);
    let batch = tensor([[1.0], [2.0]])?;
    assert_eq!(values(&inference_mode(|| vmap(gradient(cube))(&batch))?), [3.0, 12.0]);
    let (_, t) = inference_mode(|| jvp(cube, &x, &ones([1])?))?;
    assert_eq!(values(&t), [27.0]);
    let pulled = inference_mode(|| vjp(cube, &x)?.1.call(&tensor(1.0)?))?;
    assert_eq!(values(&pulled), [27.0]);
    assert_eq!(values(&gradient(|x: &Tensor| inference_mode(|| square(x)))(&x)?), [0.0]);
    Ok(())
}

#[test]
fn a_backward_pass_within_a_transform_is_refused() -> Result<()> {
    let f = |x: &Tensor| {
        let y = x.mul(x)?.sum()?;
        y.backward()?;
        Ok(y)
    };
    let text = refused(gradient(f)(&tensor([3.0])?));
    contains(&text, "backward() called inside a functorch transform. This is not supported");
    Ok(())
}
