//! The lazy device gives what the CPU gives, at every key that a backend from outside may take.

use lazy_backend::{LazyDevice, Stats};
use std::sync::{Mutex, MutexGuard, PoisonError};
use straightline::dispatch::{
    DispatchError, DispatchKey, Library, capture, dump, dump_table, operator,
};
use straightline::ops::aten;
use straightline::{
    DType, Device, DeviceType, ErrorKind, MetaError, Result, Scalar, Tensor, compile,
};

const KINDS: [DeviceType; 5] = [
    DeviceType::PrivateUse1,
    DeviceType::PrivateUse2,
    DeviceType::PrivateUse3,
    DeviceType::Lazy,
    DeviceType::Xla,
];

/// Registrations are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tensor(data: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(data, sizes).unwrap()
}

fn wave(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    tensor(&data, sizes)
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!((a.sizes(), a.dtype()), (b.sizes(), b.dtype()));
    let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        assert!((x - y).abs() <= 1e-5 * y.abs().max(1.0), "element {i}: {x} and {y}");
    }
}

/// Runs a program on both devices and compares what it returns.
fn same_on_both(
    lazy: &LazyDevice,
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) {
    let on = |d: Device| -> Result<Vec<Tensor>> {
        let copies: Result<Vec<Tensor>> = inputs.iter().map(|t| t.copied()?.to_device(d)).collect();
        f(&copies?)
    };
    let (here, there) = (on(Device::CPU).unwrap(), on(lazy.device()).unwrap());
    assert_eq!(here.len(), there.len());
    for (h, t) in here.iter().zip(&there) {
        assert_eq!(t.device(), lazy.device());
        close(t, h);
    }
}

fn mlp(p: &[Tensor]) -> Result<Vec<Tensor>> {
    let h = p[0].linear(&p[1], Some(&p[2]))?.relu()?;
    Ok(vec![h.linear(&p[3], Some(&p[4]))?.softmax(-1)?])
}

fn mlp_inputs() -> Vec<Tensor> {
    [&[4, 8][..], &[16, 8], &[16], &[3, 16], &[3]].map(wave).to_vec()
}

#[test]
fn an_mlp_equals_the_cpu_and_is_replayed() {
    let _alone = alone();
    for kind in KINDS {
        let lazy = LazyDevice::install(kind).unwrap();
        let inputs = mlp_inputs();
        same_on_both(&lazy, &inputs, mlp);
        assert_eq!(lazy.stats().compiled, 1, "{kind:?}: {:?}", lazy.stats());
        for _ in 0..3 {
            same_on_both(&lazy, &inputs, mlp);
        }
        let s = lazy.stats();
        assert_eq!((s.compiled, s.replayed, s.eager, s.on_cpu), (1, 3, 0, 0), "{kind:?}");
    }
}

#[test]
fn nothing_is_computed_until_it_is_wanted() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::PrivateUse1).unwrap();
    let x = wave(&[3]).to_device(lazy.device()).unwrap();
    lazy.sync().unwrap();
    let before = lazy.stats();
    let y = x.exp().unwrap();
    let dead = x.sin().unwrap();
    drop(dead);
    let quiet = Stats { recorded: before.recorded + 2, ..before };
    assert_eq!(lazy.stats(), quiet);
    let ran = Stats { compiled: before.compiled + 1, ..quiet };
    lazy.sync().unwrap();
    assert_eq!(lazy.stats(), ran);
    // printing and items find it there
    assert!(y.to_string().ends_with("device='privateuseone:0')"), "{y}");
    y.select(0, 1).unwrap().item::<Scalar>().unwrap();
    lazy.sync().unwrap();
    assert_eq!(lazy.stats(), ran);
}

#[test]
fn writes_and_views_are_seen_through_each_other() {
    let _alone = alone();
    for kind in KINDS {
        let lazy = LazyDevice::install(kind).unwrap();
        same_on_both(&lazy, &[wave(&[3, 4]), wave(&[4])], |p| {
            let (x, b) = (&p[0], &p[1]);
            let row = x.select(0, 1)?;
            let column = x.t()?.slice(0, 0, 2, 1)?;
            row.add_(b)?;
            column.mul_(3)?;
            x.view([2, 6])?.slice(1, 4, 6, 1)?.fill_(9)?;
            // a value taken before a write is unchanged
            let before = x.exp()?;
            x.zero_()?;
            row.copy_(b)?;
            x.unsqueeze(0)?.add_(1)?;
            Ok(vec![x.clone(), row, column, before, b.clone()])
        });
        assert_eq!(lazy.stats().eager, 0, "{kind:?}: {:?}", lazy.stats());
    }
}

