//! Complex tensors: lazy conjugation, views of parts, capture, and what is refused. Values are
//! PyTorch 2.15's.

use super::conformance::case::Case;
use num_complex::Complex;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Device, ErrorKind, Result, Scalar, Tensor, compile};

type C = Complex<f32>;

fn x() -> Tensor {
    Tensor::from_vec([C::new(1.0, 2.0), C::new(-3.0, 0.5)], -1).unwrap()
}

fn values(t: &Tensor) -> Vec<C> {
    t.to_vec().unwrap()
}

#[test]
fn conjugation_is_a_bit() {
    let x = x();
    let c = x.conj().unwrap();
    assert!(c.is_conj() && c.shares_storage_with(&x));
    assert_eq!(values(&c), [C::new(1.0, -2.0), C::new(-3.0, -0.5)]);
    assert_eq!(c.to_string(), "tensor([ 1.-2.0000j, -3.-0.5000j])");
    assert!(!c.conj().unwrap().is_conj());
    assert!(!c.add(&x).unwrap().is_conj());
    assert_eq!(values(&c.mul(&x).unwrap()), [C::new(5.0, 0.0), C::new(9.25, 0.0)]);
    let resolved = c.resolve_conj().unwrap();
    assert!(!resolved.is_conj() && !resolved.shares_storage_with(&x));
    assert_eq!(values(&aten::_conj_physical(&c).unwrap()), values(&x));
    assert_eq!(c.select(0, 0).unwrap().item::<Scalar>().unwrap(), Scalar::Complex(1.0, -2.0));
}

#[test]
fn parts_of_a_conjugate() {
    let x = x();
    let c = x.conj().unwrap();
    let (re, im) = (aten::real(&c).unwrap(), aten::imag(&c).unwrap());
    assert!(!re.is_neg() && im.is_neg() && im.shares_storage_with(&x));
    assert_eq!(re.to_vec::<f32>().unwrap(), [1.0, -3.0]);
    assert_eq!(im.to_vec::<f32>().unwrap(), [-2.0, -0.5]);
    let e = aten::view_as_real(&c).unwrap_err().to_string();
    assert!(e.contains("unresolved conjugated"), "{e}");
    aten::fill_scalar_(&im, Scalar::Int(7)).unwrap();
    assert_eq!(values(&x), [C::new(1.0, -7.0), C::new(-3.0, -7.0)]);
}

#[test]
fn writes_go_through_the_bit() {
    let x = x();
    let c = x.conj().unwrap();
    c.copy_(&Tensor::from_vec([C::new(0.0, 1.0), C::new(2.0, 0.0)], -1).unwrap()).unwrap();
    assert_eq!(values(&x), [C::new(0.0, -1.0), C::new(2.0, 0.0)]);
    c.add_(Scalar::Complex(0.0, 1.0)).unwrap();
    assert_eq!(values(&x), [C::new(0.0, -2.0), C::new(2.0, -1.0)]);
}

#[test]
fn products_resolve_conjugates() {
    let a = Tensor::from_slice(&[C::new(1.0, 2.0), C::new(0.0, 1.0)], &[1, 2]).unwrap();
    let gram = a.mm(&aten::adjoint(&a).unwrap()).unwrap();
    assert_eq!(values(&gram), [C::new(6.0, 0.0)]);
    let v = x();
    assert_eq!(values(&aten::vdot(&v, &v).unwrap()), [C::new(14.25, 0.0)]);
    let c = v.conj().unwrap();
    assert_eq!(values(&aten::vdot(&c, &c).unwrap()), [C::new(14.25, 0.0)]);
}

