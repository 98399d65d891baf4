//! Each way in which generated kernels lie on threads, by sizes that choose it: as on the CPU, eagerly and
//! compiled.

use super::gpu;
use straightline::ops::aten;
use straightline::{
    CompileOptions, DType, Device, Result, Tensor, assert_close, compile, compile_with,
    manual_seed, use_deterministic_algorithms,
};

type Function = fn(&[Tensor]) -> Result<Tensor>;

fn call(f: Function) -> impl Fn((&Tensor, &Tensor)) -> Result<Tensor> {
    move |(x, y)| f(&[x.clone(), y.clone()])
}

/// The function of two tensors, on the GPU, is what it is on the CPU.
fn agrees(name: &str, f: Function, x: &Tensor, y: &Tensor) -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let want = f(&[x.clone(), y.clone()])?;
    let (x, y) = (x.to_device(gpu)?, y.to_device(gpu)?);
    let eager = f(&[x.clone(), y.clone()])?.to_device(Device::CPU)?;
    let compiled = compile(call(f));
    let compiled = compiled.call((&x, &y))?.to_device(Device::CPU)?;
    for (how, got) in [("eager", eager), ("compiled", compiled)] {
        assert_eq!((got.dtype(), got.sizes()), (want.dtype(), want.sizes()), "{name}, {how}");
        if let Err(e) = assert_close(&got, &want) {
            panic!("{name}, {how}: {e}");
        }
    }
    Ok(())
}

const DTYPES: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::F64];

fn random(sizes: &[i64], dtype: DType) -> Result<Tensor> {
    Tensor::randn(sizes)?.to_dtype(dtype)
}

/// Rows of all kinds: shorter than a warp, kept in registers by one thread to a thousand, in shared memory,
/// in that of the launch; multiples of the width and not; few and many.
#[test]
fn rows() -> Result<()> {
    manual_seed(3);
    let softmax: Function = |x| x[0].add(&x[1])?.softmax(-1);
    let norm: Function = |x| {
        let centred = x[0].sub(x[0].mean_keepdim([-1])?)?;
        centred.mul(centred.mul(&centred)?.mean_keepdim([-1])?.add(1e-3)?.rsqrt()?)?.mul(&x[1])
    };
    let arg: Function = |x| x[0].mul(&x[1])?.argmax(-1);
    for dtype in DTYPES {
        for (rows, length) in [
            (5, 8),
            (70, 12),
            (3, 31),
            (40, 32),
            (9, 100),
            (6, 264),
            (3, 1000),
            (2, 1025),
            (2, 4100),
        ] {
            let (x, y) = (random(&[rows, length], dtype)?, random(&[length], dtype)?);
            for (name, f) in [("softmax", softmax), ("norm", norm), ("arg", arg)] {
                agrees(&format!("{name} {dtype} {rows} x {length}"), f, &x, &y)?;
            }
        }
    }
    // no registers, then no shared memory for a row
    for length in [9000, 33_001] {
        let (x, y) = (random(&[2, length], DType::F32)?, random(&[length], DType::F32)?);
        agrees(&format!("softmax of {length}"), softmax, &x, &y)?;
    }
    Ok(())
}

#[test]
fn columns() -> Result<()> {
    manual_seed(4);
    // without cancellation, so that the order of additions does not show
    let sum: Function = |x| x[0].mul(&x[1])?.abs()?.sum_dim([0]);
    let softmax: Function = |x| x[0].add(&x[1])?.softmax(0);
    let arg: Function = |x| x[0].sub(&x[1])?.argmin(0);
    for dtype in DTYPES {
        for (rows, columns) in [(64, 3), (300, 33), (1030, 5), (4096, 8), (17, 200), (600, 64)] {
            let (x, y) = (random(&[rows, columns], dtype)?, random(&[columns], dtype)?);
            let all = [("softmax", softmax), ("arg", arg)];
            for (name, f) in all {
                agrees(&format!("{name} {dtype} {rows} x {columns}"), f, &x, &y)?;
            }
            if matches!(dtype, DType::F32 | DType::F64) {
                agrees(&format!("sum {dtype} {rows} x {columns}"), sum, &x, &y)?;
            }
        }
    }
    Ok(())
}

/// Several elements at once, from where 16 bytes begin and from elsewhere.
#[test]
fn wide_points() -> Result<()> {
    manual_seed(5);
    let plain: Function = |x| x[0].mul(2.0)?.add(&x[1])?.relu();
    let odd: Function = |x| x[0].narrow(0, 1, x[0].sizes()[0] - 1)?.mul(&x[1])?.tanh();
    for dtype in [DType::F32, DType::BF16] {
        let rows = if dtype == DType::F32 { 2200 } else { 4400 };
        let (x, y) = (random(&[rows, 512], dtype)?, random(&[512], dtype)?);
        agrees(&format!("rows {dtype}"), plain, &x, &y)?;
        let (x, y) = (random(&[rows * 512 + 1], dtype)?, random(&[], dtype)?);
        agrees(&format!("an odd address {dtype}"), odd, &x, &y)?;
    }
    Ok(())
}

