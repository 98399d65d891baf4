//! # Coming from PyTorch
//!
//! Names are PyTorch's wherever Rust allows it. What differs:
//!
//! | PyTorch | here |
//! |---|---|
//! | `torch.tensor([[1., 2.]])` | [`tensor([[1.0, 2.0]])?`](crate::tensor()) |
//! | `torch.zeros(2, 3)` | [`Tensor::zeros([2, 3])?`](crate::Tensor::zeros), or [`zeros`](crate::zeros()) |
//! | `torch.zeros(2, dtype=torch.int64, device="cuda")` | [`Tensor::with(DType::I64).device(device).zeros([2])?`](crate::Tensor::with) |
//! | `x.shape`, `x.dtype`, `x.stride()` | [`x.sizes()`](crate::Tensor::sizes), [`x.dtype()`](crate::Tensor::dtype), [`x.strides()`](crate::Tensor::strides) |
//! | `x[0:2, None, -1]` | [`x.i((0..2, NewAxis, -1))?`](crate::Tensor::i) |
//! | `x[mask] = 0` | [`x.i_put_(&mask, 0)?`](crate::Tensor::i_put_) |
//! | `x.clone()` | [`x.copied()?`](crate::Tensor::copied); `x.clone()` is another handle |
//! | `x + y` | `&x + &y`, which panics where it cannot, or [`x.add(&y)?`](crate::Tensor::add) |
//! | `x.sum()`, `x.sum(dim=-1, keepdim=True)` | `x.sum()?`, `x.sum_dim(-1)?`, and all arguments in [`ops::aten`](crate::ops::aten) |
//! | `x.tolist()`, `x.item()` | [`x.to_vec::<f32>()?`](crate::Tensor::to_vec), [`x.item::<f32>()?`](crate::Tensor::item) |
//! | `torch.ops.aten.add.Tensor(x, y)` | [`ops::aten::add_tensor(&x, &y, Scalar::Int(1))?`](crate::ops::aten), or by name [`dispatch::operator`](crate::dispatch::operator) |
//! | `torch.manual_seed(0)` | [`manual_seed(0)`](crate::manual_seed): the same numbers |
//! | `torch.no_grad()`, `torch.inference_mode()` | [`autograd::no_grad`](crate::autograd::no_grad), [`autograd::inference_mode`](crate::autograd::inference_mode) |
//! | `loss.backward()`, `x.grad` | [`loss.backward()?`](crate::Tensor::backward), [`x.grad()`](crate::Tensor::grad) |
//! | `torch.func.grad`, `vmap`, `jacrev` | [`func`](crate::func) |
//! | `torch.autocast("cpu", torch.bfloat16)` | [`autocast::autocast`](crate::autocast::autocast) |
//! | `nn.Module`, `nn.Linear` | [`nn::Module`](crate::nn::Module) (derive it), [`nn::Linear`](crate::nn::Linear) |
//! | `torch.optim.AdamW` | [`optim::AdamW`](crate::optim::AdamW) |
//! | `torch.utils.data.DataLoader` | [`data`](crate::data) |
//! | `torch.load("model.pt")` | [`files`](crate::files): tensors and plain values, never code |
//! | `safetensors.torch.load_file` | [`load_safetensors`](crate::load_safetensors) |
//! | `torch.export.load("m.pt2")` | [`pt2::load("m.pt2")?`](crate::pt2::load) |
//! | `torch.compile(f)` | [`compile(f)`](crate::compile()) |
//! | `torch.compile(f, dynamic=True)` | the default: the second size gets code for others; [`mark_dynamic`](crate::mark_dynamic) for the first |
//! | `torch._dynamo.explain(f)(x)` | [`f.explain()`](crate::Compiled::explain) |
//! | `TORCH_LOGS=output_code` | [`f.trace(&x)?`](crate::Compiled::trace), `.lower()?`, `.compile()?`, which print |
//! | `fullgraph=True` | the default: what cannot be captured is an error, unless [`eager_fallback`](crate::CompileOptions) |
//! | `torch.cond`, `while_loop`, `scan` | [`control_flow`](crate::control_flow) |
//! | `torch.library.custom_op` | [`dispatch::custom_op`](crate::dispatch::custom_op) |
//! | `TORCH_LIBRARY`, `TORCH_LIBRARY_IMPL` | [`library!`](crate::library), [`library_impl!`](crate::library_impl) |
//! | `TorchDispatchMode`, `__torch_dispatch__` | [`modes::DispatchMode`](crate::modes::DispatchMode), [`modes::TensorSubclass`](crate::modes::TensorSubclass) |
//! | `FakeTensorMode` | [`modes::FakeTensorMode`](crate::modes::FakeTensorMode) |
//! | `torch.profiler.profile` | [`profiler`](crate::profiler) |
//! | `torch.from_dlpack`, `x.__dlpack__()` | [`dlpack::import`](crate::dlpack::import), [`dlpack::export`](crate::dlpack::export) |
//! | `torch.testing.assert_close` | [`assert_close`](crate::assert_close) |
//! | `torch.get_num_threads()` | [`num_threads()`](crate::num_threads) |
//!
//! # What is the same
//!
//! Operators, schemas and overloads; type promotion, also with numbers; broadcasting; strides and memory
//! formats of results; which results are views; in-place semantics and version counters; error messages
//! and classes ([`Error::python_class`](crate::Error::python_class)); random numbers of a seed; the
//! dispatcher's keys and their order.
//!
//! # What to expect of `compile`
//!
//! It compiles in milliseconds, at the first call of a set of sizes, and needs no C++ compiler. A
//! compiled function is `Send + Sync`: threads call it at once. It does not trace Rust: the function
//! runs, and what the dispatcher sees is captured, so a branch on a tensor's *data* is refused by name
//! (as `fullgraph=True` refuses it), while Rust's own `if` and `for` on sizes are simply decided.
//!
//! # From Python
//!
//! The package `straightline` (in `python/`) has the same engine: `torch.compile(model,
//! backend="straightline")`, `straightline.load("m.pt2")` without PyTorch, and
//! `straightline.compile(model, inputs)`, whose calls run no Dynamo.
