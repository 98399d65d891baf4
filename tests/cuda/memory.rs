//! What becomes of a call for which there is no memory.

use super::compiled::{here, there};
use super::{driver_calls, gpu};
use straightline::{DType, Device, ErrorKind, Result, Tensor, assert_close, compile, cuda};

/// Takes all memory of a device, so that no block of `least` bytes is left. `None` on a device that has
/// so much of it that it may be somebody's.
fn all_memory(gpu: Device, least: i64) -> Result<Option<Vec<Tensor>>> {
    if driver_calls("cuMemAlloc").is_none() {
        return Ok(None);
    }
    let mut all = Vec::new();
    let mut size = 512 << 20;
    while size >= least {
        match Tensor::with((DType::U8, gpu)).empty([size]) {
            Ok(t) => all.push(t),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::DeviceMemory { .. }), "{e}");
                size /= 4;
            }
        }
    }
    Ok(Some(all))
}

fn is_out_of_memory(e: &straightline::Error, op: &str) {
    assert!(matches!(e.kind(), ErrorKind::DeviceMemory { .. }), "{e}");
    let text = e.to_string();
    for part in ["out of device memory", "in use by tensors", "the largest: ", op] {
        assert!(text.contains(part), "{text} has no {part}");
    }
}

#[test]
fn an_eager_call_says_what_holds_the_memory() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::with(gpu).ones([1024, 64])?;
    let Some(held) = all_memory(gpu, 128 << 10)? else { return Ok(()) };
    let e = x.exp().unwrap_err();
    is_out_of_memory(&e, "aten::exp");
    drop(held);
    assert_eq!(
        here(&x.exp()?.sum_dim([1])?.narrow(0, 0, 1)?)?.to_vec::<f32>()?,
        [64.0 * 1f32.exp()]
    );
    cuda::empty_cache(gpu)?;
    Ok(())
}

/// Queued, while it is recorded, and as a graph.
#[test]
fn a_compiled_call_without_memory_is_an_error_and_the_next_one_works() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    for before in 0..5 {
        let f = |x: &Tensor| {
            let (sorted, _) = x.mul(2.0)?.sort(-1, false)?;
            sorted.softmax(-1)?.matmul(&x.t()?)?.expand([2, 96, 96])?.add(1.0)
        };
        let x = Tensor::arange(96 * 64)?.to_dtype(DType::F32)?.sin()?.reshape([96, 64])?;
        let want = f(&x)?;
        let x = there(&x, gpu)?;
        let compiled = compile(f);
        for _ in 0..before {
            assert_close(&here(&compiled.call(&x)?)?, &want)?;
        }
        let Some(held) = all_memory(gpu, 8 << 10)? else { return Ok(()) };
        let e = compiled.call(&x).unwrap_err();
        is_out_of_memory(&e, "aten::");
        drop(held);
        for _ in 0..4 {
            assert_close(&here(&compiled.call(&x)?)?, &want)?;
        }
        let count = driver_calls("cuGraphLaunch");
        compiled.call(&x)?;
        assert_eq!(driver_calls("cuGraphLaunch"), count.map(|n| n + 1), "{before}");
        drop(compiled);
        cuda::empty_cache(gpu)?;
    }
    Ok(())
}