#[test]
fn turned_operands() -> Result<()> {
    manual_seed(6);
    let turned: Function = |x| x[0].transpose(-1, -2)?.add(&x[1])?.gelu();
    let both: Function = |x| x[0].t()?.mul(x[1].t()?)?.contiguous();
    for dtype in DTYPES {
        for (a, b) in [(16, 17), (33, 64), (100, 31), (40, 40)] {
            let (x, y) = (random(&[3, a, b], dtype)?, random(&[3, b, a], dtype)?);
            agrees(&format!("turned {dtype} {a} x {b}"), turned, &x, &y)?;
            let (x, y) = (random(&[a, b], dtype)?, random(&[a, b], dtype)?);
            agrees(&format!("both {dtype} {a} x {b}"), both, &x, &y)?;
        }
    }
    Ok(())
}

/// Places of which several are the same.
fn places() -> Result<Tensor> {
    Tensor::arange(33)?.mul(7)?.remainder(9)
}

/// Several sources of one element, which atomic operations combine in any order.
#[test]
fn scatters() -> Result<()> {
    manual_seed(7);
    let add: Function = |x| x[0].index_add(0, &x[1], x[0].narrow(0, 0, x[1].sizes()[0])?);
    let most: Function = |x| {
        let source = x[0].narrow(0, 0, x[1].sizes()[0])?.neg()?;
        aten::index_reduce(&x[0], 0, &x[1], &source, "amax", true)
    };
    for dtype in [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::U8,
    ] {
        let x = Tensor::randn([40, 7])?.mul(3.0)?.abs()?.to_dtype(dtype)?;
        let at = places()?;
        // halves round after each addition, in whatever order
        if !matches!(dtype, DType::BF16 | DType::F16) {
            agrees(&format!("index_add {dtype}"), add, &x, &at)?;
        }
        agrees(&format!("index_reduce {dtype}"), most, &x, &at)?;
    }
    let x = Tensor::randn([40, 7])?.mul(4.0)?.round()?.to_dtype(DType::F16)?;
    agrees("index_add of whole halves", add, &x, &places()?)
}

/// Programs whose kernels are one function have one text, whatever the number of launches is.
#[test]
fn pieces_that_are_copied_alike() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    for pieces in [2, 3, 5] {
        let all: Vec<Tensor> = (0..pieces)
            .map(|i| Tensor::full([3, 4], i as f32)?.to_device(gpu))
            .collect::<Result<_>>()?;
        let joined = aten::cat(&all, 0)?.to_device(Device::CPU)?;
        let want: Vec<f32> = (0..pieces * 12).map(|i| (i / 12) as f32).collect();
        assert_eq!(joined.to_vec::<f32>()?, want);
    }
    Ok(())
}

/// Kernels that were measured compute what those do that were predicted.
#[test]
fn the_quickest_of_some_arrangements() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let options = CompileOptions { autotune: true, ..CompileOptions::default() };
    let f = |x: &Tensor| x.softmax(-1)?.mul(3.0)?.sum_dim([0]);
    let compiled = compile_with(options, f);
    let x = Tensor::arange(20 * 300)?.to_dtype(DType::F32)?.sin()?.reshape([20, 300])?;
    for _ in 0..3 {
        let got = compiled.call(&x.to_device(gpu)?)?.to_device(Device::CPU)?;
        assert_close(&got, &f(&x)?)?;
    }
    Ok(())
}

/// Asked for, sources are combined in their order, so that halves round as they do on the CPU.
#[test]
fn scatters_in_order() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    use_deterministic_algorithms(true)?;
    let x = Tensor::randn([40, 7])?.mul(3.0)?.to_dtype(DType::BF16)?;
    let (at, source) = (places()?, Tensor::randn([33, 7])?.to_dtype(DType::BF16)?);
    let f = |(x, at, source): (&Tensor, &Tensor, &Tensor)| x.index_add(0, at, source);
    let want = f((&x, &at, &source))?;
    let (x, at, source) = (x.to_device(gpu)?, at.to_device(gpu)?, source.to_device(gpu)?);
    let compiled = compile(f);
    let both = [f((&x, &at, &source)), compiled.call((&x, &at, &source))];
    use_deterministic_algorithms(false)?;
    for got in both {
        assert!(got?.to_device(Device::CPU)?.equal(&want)?);
    }
    // and made anew when they are not
    compiled.call((&x, &at, &source))?;
    assert_eq!(compiled.variants(), 2);
    Ok(())
}
