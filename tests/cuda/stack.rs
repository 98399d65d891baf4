//! `add(x, y)` of two tensors of a GPU that want gradients, step by step as "Tracing the full call stack for
//! `torch.add(x, y)`" has it: the wrapper, the operator and its keys, autograd, the redispatch, the kernel at the
//! CUDA key, the launch, and the way back.

use super::{driver_calls, gpu};
use std::cell::RefCell;
use std::rc::Rc;
use straightline::autograd::no_grad;
use straightline::cuda::{Way, ways};
use straightline::dispatch::{DispatchKey, capture, operator};
use straightline::modes::{Call, DispatchMode, Outcome, push_mode};
use straightline::{DType, Device, Result, Tensor, tensor};

fn operands(gpu: Device) -> Result<[Tensor; 2]> {
    let on = |t: Tensor| t.to_device(gpu)?.requires_grad_(true);
    // of two sizes and dtypes, which a kernel brings together
    Ok([on(tensor([[1f32, 2.0], [3.0, 4.0]])?)?, on(tensor([10f32, 20.0])?.to_dtype(DType::F64)?)?])
}

/// Steps 1 and 2: `x.add(&y)` finds `aten::add.Tensor`, and the keys are those of both operands.
#[test]
fn the_wrapper_calls_the_operator_with_the_keys_of_both() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let [x, y] = operands(gpu)?;
    for t in [&x, &y] {
        let keys = t.key_set();
        assert!(keys.has(DispatchKey::CUDA) && keys.has(DispatchKey::AutogradCUDA));
        assert!(keys.has(DispatchKey::ADInplaceOrView) && !keys.has(DispatchKey::CPU));
    }
    let (z, lines) = capture(|| x.add(&y));
    z?;
    // one handle, one entry from above, at the highest key
    let calls: Vec<_> = lines.iter().filter(|line| line.starts_with(" [call]")).collect();
    assert_eq!(calls, [" [call] op=[aten::add.Tensor], key=[AutogradCUDA]"], "{lines:#?}");
    Ok(())
}

/// Steps 3 to 5: the table has autograd's kernel at the first key, which calls again without its keys;
/// `ADInplaceOrView` and `BackendSelect` let an operator that makes its result pass, so the next is CUDA.
#[test]
fn autograd_comes_first_and_then_the_gpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let [x, y] = operands(gpu)?;
    let add = operator("aten::add.Tensor")?;
    assert!(add.has_kernel(DispatchKey::CUDA));
    for passed in [DispatchKey::ADInplaceOrView, DispatchKey::BackendSelect] {
        assert!(!add.has_kernel(passed), "{passed}");
    }
    // what sizes and dtypes give is known from then on
    x.add(&y)?;
    let (z, lines) = capture(|| x.add(&y));
    let z = z?;
    let passes: Vec<_> = lines.iter().filter(|line| line.contains("aten::add.Tensor")).collect();
    assert_eq!(
        passes,
        [
            " [call] op=[aten::add.Tensor], key=[AutogradCUDA]",
            "  [redispatch] op=[aten::add.Tensor], key=[CUDA]"
        ],
        "{lines:#?}"
    );
    assert!(z.requires_grad());
    // without gradients autograd's keys are left out, and there is one pass
    let (z, lines) = capture(|| no_grad(|| x.add(&y)));
    assert!(!z?.requires_grad());
    let passes: Vec<_> = lines.iter().filter(|line| line.contains("aten::add.Tensor")).collect();
    assert!(passes.last().is_some_and(|line| line.contains("key=[CUDA]")), "{lines:#?}");
    Ok(())
}

/// Step 4 from within: what a mode below autograd is given wants no gradient any more.
#[test]
fn below_autograd_nothing_is_recorded() -> Result<()> {
    struct Below(Rc<RefCell<Vec<String>>>);
    impl DispatchMode for Below {
        fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
            self.0.borrow_mut().push(call.op().name().to_string());
            let result = call.forward()?;
            Ok(result.into())
        }
    }
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let [x, y] = operands(gpu)?;
    let seen = Rc::new(RefCell::new(Vec::new()));
    let z = {
        let _mode = push_mode(Below(seen.clone()));
        x.add(&y)?
    };
    assert_eq!(*seen.borrow(), ["aten::add.Tensor"]);
    assert!(z.requires_grad());
    Ok(())
}

/// Step 6: the kernel of the CUDA key brings sizes and dtypes together (a `TensorIterator` there; here the Meta
/// kernel, and a schedule, once for each signature), and launches one kernel.
#[test]
fn the_kernel_is_loops_and_one_launch() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let [x, y] = operands(gpu)?;
    // of sizes that no other test has
    let (wide, row) = (Tensor::with(gpu).ones([3, 1, 17])?, Tensor::with(gpu).ones([5, 17])?);
    let (first, lines) = capture(|| wide.add(&row));
    assert_eq!(first?.sizes(), [3, 5, 17]);
    let passes = [
        " [call] op=[aten::add.Tensor], key=[CUDA]",
        "  [redispatchBoxed] op=[aten::add.Tensor], key=[Meta]",
    ];
    assert_eq!(lines, passes);
    // the program of the others is compiled by the first call
    x.add(&y)?;
    let before = driver_calls("cuLaunchKernel");
    let (z, how) = ways(|| x.add(&y));
    let z = z?;
    assert_eq!(how, [("aten::add.Tensor".to_string(), Way::Loops)]);
    if let (Some(before), Some(now)) = (before, driver_calls("cuLaunchKernel")) {
        assert_eq!(now - before, 1);
    }
    assert_eq!((z.device(), z.sizes(), z.dtype()), (gpu, &[2, 2][..], DType::F64));
    assert_eq!(z.detach()?.reshape([4])?.to_vec::<f64>()?, [11.0, 22.0, 13.0, 24.0]);
    Ok(())
}

/// Step 7: the result has a node, whose edges lead to the operands; its gradients have their sizes, dtypes
/// and device.
#[test]
fn the_result_leads_back_to_the_operands() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let [x, y] = operands(gpu)?;
    let z = x.add(&y)?;
    let node = z.grad_fn().expect("a node");
    assert!(node.name().starts_with("AddBackward"), "{}", node.name());
    assert_eq!(node.next_functions().len(), 2);
    z.sum()?.backward()?;
    for (t, want) in [(&x, [1.0; 4].to_vec()), (&y, [2.0; 2].to_vec())] {
        let grad = t.grad().expect("a gradient");
        assert_eq!((grad.device(), grad.dtype(), grad.sizes()), (gpu, t.dtype(), t.sizes()));
        let numbers = grad.to_dtype(DType::F64)?.reshape([-1])?.to_vec::<f64>()?;
        assert_eq!(numbers, want);
    }
    Ok(())
}
