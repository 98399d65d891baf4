//! The course page on the dispatcher and ATen: key sets, `linear` traced step by step, the custom
//! operator, the switch.

use super::support::*;
use straightline::dispatch::{
    DispatchKey as K, DispatchKeySet, ExcludeGuard, IncludeGuard, Library, capture, custom_op,
    dump_registrations,
};
use straightline::ops::aten;
use straightline::{DType, Device, DeviceType, Scalar, Tensor};

/// "State the key set of a tensor": backend, layout, autograd and autocast are keys; dtype and
/// "strided" are not, whatever the page's dict of (name, {CPU, Float, Strided}) says.
#[test]
fn the_key_set_of_a_tensor() {
    let _turn = turn();
    let of = |dtype| {
        let x = Tensor::with(dtype).zeros([2]).unwrap();
        x.key_set().to_string()
    };
    assert_eq!(of(DType::F32), "DispatchKeySet(CPU, ADInplaceOrView, AutogradCPU, AutocastCPU)");
    assert_eq!(of(DType::F16), of(DType::F32));
    assert_eq!(
        on(DeviceType::Cuda).key_set().to_string(),
        "DispatchKeySet(CUDA, ADInplaceOrView, AutogradCUDA, AutocastCUDA)"
    );
    // of two tensors it is the union
    let add = op("aten::add.Tensor");
    let both =
        add.argument_keys(&[on(DeviceType::Cuda).into(), on(DeviceType::Cpu).into(), 1i64.into()]);
    assert!(both.has(K::CUDA) && both.has(K::CPU));
    // autograd before autocast, as the page lists them, is the wrong way round: autocast casts
    // first
    let order = both.iter().collect::<Vec<_>>();
    let place = |k: K| order.iter().position(|o| *o == k).unwrap();
    assert!(place(K::AutocastCUDA) > place(K::AutogradCUDA));
    assert!(place(K::AutogradCUDA) > place(K::CUDA));
}

/// Autograd kernels for linear's parts: typed, so that the trace shows typed calls. `t` is a view,
/// so that its kernel leaves ADInplaceOrView to come, where c10 has a kernel too.
fn autograd_kernels(log: &Log) -> (Library, Library) {
    let t = op("aten::t").typed::<(&Tensor,), Tensor>().unwrap();
    let addmm =
        op("aten::addmm").typed::<(&Tensor, &Tensor, &Tensor, Scalar, Scalar), Tensor>().unwrap();
    let mut autograd = Library::implementation("aten", K::Autograd).unwrap();
    autograd
        .impl_("t", move |keys: DispatchKeySet, x: &Tensor| {
            let _below = ExcludeGuard::below_autograd();
            t.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))
        })
        .unwrap();
    let noted = log.clone();
    autograd
        .impl_(
            "addmm",
            move |keys: DispatchKeySet,
                  b: &Tensor,
                  x: &Tensor,
                  w: &Tensor,
                  beta: Scalar,
                  alpha: Scalar| {
                noted.push("records AddmmBackward0");
                let _below = ExcludeGuard::below_ad_inplace_or_view();
                addmm.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (b, x, w, beta, alpha))
            },
        )
        .unwrap();
    let mut view = Library::implementation("aten", K::ADInplaceOrView).unwrap();
    view.impl_("t", move |keys: DispatchKeySet, x: &Tensor| {
        let _below = ExcludeGuard::below_ad_inplace_or_view();
        t.redispatch(keys & DispatchKeySet::AFTER_AD_INPLACE_OR_VIEW, (x,))
    })
    .unwrap();
    (autograd, view)
}