#[test]
fn compiled_functions_take_complex_tensors() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let functions: [(&str, F); 9] = [
        ("chain", |x| x.mul(x)?.add(1)?.exp()),
        ("conj", |x| x.conj()?.mul(x)),
        ("returned conj", |x| x.conj()),
        ("abs", |x| x.abs()?.add(1)),
        ("parts", |x| aten::real(x)?.add(&aten::imag(&x.conj()?)?)),
        ("norm", |x| aten::view_as_real(x)?.mul(2)?.sum()),
        ("number", |x| x.mul(Scalar::Complex(0.0, 1.0))),
        ("compare", |x| aten::eq_scalar(x, Scalar::Complex(1.0, 2.0))),
        ("both", |x| x.add(&x.abs()?)?.sub(x)),
    ];
    for (name, f) in functions {
        let compiled = compile(f);
        for input in [x(), x().mul(Scalar::Complex(0.5, -1.0)).unwrap()] {
            let (want, got) = (f(&input).unwrap(), compiled.call(&input).unwrap());
            assert_eq!(got.dtype(), want.dtype(), "{name}");
            let wide = |t: &Tensor| {
                let t = t.to_dtype(DType::C128).unwrap();
                t.to_vec::<Complex<f64>>().unwrap()
            };
            for (a, b) in wide(&got).iter().zip(wide(&want)) {
                assert!((a - b).norm_sqr() < 1e-8, "{name}: {got} {want}");
            }
        }
    }
}

#[test]
fn compiled_functions_write_complex_tensors() {
    let f = compile(|x: &Tensor| {
        aten::view_as_real(x)?.mul_(2)?;
        x.add_(Scalar::Complex(0.0, 1.0))
    });
    let x = x();
    f.call(&x).unwrap();
    assert_eq!(values(&x), [C::new(2.0, 5.0), C::new(-6.0, 2.0)]);
}

#[test]
fn compiled_functions_write_complex_storages_as_they_lie() {
    let f = |x: &Tensor| {
        let window = aten::as_strided(x, &[3, 3], &[0, 1], Some(2))?;
        x.add_(x)?;
        aten::zero_(&window)?;
        aten::as_strided(x, &[2, 2], &[5, 3], Some(1))?.copied()
    };
    for dtype in [DType::C64, DType::C128, DType::F32] {
        // the second dimension lies farthest apart
        let made = || {
            let base = aten::to_dtype(&Tensor::arange(24)?, dtype, false, false, None)?;
            aten::as_strided(&base, &[4, 2, 3], &[1, 12, 4], Some(0))
        };
        let (a, b) = (made().unwrap(), made().unwrap());
        let want = f(&a).unwrap();
        let got = compile(f).call(&b).unwrap();
        for (got, want) in [(&got, &want), (&b, &a)] {
            assert!(aten::equal(got, want).unwrap(), "{dtype}: {got} {want}");
        }
    }
}

#[test]
fn what_complex_numbers_do_not_have_is_refused_by_name() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let refused: [(&str, F); 16] = [
        ("lt", |x| aten::lt_tensor(x, x)),
        ("maximum", |x| aten::maximum(x, x)),
        ("relu", |x| x.relu()),
        ("floor", |x| x.floor()),
        ("sign", |x| aten::sign(x)),
        ("abs_", |x| aten::abs_(x)),
        ("max", |x| aten::max(x)),
        ("argmax", |x| aten::argmax(x, None, false)),
        ("softmax", |x| aten::_softmax(x, 0, false)),
        ("fmod", |x| aten::fmod_tensor(x, x)),
        ("bitwise_and", |x| aten::bitwise_and_tensor(x, x)),
        ("atan2", |x| aten::atan2(x, x)),
        ("erf", |x| aten::erf(x)),
        ("clamp", |x| aten::clamp(x, Some(Scalar::Int(0)), None)),
        ("scatter_reduce", |x| {
            let first = Tensor::from_vec([0i64], 1)?;
            aten::scatter_reduce_two(x, 0, &first, x, "amax", true)
        }),
        ("index_reduce", |x| {
            let places = Tensor::from_vec([0i64, 1], 2)?;
            aten::index_reduce(x, 0, &places, x, "prod", false)
        }),
    ];
    for (name, f) in refused {
        let e = f(&x()).unwrap_err().to_string();
        assert!(!e.is_empty(), "{name}");
        let _ = f(&x().to_device(Device::META).unwrap());
    }
}

