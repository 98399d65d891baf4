//! The tutorial: traces of `ones`, `randn`, `to` and `add`, a library of its own, and the dumps.

use super::support::*;
use straightline::dispatch::{
    DispatchKey as K, DispatchKeySet, ExcludeGuard, Kernel, Library, Value, capture, dump,
    dump_table,
};
use straightline::ops::aten;
use straightline::{
    DType, Device, DeviceType, Layout, MemoryFormat, Result, Scalar, Tensor, library, library_impl,
};

#[test]
fn ones_on_the_cpu() {
    let _turn = turn();
    let (out, lines) = capture(|| aten::ones(&[4, 4], None, None, None, None));
    assert_eq!(out.unwrap().to_vec::<f32>().unwrap(), [1.0; 16]);
    assert_eq!(
        lines,
        [
            " [call] op=[aten::ones], key=[BackendSelect]",
            "  [redispatch] op=[aten::ones], key=[CPU]",
            "   [call] op=[aten::empty.memory_format], key=[BackendSelect]",
            "    [redispatch] op=[aten::empty.memory_format], key=[CPU]",
            "   [call] op=[aten::fill_.Scalar], key=[CPU]",
        ]
    );
}

#[test]
fn randn_on_the_cpu() {
    let _turn = turn();
    let (out, lines) = capture(|| aten::randn(&[4, 4], None, None, None, None));
    assert_eq!(out.unwrap().sizes(), [4, 4]);
    assert_eq!(
        lines,
        [
            " [call] op=[aten::randn], key=[BackendSelect]",
            "  [redispatch] op=[aten::randn], key=[CPU]",
            "   [call] op=[aten::empty.memory_format], key=[BackendSelect]",
            "    [redispatch] op=[aten::empty.memory_format], key=[CPU]",
            "   [call] op=[aten::normal_], key=[CPU]",
        ]
    );
}

/// What a tensor of the toy XLA backend holds.
struct Buffer(Tensor);

fn on_xla(t: Tensor) -> Result<Tensor> {
    // XLA tensors are functional: they carry the key themselves
    let keys = on(DeviceType::Xla).key_set().add(K::Functionalize);
    let (sizes, dtype) = (t.sizes().to_vec(), t.dtype());
    Tensor::opaque(Buffer(t), &sizes, dtype, Device::new(DeviceType::Xla)).keys(keys).build()
}

fn to_cpu(t: &Tensor) -> Result<Tensor> {
    let cpu = Some(Device::CPU);
    aten::to_dtype_layout(t, None, None, cpu, None, false, true, None)
}

