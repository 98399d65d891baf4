//! Fake tensors: shapes, dtypes and devices without data.

use straightline::modes::{FakeTensorMode, ModeError};
use straightline::ops::aten;
use straightline::{
    DType, Device, DeviceType, Error, ErrorKind, Result, Scalar, Tensor, compile, tensor,
};

fn gpu() -> Device {
    Device::new(DeviceType::Cuda)
}

fn is_of_data(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::DataDependent { .. })
}

#[test]
fn operators_give_fakes_in_the_shapes_of_real_results() -> Result<()> {
    let mode = FakeTensorMode::new();
    let programs: [fn(&Tensor) -> Result<Tensor>; 14] = [
        |x| x.relu(),
        |x| x.matmul(&x.t()?),
        |x| x.softmax(-1),
        |x| x.sum_keepdim(0),
        |x| Ok(x * 2.0 + 1),
        |x| x.t()?.contiguous(),
        |x| x.gt(0)?.where_cond(x, 0.0),
        |x| x.layer_norm_with([3], None, None, 1e-5),
        |x| Tensor::cat([x, x], 1),
        |x| x.sort(-1, true).map(|found| found.1),
        |x| x.to_dtype(DType::F64)?.cumsum(0),
        |x| x.unsqueeze(0)?.expand([4, 2, 3]),
        |x| x.zeros_like(),
        |x| x.svd_with(false).map(|found| found.0),
    ];
    let real = Tensor::randn([2, 3])?;
    let fake = mode.from_tensor(&real)?;
    let elsewhere = fake.to_device(gpu())?;
    for (i, f) in programs.iter().enumerate() {
        let expected = f(&real)?;
        let (here, there) = (f(&fake)?, f(&elsewhere)?);
        for (t, device) in [(&here, Device::CPU), (&there, gpu())] {
            assert!(t.is_fake(), "{i}");
            assert_eq!(t.device(), device, "{i}");
            assert_eq!(t.dtype(), expected.dtype(), "{i}");
            assert_eq!(t.sizes(), expected.sizes(), "{i}");
            assert_eq!(t.strides(), expected.strides(), "{i}");
        }
    }
    Ok(())
}

#[test]
fn factories_and_literals_are_fakes_while_the_mode_is_pushed() -> Result<()> {
    let mode = FakeTensorMode::new();
    {
        let _fake = mode.push();
        let x = Tensor::with(gpu()).zeros([2, 2])?;
        assert!(x.is_fake() && x.device() == gpu());
        let y = tensor([[1.0, 2.0], [3.0, 4.0]])?;
        assert!(y.is_fake() && y.device().is_cpu());
        assert!(Tensor::randn([2])?.is_fake());
        assert!(Tensor::arange(5)?.is_fake());
        assert_eq!(y.quantile_dim([0.1, 0.5], 0)?.shape(), [2, 2]);
        assert!(y.to_device(gpu())?.matmul(&x)?.is_fake());
        // a second one changes nothing, in whatever order they end
        let inner = FakeTensorMode::new().push();
        assert!(y.add(&Tensor::ones([2, 2])?)?.is_fake());
        drop(inner);
        assert!(Tensor::ones([2])?.is_fake());
    }
    assert!(!Tensor::ones([2])?.is_fake());
    assert!(!tensor([1.0])?.is_fake());
    Ok(())
}

#[test]
fn views_and_writes_stay_what_they_are() -> Result<()> {
    let mode = FakeTensorMode::new();
    let x = mode.from_tensor(&Tensor::zeros([2, 3])?)?;
    let row = x.select(0, 1)?;
    assert!(row.shares_storage_with(&x) && row.storage_offset() == 3);
    assert!(x.add_(1.0)?.is_same(&x));
    assert!(!x.neg()?.shares_storage_with(&x));
    assert!(x.contiguous()?.is_same(&x));
    let y = mode.from_tensor(&Tensor::zeros([2, 3])?)?;
    aten::t_(&y)?;
    assert_eq!((y.sizes(), y.strides()), (&[3, 2][..], &[1, 3][..]));
    aten::resize_(&y, &[7, 5], None)?;
    assert_eq!(y.sizes(), [7, 5]);
    let out = mode.from_tensor(&Tensor::zeros([0])?)?;
    aten::add_out(&x, &x, Scalar::Int(1), &out)?;
    assert_eq!(out.sizes(), [2, 3]);
    let complex = aten::complex(&x, &x)?.conj()?;
    assert!(complex.is_conj() && complex.is_fake());
    assert_eq!(complex.add(1)?.dtype(), DType::C64);
    Ok(())
}

