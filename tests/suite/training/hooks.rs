//! Hooks of layers: what they see, in which order, and what they change.

use std::sync::{Arc, Mutex};
use straightline::nn::{Hooked, Layer, Linear, Module, Relu, Sequential};
use straightline::{Result, Tensor, compile, tensor};

type Log = Arc<Mutex<Vec<String>>>;

fn numbers(t: Option<&Tensor>) -> Result<String> {
    match t {
        Some(t) => Ok(format!("{:?}", t.detach()?.flatten()?.to_vec::<f32>()?)),
        None => Ok("none".into()),
    }
}

fn note(log: &Log, text: String) {
    log.lock().unwrap().push(text);
}

/// x to 2 x, with all hooks.
fn hooked(log: &Log) -> Hooked<Linear> {
    let mut layer = Linear::without_bias(1, 1).unwrap();
    layer.weight = straightline::nn::Parameter::new(&tensor([[2.0]]).unwrap()).unwrap();
    let layer = Hooked::new(layer);
    for i in 0..2 {
        let mine = log.clone();
        layer.register_forward_pre_hook(move |x| {
            note(&mine, format!("before {i} {}", numbers(Some(x))?));
            x.add(1.0).map(Some)
        });
        let mine = log.clone();
        layer.register_forward_hook(move |x, y| {
            note(&mine, format!("after {i} {} {}", numbers(Some(x))?, numbers(Some(y))?));
            if i == 0 { y.mul(10.0).map(Some) } else { Ok(None) }
        });
        let mine = log.clone();
        layer.register_full_backward_pre_hook(move |y| {
            note(&mine, format!("back before {i} {}", numbers(y)?));
            y.map(|g| g.mul(3.0)).transpose()
        });
        let mine = log.clone();
        layer.register_full_backward_hook(move |x, y| {
            note(&mine, format!("back {i} {} {}", numbers(x)?, numbers(y)?));
            x.map(|g| g.add(0.5)).transpose()
        });
    }
    layer
}

/// What PyTorch's modules do with the same hooks.
#[test]
fn hooks_run_in_order_and_replace_what_they_see() {
    let log = Log::default();
    let layer = hooked(&log);
    let x = tensor([[1.0]]).unwrap().requires_grad_(true).unwrap();
    let y = layer.forward(&x).unwrap();
    assert_eq!(y.detach().unwrap().item::<f32>().unwrap(), 60.0);
    y.sum().unwrap().backward().unwrap();
    let expected = [
        "before 0 [1.0]",
        "before 1 [2.0]",
        "after 0 [3.0] [6.0]",
        "after 1 [3.0] [60.0]",
        "back before 0 [1.0]",
        "back before 1 [3.0]",
        "back 0 [180.0] [9.0]",
        "back 1 [180.5] [9.0]",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(x.grad().unwrap().item::<f32>().unwrap(), 181.0);
    assert_eq!(layer.weight.grad().unwrap().item::<f32>().unwrap(), 270.0);
}

#[test]
fn an_input_that_wants_no_gradient_has_none() {
    let log = Log::default();
    let layer = Hooked::new(Linear::new(2, 3).unwrap());
    let mine = log.clone();
    layer.register_full_backward_hook(move |x, y| {
        note(&mine, format!("{} {}", numbers(x)?, numbers(y)?));
        Ok(None)
    });
    let net = Sequential::new().add(layer).add(Relu);
    assert_eq!(net.named_parameters()[1].0, "0.bias");
    let y = net.forward(&tensor([[1.0, 2.0]]).unwrap()).unwrap();
    let positive = y.detach().unwrap().gt(0).unwrap().to_vec2::<bool>().unwrap();
    y.sum().unwrap().backward().unwrap();
    let grads: Vec<f32> = positive[0].iter().map(|p| f32::from(u8::from(*p))).collect();
    assert_eq!(*log.lock().unwrap(), [format!("none {grads:?}")]);
    // something to replace a gradient that there is not
    let layer = Hooked::new(Linear::new(2, 3).unwrap());
    layer.register_full_backward_hook(|_, y| y.map(|g| g.mul(2.0)).transpose());
    let y = layer.forward(&tensor([[1.0, 2.0]]).unwrap()).unwrap();
    assert!(y.sum().unwrap().backward().unwrap_err().to_string().contains("must return nothing"));
}

#[test]
fn removed_hooks_do_not_run_and_clones_share_them() {
    let layer = Hooked::new(Relu);
    let same = layer.clone();
    let twice = layer.register_forward_hook(|_, y| y.mul(2.0).map(Some));
    let x = tensor([1.0]).unwrap();
    assert_eq!(same.forward(&x).unwrap().item::<f32>().unwrap(), 2.0);
    twice.remove();
    assert_eq!(same.forward(&x).unwrap().item::<f32>().unwrap(), 1.0);
}

#[test]
fn a_compiled_function_has_the_hooks_of_now() {
    let layer = Hooked::new(Relu);
    let inside = layer.clone();
    let f = compile(move |x: &Tensor| {
        let y = inside.forward(x)?;
        straightline::autograd::grad(&[y.sum()?], &[x.clone()]).map(|mut g| (y, g.remove(0)))
    });
    let x = tensor([1.0, -1.0]).unwrap().requires_grad_(true).unwrap();
    let run = || {
        let (y, g) = f.call(&x).unwrap();
        (y.detach().unwrap().to_vec::<f32>().unwrap(), g.to_vec::<f32>().unwrap())
    };
    assert_eq!(run(), (vec![1.0, 0.0], vec![1.0, 0.0]));
    let forward = layer.register_forward_hook(|_, y| y.mul(2.0).map(Some));
    assert_eq!(run(), (vec![2.0, 0.0], vec![2.0, 0.0]));
    let backward = layer
        .register_full_backward_hook(|x, y| x.zip(y).map(|(x, y)| x.add(y)?.neg()).transpose());
    for _ in 0..2 {
        assert_eq!(run(), (vec![2.0, 0.0], vec![-3.0, -1.0]));
    }
    forward.remove();
    backward.remove();
    assert_eq!(run(), (vec![1.0, 0.0], vec![1.0, 0.0]));
}
