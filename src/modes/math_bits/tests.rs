//! Expected values are those of PyTorch 2.15 unless a comment says otherwise.

use crate::dispatch::{DispatchKey, Library, all_operators, operator};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;

fn x() -> Tensor {
    Tensor::from_slice(&[0f32, 1.0, 2.0, 3.0], &[2, 2]).unwrap()
}

fn flat() -> Tensor {
    Tensor::from_vec([0f32, 1.0, 2.0, 3.0], 4).unwrap()
}

fn neg(t: &Tensor) -> Tensor {
    aten::_neg_view(t).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

/// Values as text, so that -0 and 0 differ.
fn text(t: &Tensor) -> String {
    format!("{:?}", values(t))
}

#[test]
fn a_negated_view_shares_memory_and_reads_negated() {
    let x = x();
    let n = neg(&x);
    assert!(n.is_neg() && n.shares_storage_with(&x) && !x.is_neg());
    assert_eq!(text(&n), "[-0.0, -1.0, -2.0, -3.0]");
    assert_eq!(n.to_string(), "tensor([[-0., -1.],\n        [-2., -3.]])");
    assert_eq!(neg(&Tensor::scalar(3.0).unwrap()).item::<f64>().unwrap(), -3.0);
    assert!(!neg(&n).is_neg());
    let ints = Tensor::from_vec([1i64, 2], 2).unwrap();
    assert_eq!(neg(&ints).to_vec::<i64>().unwrap(), [-1, -2]);
    // bool has no negation
    assert!(neg(&Tensor::from_vec([true], 1).unwrap()).to_vec::<bool>().is_err());
}

#[test]
fn views_pass_the_bit_on_and_copies_do_not() {
    let n = neg(&x());
    let views: [Tensor; 11] = [
        n.t().unwrap(),
        n.view(&[4]).unwrap(),
        n.select(0, 0).unwrap(),
        n.narrow(0, 0, 1).unwrap(),
        n.slice(0, 0, 1, 1).unwrap(),
        n.unsqueeze(0).unwrap(),
        n.squeeze_dim(0).unwrap(),
        n.detach().unwrap(),
        n.expand(&[2, 2, 2]).unwrap(),
        n.reshape(&[4]).unwrap(),
        n.contiguous().unwrap(),
    ];
    assert!(views.iter().all(Tensor::is_neg));
    assert!(n.unbind(0).unwrap().iter().all(Tensor::is_neg));
    assert!(n.split(1, 0).unwrap().iter().all(Tensor::is_neg));
    let strided = aten::as_strided(&n, &[2], &[1], None).unwrap();
    assert_eq!(text(&strided), "[-0.0, -1.0]");
    for copy in [
        n.t().unwrap().reshape(&[4]).unwrap(),
        n.t().unwrap().contiguous().unwrap(),
        n.copied().unwrap(),
        n.to_dtype(DType::F64).unwrap(),
        n.neg().unwrap(),
        aten::empty_like(&n, None, None, None, None, None).unwrap(),
        n.zeros_like().unwrap(),
    ] {
        assert!(!copy.is_neg());
    }
    assert!(n.to_dtype(DType::F32).unwrap().is_same(&n));
    assert_eq!(text(&n.copied().unwrap()), "[-0.0, -1.0, -2.0, -3.0]");
    assert_eq!(text(&n.neg().unwrap()), "[0.0, 1.0, 2.0, 3.0]");
}

#[test]
fn operators_see_the_negated_values() {
    let (x, n) = (x(), neg(&x()));
    assert_eq!(values(&n.add(1).unwrap()), [1.0, 0.0, -1.0, -2.0]);
    assert_eq!(values(&n.mm(&x).unwrap()), [-2.0, -3.0, -6.0, -11.0]);
    let cat = aten::cat(&[n.clone(), x.clone()], 0).unwrap();
    assert_eq!(values(&cat)[..4], [0.0, -1.0, -2.0, -3.0]);
    let two = Tensor::with(DType::F32).full([2, 2], 2).unwrap();
    let condition = n.ge(&neg(&two)).unwrap();
    let chosen = condition.where_cond(&n, &x).unwrap();
    assert_eq!(values(&chosen), [0.0, -1.0, -2.0, 3.0]);
    assert!(!n.resolve_neg().unwrap().is_neg());
    assert!(x.resolve_neg().unwrap().is_same(&x));
}

type InPlace = (&'static str, fn(&Tensor) -> Result<Tensor>, &'static str, &'static str);

#[test]
fn writing_keeps_the_bit_and_writes_the_negation() {
    let cases: [InPlace; 5] = [
        ("add_", |m| m.add_(1), "[1.0, 0.0, -1.0, -2.0]", "[-1.0, -0.0, 1.0, 2.0]"),
        ("neg_", |m| m.neg_(), "[0.0, 1.0, 2.0, 3.0]", "[-0.0, -1.0, -2.0, -3.0]"),
        (
            "copy_",
            |m| m.copy_(&Tensor::from_vec([1f32; 4], -1)?),
            "[1.0, 1.0, 1.0, 1.0]",
            "[-1.0, -1.0, -1.0, -1.0]",
        ),
        ("fill_", |m| m.fill_(2), "[2.0, 2.0, 2.0, 2.0]", "[-2.0, -2.0, -2.0, -2.0]"),
        ("zero_", |m| m.zero_(), "[0.0, 0.0, 0.0, 0.0]", "[-0.0, -0.0, -0.0, -0.0]"),
    ];
    for (name, f, seen, memory) in cases {
        let base = flat();
        let m = neg(&base);
        let out = f(&m).unwrap();
        assert!(out.is_same(&m) && m.is_neg(), "{name}");
        assert_eq!(text(&m), seen, "{name}");
        assert_eq!(text(&base), memory, "{name}");
    }
    let y = Tensor::from_vec([0f32; 4], -1).unwrap();
    y.copy_(&neg(&flat())).unwrap();
    assert_eq!(text(&y), "[-0.0, -1.0, -2.0, -3.0]");
    let (base, y) = (flat(), neg(&y));
    y.copy_(&neg(&base)).unwrap();
    assert!(y.is_neg());
    assert_eq!(text(&y), "[-0.0, -1.0, -2.0, -3.0]");
    // an argument that is the written tensor itself
    let base = flat();
    let m = neg(&base);
    m.add_(&m).unwrap();
    assert_eq!(values(&m), [0.0, -2.0, -4.0, -6.0]);
}

#[test]
fn memory_that_is_not_the_values_is_not_given_out() {
    let n = neg(&x());
    // past the keys that resolve: PyTorch would compute with the raw memory here
    let exp = operator("aten::exp").unwrap();
    let mut stack = vec![crate::dispatch::Value::Tensor(n.clone())];
    let e = exp.redispatch_boxed(DispatchKey::CPU.into(), &mut stack).unwrap_err();
    assert!(e.to_string().contains("negative, conjugate or zero bit"), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.safetensors");
    crate::save_safetensors(&path, [("n", &n)]).unwrap();
    let back = crate::load_safetensors(&path).unwrap();
    assert_eq!(values(&back["n"]), [0.0, -1.0, -2.0, -3.0]);
}

#[test]
fn compiled_functions_take_negated_tensors() {
    let f = crate::compile(|x: &Tensor| x.add(1));
    assert_eq!(values(&f.call(&x()).unwrap()), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(values(&f.call(&neg(&x())).unwrap()), [1.0, 0.0, -1.0, -2.0]);
    assert_eq!(f.variants(), 1);
    let inside = crate::compile(|x: &Tensor| aten::_neg_view(x)?.add(1));
    assert_eq!(values(&inside.call(&x()).unwrap()), [1.0, 0.0, -1.0, -2.0]);
    let n = neg(&x());
    let captured = crate::compile(move |x: &Tensor| x.add(&n));
    let e = captured.call(&x()).unwrap_err();
    assert!(e.to_string().contains("resolve_conj()"), "{e}");
}

#[test]
fn conjugates_of_real_tensors_are_themselves() {
    let x = x();
    assert!(x.conj().unwrap().is_same(&x) && !x.is_conj());
    assert!(x.resolve_conj().unwrap().is_same(&x));
    assert!(aten::conj_physical(&x).unwrap().is_same(&x));
    assert!(aten::conj_physical_(&x).unwrap().is_same(&x));
    let copy = aten::_conj_physical(&x).unwrap();
    assert!(!copy.shares_storage_with(&x) && values(&copy) == values(&x));
    assert!(aten::_conj(&x).is_err());
}

/// There is no complex dtype to conjugate, so the bit is set by hand, on a tensor for which it
/// changes nothing.
#[test]
fn the_conjugate_fallback_resolves_passes_on_and_keeps() {
    let base = flat();
    let c = base.with_keys(base.key_set().add(DispatchKey::Conjugate));
    assert!(c.is_conj());
    assert!(c.view(&[2, 2]).unwrap().is_conj());
    let sum = c.add(&c).unwrap();
    assert!(!sum.is_conj());
    assert_eq!(values(&sum), [0.0, 2.0, 4.0, 6.0]);
    assert!(c.add_(1).unwrap().is_same(&c) && c.is_conj());
    assert_eq!(values(&base), [1.0, 2.0, 3.0, 4.0]);
    // matrix products understand the bit
    let m = c.view(&[2, 2]).unwrap();
    assert!(m.is_conj());
    assert_eq!(values(&m.mm(&m).unwrap()), [7.0, 10.0, 15.0, 22.0]);
    assert!(!c.resolve_conj().unwrap().is_conj());
    // both bits at once
    let both = neg(&c);
    assert!(both.is_conj() && both.is_neg());
    assert_eq!(values(&both.exp().unwrap().log().unwrap()), values(&both));
}

#[test]
fn what_the_fallback_cannot_do_is_an_error() {
    let mut lib = Library::new("math_bits").unwrap();
    lib.def("mixed(Tensor(a!) x, Tensor(b) y) -> Tensor(b)").unwrap();
    lib.def("two(Tensor(a!) x, Tensor(b!) y) -> ()").unwrap();
    lib.def("list(Tensor(a!)[] x) -> ()").unwrap();
    lib.impl_at("mixed", DispatchKey::CPU, |_: &Tensor, y: &Tensor| Ok(y.clone())).unwrap();
    lib.impl_at("two", DispatchKey::CPU, |_: &Tensor, _: &Tensor| Ok(())).unwrap();
    lib.impl_at("list", DispatchKey::CPU, |_: &[Tensor]| Ok(())).unwrap();
    let call = |name: &str, args: &[&Tensor]| {
        let mut stack: Vec<_> = if name == "list" {
            vec![args.iter().map(|t| (*t).clone()).collect::<Vec<_>>().into()]
        } else {
            args.iter().map(|t| crate::dispatch::Value::from(*t)).collect()
        };
        operator(&format!("math_bits::{name}"))
            .unwrap()
            .call_boxed(&mut stack)
            .map_err(|e| e.to_string())
    };
    let (x, n) = (x(), neg(&x()));
    assert!(call("mixed", &[&x, &n]).unwrap_err().contains("makes views"));
    assert!(call("two", &[&n, &n.t().unwrap()]).unwrap_err().contains("several"));
    assert!(call("two", &[&n, &x]).is_ok());
    assert!(call("list", &[&x, &n]).unwrap_err().contains("a list"));
    assert!(call("list", &[&x, &x]).is_ok());
}

#[test]
fn operators_that_understand_the_bits_fall_through() {
    let keys = [DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor];
    let fall = |op: &str| {
        let op = operator(op).unwrap();
        keys.map(|k| op.has_kernel(k))
    };
    assert_eq!(fall("aten::t"), [true; 3]);
    assert_eq!(fall("aten::mm"), [true, false, false]);
    assert_eq!(fall("aten::neg_"), [false, true, false]);
    assert_eq!(fall("aten::zeros_like"), [false, false, true]);
    assert_eq!(fall("aten::exp"), [false; 3]);
    let count = |key| {
        let ours = all_operators();
        let ours = ours.iter().filter(|op| op.name().to_string().starts_with("aten::"));
        ours.filter(|op| op.has_kernel(key)).count()
    };
    // the numbers of such kernels in PyTorch 2.15 for our operators: 30 and 27, and those of the
    // bits themselves
    assert!(count(DispatchKey::Conjugate) >= 30 && count(DispatchKey::Conjugate) <= 88);
    assert!(count(DispatchKey::Negative) >= 27 && count(DispatchKey::Negative) <= 72);
}

mod zero {
    use super::{text, values, x};
    use crate::error::Result;
    use crate::ops::aten;
    use crate::tensor::Tensor;
    use straightline_catalog::{DType, Device};

    fn z(sizes: &[i64]) -> Tensor {
        aten::_efficientzerotensor(sizes, None, None, None, None).unwrap()
    }

    /// What comes out: a zero tensor, or values.
    type Case = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, Option<&'static str>);

    #[test]
    fn operators_give_what_pytorch_gives() {
        let cases: [Case; 32] = [
            ("z*x", |z, x| z.mul(x), None),
            ("x*z", |z, x| x.mul(z), None),
            ("z*z", |z, _| z.mul(z), None),
            ("z*2", |z, _| z.mul(2), None),
            ("z+x", |z, x| z.add(x), Some("[0.0, 1.0, 2.0, 3.0]")),
            ("x+z", |z, x| x.add(z), Some("[0.0, 1.0, 2.0, 3.0]")),
            ("x+2z", |z, x| aten::add_tensor(x, z, 2.into()), Some("[0.0, 1.0, 2.0, 3.0]")),
            ("z+2x", |z, x| aten::add_tensor(z, x, 2.into()), Some("[0.0, 2.0, 4.0, 6.0]")),
            ("z+z", |z, _| z.add(z), None),
            ("z+1", |z, _| z.add(1), Some("[1.0, 1.0, 1.0, 1.0]")),
            ("z-x", |z, x| z.sub(x), Some("[-0.0, -1.0, -2.0, -3.0]")),
            ("x-z", |z, x| x.sub(z), Some("[0.0, 1.0, 2.0, 3.0]")),
            ("z-z", |z, _| z.sub(z), None),
            ("z/x", |z, x| z.div(x), None),
            ("x/z", |z, x| x.div(z), Some("[inf, inf, inf, inf]")),
            ("z/z", |z, _| z.div(z), Some("[NaN, NaN, NaN, NaN]")),
            ("exp", |z, _| z.exp(), Some("[1.0, 1.0, 1.0, 1.0]")),
            ("neg", |z, _| z.neg(), Some("[-0.0, -0.0, -0.0, -0.0]")),
            ("sum", |z, _| z.sum(), Some("[0.0]")),
            ("mm", |z, x| z.mm(x), Some("[0.0, 0.0, 0.0, 0.0]")),
            ("clone", |z, _| z.copied(), Some("[0.0, 0.0, 0.0, 0.0]")),
            ("zeros_like", |z, _| z.zeros_like(), Some("[0.0, 0.0, 0.0, 0.0]")),
            (
                "cat",
                |z, x| aten::cat(&[z.clone(), x.clone()], 0),
                Some("[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]"),
            ),
            ("x.add_(z)", |z, x| x.add_(z), Some("[0.0, 1.0, 2.0, 3.0]")),
            ("x.mul_(z)", |z, x| x.mul_(z), Some("[0.0, 0.0, 0.0, 0.0]")),
            ("x.copy_(z)", |z, x| x.copy_(z), Some("[0.0, 0.0, 0.0, 0.0]")),
            ("x.div_(z)", |z, x| x.div_(z), Some("[NaN, inf, inf, inf]")),
            ("t", |z, _| z.t(), None),
            ("view", |z, _| z.view(&[4]), None),
            ("slice", |z, _| z.slice(0, 0, 1, 1), None),
            ("expand", |z, _| z.expand(&[3, 2, 2]), None),
            ("detach", |z, _| z.detach(), None),
        ];
        for (name, f, expected) in cases {
            let out = f(&z(&[2, 2]), &x()).unwrap();
            match expected {
                None => assert!(out.is_zerotensor(), "{name}"),
                Some(e) => {
                    assert!(!out.is_zerotensor(), "{name}");
                    assert_eq!(text(&out), e, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_zero_tensor_has_no_memory_and_reads_as_zeros() {
        let z = z(&[2]);
        assert!(z.is_zerotensor() && aten::_is_zerotensor(&z).unwrap());
        assert_eq!((z.sizes(), z.dtype()), (&[2][..], DType::F32));
        assert_eq!(values(&z), [0.0, 0.0]);
        assert_eq!(z.to_string(), "tensor([0., 0.])");
        assert_eq!(z.select(0, 0).unwrap().item::<f64>().unwrap(), 0.0);
        let meta = aten::_efficientzerotensor(&[2], None, None, Some(Device::META), None).unwrap();
        assert!(meta.is_zerotensor() && meta.device().is_meta());
    }

    #[test]
    fn shapes_and_dtypes_are_those_of_the_operator() {
        let z2 = z(&[2]);
        assert_eq!(z2.mul(&x()).unwrap().sizes(), [2, 2]);
        assert_eq!(values(&z2.add(&x()).unwrap()), [0.0, 1.0, 2.0, 3.0]);
        let long = aten::_efficientzerotensor(&[2, 2], Some(DType::I64), None, None, None).unwrap();
        assert_eq!(long.mul(&x()).unwrap().dtype(), DType::F32);
        assert_eq!(long.add(&x()).unwrap().dtype(), DType::F32);
        assert_eq!(long.mul(2).unwrap().dtype(), DType::I64);
        let ints = Tensor::from_slice(&[1i64; 4], &[2, 2]).unwrap();
        assert_eq!(ints.add(&z(&[2, 2])).unwrap().dtype(), DType::F32);
        assert!(z(&[3]).mul(&x()).is_err());
    }

    #[test]
    fn writing_one_is_an_error() {
        let z = z(&[2, 2]);
        let writes: [fn(&Tensor) -> Result<Tensor>; 6] = [
            |z| z.add_(1),
            |z| z.sub_(&x()),
            |z| z.mul_(2),
            |z| z.copy_(&x()),
            |z| z.zero_(),
            |z| z.fill_(0),
        ];
        for f in writes {
            let e = f(&z).unwrap_err().to_string();
            assert!(e.contains("ZeroTensors are immutable"), "{e}");
        }
    }
}