#[test]
fn reading_data_is_an_error() -> Result<()> {
    let x = FakeTensorMode::new().from_tensor(&tensor([1.0])?)?;
    let errors = [
        x.to_vec::<f32>().unwrap_err(),
        x.item::<f32>().unwrap_err(),
        x.nonzero().unwrap_err(),
        x.masked_select(&x.gt(0)?).unwrap_err(),
        x.unique().unwrap_err(),
        x.equal(&x).unwrap_err(),
        x.allclose(&x).unwrap_err(),
        x.i(x.gt(0)?).unwrap_err(),
        straightline::save_safetensors("unwritten", [("x", &x)]).unwrap_err(),
    ];
    for e in &errors {
        assert!(is_of_data(e), "{e}");
    }
    assert!(errors[0].to_string().contains("fake tensor"), "{}", errors[0]);
    assert_eq!(x.to_string(), "FakeTensor(..., device='cpu', size=(1,))");
    let there = x.to_device(gpu())?;
    assert_eq!(there.to_string(), "FakeTensor(..., device='cuda', size=(1,))");
    Ok(())
}

#[test]
fn real_tensors_mix_where_the_mode_allows_them() -> Result<()> {
    let real = Tensor::ones([2, 2])?;
    let x = FakeTensorMode::new().from_tensor(&real)?;
    let e = x.matmul(&real).unwrap_err();
    let not_fake = |e: &Error| matches!(e.kind(), ErrorKind::Mode(ModeError::NotFake { .. }));
    assert!(not_fake(&e), "{e}");
    assert!(e.to_string().contains("allow_non_fake_inputs"), "{e}");
    assert_eq!(e.op(), Some("aten::mm"));
    // numbers are no tensors
    assert!((&x * 2.0 - 1).is_fake());
    assert!(x.add(Tensor::wrapped_number(2.0)?)?.is_fake());

    let allowing = FakeTensorMode::allow_non_fake_inputs();
    let y = allowing.from_tensor(&real)?;
    assert!(y.matmul(&real)?.is_fake());
    assert!(y.add_(&real)?.is_fake());
    // the write would be lost
    let e = real.add_(&y).unwrap_err();
    assert!(not_fake(&e), "{e}");
    assert_eq!(real.to_vec::<f32>()?, [1.0; 4]);

    let e = x.add(&y).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Mode(ModeError::MixedFakeModes)), "{e}");
    assert!(allowing.from_tensor(&x).is_err());
    assert!(allowing.clone().from_tensor(&y)?.is_same(&y));
    Ok(())
}

#[test]
fn devices_are_checked_as_kernels_check_them() -> Result<()> {
    let mode = FakeTensorMode::new();
    let here = mode.from_tensor(&Tensor::ones([2, 2])?)?;
    let there = here.to_device(gpu())?;
    let e = here.add(&there).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Device(_)), "{e}");
    assert!(e.to_string().contains("two different devices cpu, cuda"), "{e}");
    // 0-dim CPU tensors go anywhere, and so do indices
    let number = mode.from_tensor(&tensor(2.0)?)?;
    assert_eq!(number.mul(&there)?.device(), gpu());
    let at = mode.from_tensor(&tensor([0])?)?;
    assert_eq!(there.i(&at)?.device(), gpu());
    // what is written says where
    assert_eq!(there.copy_(&here)?.device(), gpu());
    Ok(())
}

#[test]
fn tensors_of_other_kinds_and_compiled_functions() -> Result<()> {
    let mode = FakeTensorMode::new();
    let real = tensor([[0.0, 1.0]])?;
    let e = mode.from_tensor(&real.to_sparse()?).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Opaque { .. }), "{e}");

    let f = compile(|x: &Tensor| x.exp()?.sum_dim(1));
    let fake = mode.from_tensor(&real)?;
    assert!(f.call(&fake)?.is_fake());
    f.call(&real)?;
    let again = f.call(&fake)?;
    assert!(again.is_fake() && again.sizes() == [1]);
    assert!(!f.call(&real)?.is_fake());
    {
        let _fake = mode.push();
        assert!(f.call(&fake)?.is_fake());
    }
    // closed over, it would be read
    let g = compile(move |x: &Tensor| x.add(&fake));
    let e = g.call(&real).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Opaque { .. }), "{e}");
    assert!(e.to_string().contains("fake.rs"), "{e}");
    Ok(())
}