/// c10's `linear(x, W, b)`: at AutogradCPU it *is* its composite body, and only the parts are
/// dispatched further.
#[test]
fn linear_traced_step_by_step() {
    let _turn = turn();
    let log = Log::default();
    let kernels = autograd_kernels(&log);
    let x = Tensor::ones([2, 64]).unwrap();
    let w = Tensor::ones([600, 64]).unwrap();
    let b = Tensor::ones([600]).unwrap();
    let (y, lines) = capture(|| aten::linear(&x, &w, Some(&b)));
    let y = y.unwrap();
    assert_eq!(y.sizes(), [2, 600]);
    assert_eq!(y.to_vec::<f32>().unwrap()[0], 65.0);
    assert_eq!(
        lines,
        [
            " [call] op=[aten::linear], key=[AutogradCPU]",
            "  [call] op=[aten::t], key=[AutogradCPU]",
            "   [redispatch] op=[aten::t], key=[ADInplaceOrView]",
            "    [redispatch] op=[aten::t], key=[CPU]",
            "  [call] op=[aten::addmm], key=[AutogradCPU]",
            "   [redispatch] op=[aten::addmm], key=[CPU]",
        ]
    );
    assert_eq!(log.take(), ["records AddmmBackward0"]);

    // with every other thing that may be on: what is between autograd and the backend sees the
    // parts, what is above autograd sees linear itself
    let mut low = Library::implementation("aten", K::FuncTorchDynamicLayerBackMode).unwrap();
    for part in ["t", "addmm"] {
        low.impl_(part, passes_on(&log, "between", K::FuncTorchDynamicLayerBackMode)).unwrap();
    }
    let mut high = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    high.fallback(passes_on(&log, "above", K::TESTING_ONLY_GenericMode)).unwrap();
    let _on = IncludeGuard::new(DispatchKeySet::of(&[
        K::FuncTorchDynamicLayerBackMode,
        K::TESTING_ONLY_GenericMode,
    ]));
    let (_, lines) = capture(|| aten::linear(&x, &w, Some(&b)).unwrap());
    assert_eq!(
        lines,
        [
            " [call] op=[aten::linear], key=[TESTING_ONLY_GenericMode]",
            "  [redispatchBoxed] op=[aten::linear], key=[AutogradCPU]",
            "   [call] op=[aten::t], key=[TESTING_ONLY_GenericMode]",
            "    [redispatchBoxed] op=[aten::t], key=[AutogradCPU]",
            "     [redispatch] op=[aten::t], key=[ADInplaceOrView]",
            "      [redispatch] op=[aten::t], key=[FuncTorchDynamicLayerBackMode]",
            "       [redispatchBoxed] op=[aten::t], key=[CPU]",
            "   [call] op=[aten::addmm], key=[TESTING_ONLY_GenericMode]",
            "    [redispatchBoxed] op=[aten::addmm], key=[AutogradCPU]",
            "     [redispatch] op=[aten::addmm], key=[FuncTorchDynamicLayerBackMode]",
            "      [redispatchBoxed] op=[aten::addmm], key=[CPU]",
        ]
    );
    drop(kernels);
}

/// The page's own six steps: a wrapper at AutogradCUDA for linear, a CUDA kernel that calls addmm,
/// and again.
#[test]
fn linear_in_the_six_steps_of_the_page() {
    let _turn = turn();
    let log = Log::default();
    let linear = op("aten::linear").typed::<(&Tensor, &Tensor, Option<&Tensor>), Tensor>().unwrap();
    let kernels = autograd_kernels(&log);
    let mut wrapper = Library::implementation("aten", K::AutogradCUDA).unwrap();
    wrapper
        .impl_("linear", move |keys: DispatchKeySet, x: &Tensor, w: &Tensor, b: Option<&Tensor>| {
            linear.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x, w, b))
        })
        .unwrap();
    let mut cuda = Library::implementation("aten", K::CUDA).unwrap();
    cuda.impl_("linear", |x: &Tensor, w: &Tensor, b: Option<&Tensor>| {
        aten::addmm(b.expect("given below"), x, w, Scalar::Int(1), Scalar::Int(1))
    })
    .unwrap();
    let noted = log.clone();
    cuda.impl_("addmm", move |b: &Tensor, x: &Tensor, _: &Tensor, _: Scalar, _: Scalar| {
        noted.push("cuBLAS launches kernel sm80_xmma_gemm_f32f32_*");
        Ok(sized(DeviceType::Cuda, &[x.sizes()[0], b.sizes()[0]]))
    })
    .unwrap();
    let of = |sizes: &[i64]| sized(DeviceType::Cuda, sizes);
    let (x, w, b) = (of(&[2, 64]), of(&[600, 64]), of(&[600]));
    let (y, lines) = capture(|| aten::linear(&x, &w, Some(&b)).unwrap());
    assert_eq!(
        lines,
        [
            " [call] op=[aten::linear], key=[AutogradCUDA]",
            "  [redispatch] op=[aten::linear], key=[CUDA]",
            "   [call] op=[aten::addmm], key=[AutogradCUDA]",
            "    [redispatch] op=[aten::addmm], key=[CUDA]",
        ]
    );
    assert_eq!(
        log.take(),
        ["records AddmmBackward0", "cuBLAS launches kernel sm80_xmma_gemm_f32f32_*"]
    );
    assert_eq!(y.sizes(), [2, 600]);
    drop(kernels);
}