#[test]
fn files_have_one_of_the_complex_dtypes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.safetensors");
    straightline::save_safetensors(&path, [("c", &x().conj().unwrap())]).unwrap();
    let back = straightline::load_safetensors(&path).unwrap();
    assert_eq!(values(&back["c"]), values(&x().conj().unwrap()));
    let wide = x().to_dtype(DType::C128).unwrap();
    let e = straightline::save_safetensors(&path, [("w", &wide)]).unwrap_err();
    assert!(e.to_string().contains("complex128"), "{e}");
}

#[test]
fn a_result_that_repeats_its_elements_is_copied_by_a_call() {
    let x = x().reshape(&[1, 2]).unwrap().expand(&[3, 2]).unwrap();
    let f = compile(|x: &Tensor| aten::_unsafe_view(x, x.sizes()));
    for _ in 0..2 {
        let y = f.call(&x).unwrap();
        assert_eq!(values(&y), values(&x));
    }
}

#[test]
fn a_real_result_written_into_a_complex_out_replays_without_the_dispatcher() {
    let f = compile(|x: &Tensor| {
        let out = x.to_dtype(DType::C64)?;
        aten::add_out(x, x, Scalar::Int(1), &out)?;
        Ok(out)
    });
    let x = Tensor::from_vec([1f32, -2.5], 2).unwrap();
    f.call(&x).unwrap();
    let before = straightline::dispatch::call_count();
    let out = f.call(&x).unwrap();
    assert_eq!(straightline::dispatch::call_count(), before);
    assert_eq!(values(&out), [C::new(2.0, 0.0), C::new(-5.0, 0.0)]);
}

/// The recorded calls with complex numbers in place of real ones: what eager code refuses is
/// refused where a function is captured that does not use the result, too.
#[test]
fn what_complex_numbers_are_refused_by() {
    let mut passed = std::collections::BTreeSet::new();
    let mut refused = 0;
    for (op, line) in super::hostile::recorded("public.jsonl.gz") {
        let (Ok(handle), Ok(case)) = (operator(&op), Case::parse(&line)) else {
            continue;
        };
        let complex = |t: &Tensor| match t.dtype() {
            DType::F32 | DType::F64 => t.to_dtype(t.dtype().to_complex()),
            _ => Ok(t.clone()),
        };
        let args: Result<Vec<Value>> = case.stack.iter().map(|v| v.map_tensors(complex)).collect();
        let Ok(args) = args else { continue };
        let tensors = || args.iter().flat_map(Value::tensors);
        if !tensors().any(|t| t.dtype().is_complex()) {
            continue;
        }
        let Err(eager) = handle.call_boxed(&mut args.clone()) else {
            continue;
        };
        refused += 1;
        let inputs: Vec<Tensor> = tensors().cloned().collect();
        let given = args.clone();
        let f = compile(move |inputs: &Vec<Tensor>| {
            let mut inputs = inputs.iter();
            let mut stack = Vec::new();
            for v in &given {
                stack.push(v.map_tensors(|t| Ok(inputs.next().unwrap_or(t).clone()))?);
            }
            handle.call_boxed(&mut stack)
        });
        match f.call(&inputs) {
            Ok(()) => passed.insert(format!("{op}: {eager}")),
            Err(e) if matches!(e.kind(), ErrorKind::DataDependent { .. }) => true,
            Err(e) if e.python_class() != eager.python_class() => {
                passed.insert(format!("{op}: {eager}\n    compiled: {e}"))
            }
            Err(_) => true,
        };
    }
    let list: Vec<String> = passed.into_iter().collect();
    assert!(list.is_empty() && refused > 1000, "of {refused}:\n{}", list.join("\n"));
}
