//! Nothing is left behind. These tests count the nodes of the process, so they run one by one in a
//! process of their own.

use std::process::Command;

/// Runs a test of this file alone, where nobody else makes nodes.
fn alone(name: &str) {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("autograd::leaks::{name}")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn nothing_is_left() {
    alone("after_each_error");
    alone("a_million_nodes");
}

#[test]
#[ignore = "run by `nothing_is_left`"]
fn after_each_error() {
    use super::leaf;
    use straightline::autograd::{live_nodes, no_grad};
    use straightline::{Error, ErrorKind, Tensor, tensor};
    // what is made once stays
    leaf(&[1.0]).mul(2).unwrap().sum().unwrap().backward().unwrap();
    let before = live_nodes();
    for _ in 0..10 {
        let x = leaf(&[1.0, 2.0]);
        let y = x.exp().unwrap();
        assert!(y.backward().is_err());
        y.add_(1).unwrap();
        assert!(y.sum().unwrap().backward().is_err());
        assert!(x.mul_(2).is_err());
        assert!(no_grad(|| x.i(..1)).unwrap().mul_(&leaf(&[1.0])).is_err());
        assert!(tensor([1.0]).unwrap().backward().is_err());
        let twice = x.mul(&x).unwrap().sum().unwrap();
        twice.backward().unwrap();
        assert!(twice.backward().is_err());
        y.register_hook(|_| Err(Error::new(ErrorKind::Value("no".into())))).unwrap();
        assert!(y.mul(2).unwrap().sum().unwrap().backward().is_err());
        // an operand that lies in what is written
        let y = x.mul(1.5).unwrap();
        y.mul_(&y).unwrap();
        assert!(y.sum().unwrap().backward().unwrap_err().to_string().contains("output 0 of Mul"));
        let y = x.mul(1.5).unwrap();
        y.i(..1).unwrap().mul_(&y).unwrap_err();
        y.i(..1).unwrap().mul_(&y.i(1..).unwrap()).unwrap();
        assert!(y.sum().unwrap().backward().is_err());
        x.mul(1.5).unwrap().square_().unwrap().sum().unwrap().backward().unwrap();
        let y = Tensor::einsum("ij->ji", &[x.mul(2).unwrap().view([1, 2]).unwrap()]).unwrap();
        y.mul_(2).unwrap().sum().unwrap().backward().unwrap();
    }
    assert_eq!(live_nodes(), before);
}

#[test]
#[ignore = "run by `nothing_is_left`"]
fn a_million_nodes() {
    use super::{grad, leaf};
    use straightline::autograd::live_nodes;
    let x = leaf(&[1.0]);
    x.mul(1).unwrap().sum().unwrap().backward().unwrap();
    x.set_grad(None).unwrap();
    let before = live_nodes();
    for backward in [false, true] {
        let mut y = x.mul(1).unwrap();
        for _ in 0..1_000_000 {
            // sin keeps its operand, which keeps its own node
            y = if backward { y.add(1).unwrap() } else { y.sin().unwrap() };
        }
        if backward {
            y.sum().unwrap().backward().unwrap();
            assert_eq!(grad(&x), [1.0]);
        }
        assert!(live_nodes() > before + 1_000_000);
        drop(y);
        assert!(live_nodes() <= before + 1);
    }
}