#[test]
fn writes_to_what_is_computed_already() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::PrivateUse1).unwrap();
    let x = wave(&[2, 2]).to_device(lazy.device()).unwrap();
    let row = x.select(0, 0).unwrap();
    lazy.sync().unwrap();
    let out = x.to_device(Device::CPU).unwrap();
    row.fill_(7).unwrap();
    x.add_(&x).unwrap();
    assert_eq!(row.to_vec::<f32>().unwrap(), [14.0, 14.0]);
    // what was handed out does not change
    close(&out, &wave(&[2, 2]));
    // nor does the device see writes to what came in
    let source = wave(&[2]);
    let taken = source.to_device(lazy.device()).unwrap();
    let number = Tensor::scalar(2.0).unwrap();
    let scaled = &taken * &number;
    source.zero_().unwrap();
    number.zero_().unwrap();
    close(&scaled, &(wave(&[2]) * 2.0));
    close(&taken, &wave(&[2]));
}

/// Gradient descent by hand: one program for the step, found again each time.
#[test]
fn a_training_loop_compiles_once() {
    let _alone = alone();
    for kind in KINDS {
        let train = |device: Device| -> Result<(Vec<f64>, Tensor)> {
            let x = wave(&[16, 3]).to_device(device)?;
            let y = x.matmul(&tensor(&[1.0, -2.0, 0.5], &[3, 1]).to_device(device)?)?;
            let w = Tensor::with(device).zeros([3, 1])?;
            let mut losses = Vec::new();
            for step in 0..6 {
                let error = x.matmul(&w)? - &y;
                let gradient = x.t()?.matmul(&error)? * (2.0 / 16.0);
                // a tensor of one number is an input, so that another rate is not another program
                let rate = Tensor::scalar(0.5 / f64::from(step + 1))?;
                w.sub_(gradient * rate)?;
                losses.push((&error * &error).mean()?.item::<f64>()?);
            }
            Ok((losses, w))
        };
        let lazy = LazyDevice::install(kind).unwrap();
        let (here, w) = train(Device::CPU).unwrap();
        let (there, lazy_w) = train(lazy.device()).unwrap();
        assert!(here[5] < here[0] / 2.0);
        for (a, b) in here.iter().zip(&there) {
            assert!((a - b).abs() < 1e-5 * a.abs().max(1.0), "{here:?} {there:?}");
        }
        close(&lazy_w, &w);
        let s = lazy.stats();
        // the first step also makes `y` and the zeros
        assert_eq!((s.compiled, s.replayed, s.eager), (2, 4, 0), "{kind:?}: {s:?}");
    }
}

#[test]
fn what_cannot_be_recorded_runs_on_the_cpu() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::PrivateUse1).unwrap();
    let d = lazy.device();
    let mut lib = Library::new("lazy_tests").unwrap();
    lib.def("positive(Tensor x) -> Tensor").unwrap();
    // its shape depends on the data, so there is no Meta kernel
    lib.impl_at("positive", DispatchKey::CPU, |x: &Tensor| {
        let v: Vec<f32> = x.to_vec::<f32>()?.into_iter().filter(|x| *x > 0.0).collect();
        Tensor::from_vec(v, -1)
    })
    .unwrap();
    let x = tensor(&[-1.0, 2.0, 3.0], &[3]).to_device(d).unwrap() * 2.0;
    let mut stack = vec![x.into()];
    operator("lazy_tests::positive").unwrap().call_boxed(&mut stack).unwrap();
    let y = stack[0].as_tensor().unwrap();
    assert_eq!((y.device(), y.sizes()), (d, &[2][..]));
    assert_eq!((y + 1.0).to_vec::<f32>().unwrap(), [5.0, 7.0]);
    assert_eq!(lazy.stats().on_cpu, 1);
    // random numbers, in the order in which they are asked for
    let draw = |d: Device| {
        straightline::manual_seed(3);
        let a = Tensor::with(d).rand([2]).unwrap();
        let b = Tensor::with(d).randn([2]).unwrap();
        [b, a].map(|t| t.to_vec::<f32>().unwrap())
    };
    assert_eq!(draw(d), draw(Device::CPU));
}