/// `torch._C._dispatch_print_registrations_for_dispatch_key("CUDA")`
#[test]
fn registrations_for_a_key() {
    let _turn = turn();
    let none = dump_registrations(Some(K::CUDA));
    let mut cuda = Library::implementation("aten", K::CUDA).unwrap();
    cuda.impl_("neg", |x: &Tensor| Ok(x.clone())).unwrap();
    let one = dump_registrations(Some(K::CUDA));
    let new: Vec<&str> = one.lines().filter(|l| !none.lines().any(|n| n == *l)).collect();
    assert_eq!(new, ["aten::neg"]);
    // direct registrations at exactly that key: aliases do not count
    assert!(!dump_registrations(Some(K::CPU)).lines().any(|l| l == "aten::linear"));
    assert!(
        dump_registrations(Some(K::CompositeImplicitAutograd)).lines().any(|l| l == "aten::linear")
    );
}

/// `@torch.library.custom_op("mylib::softmax_triton", mutates_args=())` with its fake kernel and
/// its backward.
#[test]
fn softmax_out_of_tree() {
    let _turn = turn();
    let mut softmax = custom_op("mylib::softmax_triton", |x: &Tensor| {
        let values = x.to_vec::<f32>()?;
        let sum: f32 = values.iter().map(|v| v.exp()).sum();
        let out: Vec<f32> = values.iter().map(|v| v.exp() / sum).collect();
        Tensor::from_slice(&out, x.sizes())
    })
    .args(["x"])
    .mutates_args(Vec::<String>::new())
    .register()
    .unwrap();
    softmax
        .register_fake(|x: &Tensor| Tensor::with((x.dtype(), x.device())).empty(x.sizes()))
        .unwrap();
    softmax
        .register_autograd(
            |context, grads| {
                let y = &context.saved[0];
                let Some(g) = &grads[0] else {
                    return Ok(vec![None]);
                };
                let gy = g.mul(y)?;
                Ok(vec![Some(gy.sub(y.mul(gy.sum()?)?)?)])
            },
            |context, _inputs, output| {
                context.saved.extend(output[0].as_tensor().cloned());
                Ok(())
            },
        )
        .unwrap();
    // "dispatches just like any other ATen op"
    let x = Tensor::from_vec([0f32, 0.0], 2).unwrap();
    let typed = softmax.handle().typed::<(&Tensor,), Tensor>().unwrap();
    let (y, lines) = capture(|| typed.call((&x,)).unwrap());
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.5, 0.5]);
    assert_eq!(
        lines,
        [
            " [call] op=[mylib::softmax_triton], key=[AutogradCPU]",
            "  [redispatchBoxed] op=[mylib::softmax_triton], key=[CPU]",
        ]
    );
    let meta = Tensor::with(Device::META).empty([3, 5]).unwrap();
    assert_eq!(typed.call((&meta,)).unwrap().sizes(), [3, 5]);
    let formula = softmax.autograd_formula().unwrap();
    let g = Tensor::from_vec([1f32, 0.0], 2).unwrap();
    let grads = formula.gradients(&[x.into()], &[y.into()], &[Some(g)]).unwrap();
    assert_eq!(grads[0].as_ref().unwrap().to_vec::<f32>().unwrap(), [0.25, -0.25]);
}
