//! The default dtype of the process: what follows it, what does not, and that plans do.

use crate::support::alone;
use straightline::{
    CompileEvent, DType, ErrorKind, Result, Tensor, compile, default_dtype, functionalize,
    set_default_dtype, tensor,
};

#[test]
fn literals_factories_and_promotion_follow_it() {
    alone("default_dtype::literals_factories_and_promotion_follow_it", || follow().unwrap());
}

fn follow() -> Result<()> {
    let ints = tensor([1, 2, 4])?;
    let single = tensor([1f32, 2.0])?;
    for (dtype, complex) in
        [(DType::F64, DType::C128), (DType::BF16, DType::C64), (DType::F32, DType::C64)]
    {
        set_default_dtype(dtype)?;
        assert_eq!(default_dtype(), dtype);
        // the process's, not the thread's
        let elsewhere = std::thread::spawn(|| tensor([0.5]).unwrap().dtype());
        assert_eq!(elsewhere.join().unwrap(), dtype);
        let made = [
            tensor([0.5])?,
            Tensor::zeros([2])?,
            Tensor::ones([2])?,
            Tensor::empty([2])?,
            Tensor::eye(2)?,
            Tensor::full([2], 1.5)?,
            Tensor::arange((0.0, 1.0, 0.5))?,
            Tensor::linspace(0, 1, 3)?,
            Tensor::logspace(0, 1, 3)?,
            Tensor::rand([2])?,
            Tensor::randn([2])?,
            &ints / 2,
            &ints + 0.5,
            &ints * 2.0,
            ints.div(&ints)?,
            ints.exp()?,
            ints.sigmoid()?,
            ints.atan2(&ints)?,
            Tensor::scalar(1.5)?,
            ints.lgamma()?,
        ];
        for (i, t) in made.iter().enumerate() {
            assert_eq!(t.dtype(), dtype, "{i}");
        }
        let complex_number = num_complex::Complex::new(0.0, 1.0);
        assert_eq!(tensor([complex_number])?.dtype(), complex);
        assert_eq!((&ints * complex_number).dtype(), complex);
        // integers stay, and so does what has a dtype
        assert_eq!(Tensor::full([2], 3)?.dtype(), DType::I64);
        assert_eq!(Tensor::arange(3)?.dtype(), DType::I64);
        assert_eq!((&ints * 2).dtype(), DType::I64);
        assert_eq!((&single * 2.5).dtype(), DType::F32);
        assert_eq!(tensor([1f32])?.dtype(), DType::F32);
        assert_eq!(Tensor::from_vec([1f32], 1)?.dtype(), DType::F32);
        assert_eq!(single.exp()?.dtype(), DType::F32);
        // printed without its dtype, the others with
        assert!(!tensor([0.5])?.to_string().contains("dtype"));
        let others = single.to_string();
        assert_eq!(others.contains("dtype=torch.float32"), dtype != DType::F32);
    }
    // an `f64` literal keeps its bits where the default has them
    set_default_dtype(DType::F64)?;
    assert_eq!(tensor([0.1])?.to_vec::<f64>()?, [0.1]);
    assert_eq!((tensor([1])? / 3).item::<f64>()?, 1.0 / 3.0);
    set_default_dtype(DType::F32)
}

#[test]
fn only_floating_dtypes_can_be_set() {
    for dtype in [DType::I64, DType::Bool, DType::C64, DType::QUInt8] {
        let e = set_default_dtype(dtype).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Type(_)), "{e}");
        assert!(e.to_string().contains("only floating-point types"), "{e}");
    }
    assert_eq!(default_dtype(), DType::F32);
}

#[test]
fn a_compiled_function_is_compiled_for_each_default() {
    alone("default_dtype::a_compiled_function_is_compiled_for_each_default", || {
        compiled().unwrap()
    });
}

fn compiled() -> Result<()> {
    let f = compile(|x: &Tensor| {
        let y = (x * 0.5 + tensor([1.0, 2.0])?).exp()?;
        let z = x.sqrt()?.add(x.div(3)?)?;
        Ok((y, z, x.atan2(x)?, x.mul(2)?))
    });
    let x = tensor([1, 4])?;
    for dtype in [DType::F32, DType::F64, DType::F32, DType::BF16, DType::F64] {
        set_default_dtype(dtype)?;
        for _ in 0..2 {
            let (compiled, eager) = (f.call(&x)?, f.eager(&x)?);
            let pairs = [
                (&compiled.0, &eager.0),
                (&compiled.1, &eager.1),
                (&compiled.2, &eager.2),
                (&compiled.3, &eager.3),
            ];
            for (compiled, eager) in pairs {
                assert_eq!(compiled.dtype(), eager.dtype());
                straightline::assert_close(compiled, eager)?;
            }
            assert_eq!(compiled.0.dtype(), dtype);
            assert_eq!(compiled.3.dtype(), DType::I64);
        }
    }
    // one variant for each, and those come back
    assert_eq!(f.variants(), 3);
    let missed = |e: &CompileEvent| e.to_string().contains("the default dtype is f64, was f32");
    assert!(f.events().iter().any(missed), "{:?}", f.events());
    // stages that are made later are made as the function was captured
    set_default_dtype(DType::F64)?;
    let traced = f.trace(&x)?;
    set_default_dtype(DType::F32)?;
    let lowered = traced.lower()?;
    assert!(lowered.to_string().contains("f64"), "{lowered}");
    lowered.compile()?;
    Ok(())
}

#[test]
fn a_captured_function_cannot_set_it() {
    let set = |x: &Tensor| {
        set_default_dtype(DType::F64)?;
        x.neg()
    };
    let x = tensor([1.0]).unwrap();
    for e in [compile(set).call(&x).unwrap_err(), functionalize(set).call(&x).unwrap_err()] {
        assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
        assert!(e.to_string().contains("default_dtype.rs"), "{e}");
    }
    assert_eq!(default_dtype(), DType::F32);
}