/// The XLA block: a backend that is not there, made of a kernel for each operator that the trace
/// shows. The labels are those of typed calls, so its autograd kernels are typed.
#[test]
fn to_and_add_on_xla() {
    let _turn = turn();
    let to_copy = op("aten::_to_copy");
    #[rustfmt::skip]
    let typed = to_copy
        .typed::<(&Tensor, Option<DType>, Option<Layout>, Option<Device>, Option<bool>, bool, Option<MemoryFormat>), Tensor>()
        .unwrap();
    let add = op("aten::add.Tensor").typed::<(&Tensor, &Tensor, Scalar), Tensor>().unwrap();
    let mut over = Library::implementation("aten", K::Autograd).unwrap();
    over.impl_(
        "_to_copy",
        move |keys: DispatchKeySet,
              x: &Tensor,
              dtype: Option<DType>,
              layout: Option<Layout>,
              device: Option<Device>,
              pin: Option<bool>,
              non_blocking: bool,
              format: Option<MemoryFormat>| {
            let _below = ExcludeGuard::below_ad_inplace_or_view();
            let args = (x, dtype, layout, device, pin, non_blocking, format);
            typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, args)
        },
    )
    .unwrap();
    over.impl_("add.Tensor", move |keys: DispatchKeySet, x: &Tensor, y: &Tensor, alpha: Scalar| {
        let _below = ExcludeGuard::below_ad_inplace_or_view();
        add.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x, y, alpha))
    })
    .unwrap();
    let mut functional = Library::implementation("aten", K::Functionalize).unwrap();
    functional
        .impl_(
            "add.Tensor",
            Kernel::boxed(|op, _, stack| {
                // a fresh call, as the fallback of Functionalize makes it
                let _without = ExcludeGuard::skip_functionalize();
                op.call_boxed(stack)
            }),
        )
        .unwrap();
    let mut xla = Library::implementation("aten", K::XLA).unwrap();
    xla.impl_(
        "_to_copy",
        |x: &Tensor,
         _: Option<DType>,
         _: Option<Layout>,
         _: Option<Device>,
         _: Option<bool>,
         _: bool,
         _: Option<MemoryFormat>| {
            // the data is fetched once for its shape and once for its transfer
            let host = to_cpu(x)?;
            to_cpu(&host)?;
            on_xla(host)
        },
    )
    .unwrap();
    xla.impl_("add.Tensor", |x: &Tensor, y: &Tensor, alpha: Scalar| {
        let dtype = aten::result_type_tensor(x, y)?;
        aten::result_type_tensor(y, x)?;
        let number = aten::item(&aten::to_dtype(y, dtype, false, false, None)?)?;
        let values = x.payload::<Buffer>().expect("of this backend").0.to_vec::<f32>()?;
        let step = number.as_f64() as f32 * alpha.as_f64() as f32;
        let sums: Vec<f32> = values.iter().map(|v| v + step).collect();
        on_xla(Tensor::from_slice(&sums, x.sizes())?)
    })
    .unwrap();

    let t = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let device = Some(Device::new(DeviceType::Xla));
    let (x, lines) =
        capture(|| aten::to_dtype_layout(&t, None, None, device, None, false, false, None));
    let x = x.unwrap();
    // The two inner calls copy inside to.dtype_layout; the tutorial's show no copy, as its tensors
    // are on the CPU already. Both are below the lines that the tutorial prints.
    let shown: Vec<&String> = lines.iter().filter(|l| l.find('[').unwrap() <= 6).collect();
    assert_eq!(
        shown,
        [
            " [call] op=[aten::to.dtype_layout], key=[AutogradCPU]",
            "  [call] op=[aten::_to_copy], key=[AutogradCPU]",
            "   [redispatch] op=[aten::_to_copy], key=[BackendSelect]",
            "    [redispatch] op=[aten::_to_copy], key=[XLA]",
            "     [call] op=[aten::to.dtype_layout], key=[BackendSelect]",
            "      [redispatch] op=[aten::to.dtype_layout], key=[CPU]",
            "     [call] op=[aten::to.dtype_layout], key=[BackendSelect]",
            "      [redispatch] op=[aten::to.dtype_layout], key=[CPU]",
        ]
    );

    let one = Tensor::wrapped_number(1).unwrap();
    let (y, lines) = capture(|| aten::add_tensor(&x, &one, Scalar::Int(1)));
    let y = y.unwrap();
    assert_eq!(y.payload::<Buffer>().unwrap().0.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    assert_eq!(
        lines,
        [
            " [call] op=[aten::add.Tensor], key=[AutogradXLA]",
            "  [redispatch] op=[aten::add.Tensor], key=[Functionalize]",
            "   [callBoxed] op=[aten::add.Tensor], key=[XLA]",
            "    [call] op=[aten::result_type.Tensor], key=[XLA]",
            "    [call] op=[aten::result_type.Tensor], key=[XLA]",
            "    [call] op=[aten::to.dtype], key=[CPU]",
            "     [call] op=[aten::_to_copy], key=[BackendSelect]",
            "      [redispatch] op=[aten::_to_copy], key=[CPU]",
            "       [call] op=[aten::empty_strided], key=[BackendSelect]",
            "        [redispatch] op=[aten::empty_strided], key=[CPU]",
            "       [call] op=[aten::copy_], key=[CPU]",
            "    [call] op=[aten::item], key=[CPU]",
            "     [call] op=[aten::_local_scalar_dense], key=[CPU]",
        ]
    );
}

/// `TORCH_LIBRARY(xla_ops, m)` and `TORCH_LIBRARY_IMPL(xla_ops, XLA, m)`.
#[test]
fn a_library_for_xla() {
    let _turn = turn();
    let log = Log::default();
    let _defined = library!(xla_ops, |m| {
        m.def("ax_by(Tensor self, Tensor other, Scalar a, Scalar b) -> Tensor")?;
        Ok(())
    })
    .unwrap();
    let ax_by = op("xla_ops::ax_by").typed::<(&Tensor, &Tensor, Scalar, Scalar), Tensor>().unwrap();
    let (x, y) = (on(DeviceType::Xla), on(DeviceType::Xla));
    // only the schema so far
    let error = message(ax_by.call((&x, &y, Scalar::Int(2), Scalar::Int(3))));
    assert!(
        error.contains("Could not run 'xla_ops::ax_by' with arguments from the 'XLA' backend."),
        "{error}"
    );
    let noted = log.clone();
    let _implemented = library_impl!(xla_ops, XLA, |m| {
        m.impl_("ax_by", move |x: &Tensor, _: &Tensor, a: Scalar, b: Scalar| {
            noted.push(format!("Executing xla_ops::ax_by Kernel! {a} {b}"));
            Ok(x.clone())
        })?;
        Ok(())
    })
    .unwrap();
    ax_by.call((&x, &y, Scalar::Int(2), Scalar::Int(3))).unwrap();
    assert_eq!(log.take(), ["Executing xla_ops::ax_by Kernel! 2 3"]);
    // of other backends nothing is known
    let cpu = Tensor::from_vec([1f32], 1).unwrap();
    let error = message(ax_by.call((&cpu, &cpu, Scalar::Int(2), Scalar::Int(3))));
    assert!(
        error.contains("'xla_ops::ax_by' is only available for these backends: [XLA]"),
        "{error}"
    );
}