#[test]
fn every_factory_makes_what_the_cpu_makes() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::Xla).unwrap();
    let (f32, five) = (Some(DType::F32), Scalar::Int(5));
    let make = |d: Device| -> Result<Vec<Tensor>> {
        let at = Some(d);
        let x = Tensor::with(d).ones([2, 2])?;
        Ok(vec![
            Tensor::with(d).zeros([2])?,
            aten::full(&[2], five, f32, None, at, None)?,
            aten::eye(3, f32, None, at, None)?,
            aten::arange(five, f32, None, at, None)?,
            aten::zeros_like(&x, None, None, None, None, None)?,
            aten::full_like(&x.t()?, five, None, None, None, None, None)?,
            aten::empty_like(&x, None, None, None, None, None)?.fill_(2)?,
            aten::empty_strided(&[2, 3], &[1, 2], f32, None, at, None)?.fill_(3)?,
            aten::cat(&[x.clone(), x.t()?], 1)?,
            x.tril()?,
        ])
    };
    for (h, t) in make(Device::CPU).unwrap().iter().zip(make(lazy.device()).unwrap()) {
        assert_eq!((t.device(), t.strides()), (lazy.device(), h.strides()));
        close(&t, h);
    }
}

#[test]
fn composites_arrive_in_parts_and_whole_operators_whole() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::PrivateUse1).unwrap();
    let p: Vec<Tensor> = mlp_inputs().iter().map(|t| t.to_device(lazy.device()).unwrap()).collect();
    let (y, trace) = capture(|| p[0].linear(&p[1], Some(&p[2])));
    y.unwrap();
    let at_the_device: Vec<&str> =
        trace.iter().filter_map(|l| l.trim().strip_suffix(", key=[PrivateUse1]")).collect();
    assert_eq!(at_the_device, ["[call] op=[aten::t]", "[call] op=[aten::addmm]"], "{trace:#?}");
    // the table shows the device's cells
    let table = dump_table(operator("aten::t").unwrap());
    assert!(table.contains("PrivateUse1: registered at"), "{table}");
    let dump = dump(operator("aten::_copy_from").unwrap());
    assert!(dump.contains("PrivateUse1: registered at") && dump.contains("kernels.rs:"), "{dump}");
}

#[test]
fn mistakes_have_names() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::PrivateUse1).unwrap();
    let x = wave(&[2, 3]).to_device(lazy.device()).unwrap();
    // shapes are checked when the operator is called, not when the program runs
    let e = x.matmul(&x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Meta(MetaError::Product { .. })), "{e}");
    let e = x.add(wave(&[2, 3])).unwrap_err();
    assert!(e.to_string().contains("to_device"), "{e}");
    // a compiled function is for the CPU; the device compiles by itself
    let e = compile(|x: &Tensor| x.relu()).call(&x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Device(_)), "{e}");
    // an index that is out of range is found when the program runs, and spoils nothing else
    let ok = x.relu().unwrap();
    let index = Tensor::from_vec([7i64], 1).unwrap().to_device(lazy.device()).unwrap();
    let bad = aten::index_select(&x, 0, &index).unwrap();
    assert!(lazy.sync().is_err());
    assert!(bad.to_vec::<f32>().is_err());
    close(&ok, &wave(&[2, 3]).relu().unwrap());
    drop(bad);
    lazy.sync().unwrap();
    // without the device its tensors have no kernels any more
    drop(lazy);
    let e = x.relu().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Dispatch(DispatchError::MissingKernel(_))), "{e}");
}

#[test]
fn a_long_chain_runs_in_programs_of_a_bounded_size() {
    let _alone = alone();
    let lazy = LazyDevice::install(DeviceType::Lazy).unwrap();
    let x = Tensor::with(lazy.device()).zeros([1]).unwrap();
    for _ in 0..4_500 {
        x.add_(1).unwrap();
    }
    assert_eq!(x.item::<Scalar>().unwrap(), Scalar::Float(4_500.0));
    let s = lazy.stats();
    assert_eq!(s.compiled + s.replayed + s.eager, 3, "{s:?}");
}