/// A place: `registered at file:line`, or PyTorch's C++ files.
fn is_place(text: &str) -> bool {
    text.strip_prefix("registered at ")
        .and_then(|p| p.rsplit_once(':'))
        .is_some_and(|(file, line)| !file.is_empty() && line.parse::<u32>().is_ok())
}

#[test]
fn the_dump_of_add() {
    let _turn = turn();
    // the `Named` line of the tutorial's dump is a fallthrough; that key is gone, and Fake stands
    // in
    let mut fallthrough = Library::implementation("aten", K::Fake).unwrap();
    fallthrough.fallthrough("add.Tensor").unwrap();
    let text = dump(op("aten::add.Tensor"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "name: aten::add.Tensor");
    assert_eq!(
        lines[1],
        "schema: aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    );
    assert!(is_place(lines[2].strip_prefix("debug: ").unwrap()), "{}", lines[2]);
    assert_eq!(lines[3], "alias analysis kind: FROM_SCHEMA");
    for line in &lines[4..] {
        let (_, rest) = line.split_once(": ").unwrap();
        let (place, kernel) = rest.split_once(" :: ").unwrap();
        assert!(is_place(place), "{line}");
        assert!(
            [
                "(Tensor _0, Tensor _1, Scalar _2) -> Tensor _0 [ boxed unboxed ]",
                "(none) [ boxed ]",
                "(none) [ fallthrough boxed ]",
            ]
            .contains(&kernel),
            "{line}"
        );
    }
    let keys: Vec<&str> = lines[4..].iter().map(|l| l.split(": ").next().unwrap()).collect();
    assert!(keys.contains(&"CPU") && keys.contains(&"Fake"), "{keys:?}");
    let fake = lines.iter().find(|l| l.starts_with("Fake: ")).unwrap();
    assert!(fake.ends_with(":: (none) [ fallthrough boxed ]"));
    // a newer kernel at a key goes first, and the others say that they are not used
    let mut newer = Library::implementation("aten", K::CPU).unwrap();
    newer.impl_("add.Tensor", |x: &Tensor, _: &Tensor, _: Scalar| Ok(x.clone())).unwrap();
    let text = dump(op("aten::add.Tensor"));
    assert!(text.contains("\nCPU (inactive): registered at "), "{text}");
}

#[test]
fn the_table_of_add() {
    let _turn = turn();
    let text = dump_table(op("aten::add.Tensor"));
    for line in text.lines() {
        let (key, rest) = line.split_once(": ").unwrap();
        assert!(key.parse::<K>().is_ok() || !key.is_empty());
        let (place, label) = rest.rsplit_once(" [").unwrap();
        assert!(is_place(place.strip_prefix("fallthrough ").unwrap_or(place)), "{line}");
        assert!(label.ends_with(']'));
    }
    assert!(text.lines().any(|l| l.starts_with("CPU: registered at ") && l.ends_with(" [kernel]")));
    assert!(text.contains("\nBackendSelect: fallthrough registered at "), "{text}");
    // an XLA plugin that registers a kernel shows up as in the tutorial; without one the cell is
    // empty, since add's default kernel is for backends that alias
    assert!(!text.contains("\nXLA: "));
    let mut xla = Library::implementation("aten", K::XLA).unwrap();
    xla.impl_("add.Tensor", |x: &Tensor, _: &Tensor, _: Scalar| Ok(x.clone())).unwrap();
    let text = dump_table(op("aten::add.Tensor"));
    assert!(text.lines().any(|l| {
        l.starts_with("XLA: registered at tests/registrations/seeds/dispatcher_tutorial.rs:")
            && l.ends_with(" [kernel]")
    }));
}

/// "Massive conditional block": device and autograd decide, and nobody writes an `if`.
#[test]
fn no_conditional_block() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("tutorial").unwrap();
    let add = lib.def("add(Tensor a, Tensor b) -> Tensor").unwrap();
    for key in [K::CPU, K::CUDA] {
        lib.impl_at("add", key, answers(&log, key.name())).unwrap();
        let autograd = K::AutogradFunctionality.on_backend(key.backend());
        lib.impl_at("add", autograd, passes_on(&log, autograd.name(), K::AutogradOther)).unwrap();
    }
    let run = |device| {
        let args = || Value::from(on(device));
        add.call_boxed(&mut vec![args(), args()]).unwrap();
        let lines = log.take();
        lines.iter().map(|l| l.split(' ').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(run(DeviceType::Cpu), ["AutogradCPU", "CPU"]);
    assert_eq!(run(DeviceType::Cuda), ["AutogradCUDA", "CUDA"]);
    let _below = ExcludeGuard::below_autograd();
    assert_eq!(run(DeviceType::Cuda), ["CUDA"]);
}
