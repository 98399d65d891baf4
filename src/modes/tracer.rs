//! The tracer: records operator calls into a graph.
//!
//! While a function is captured, `Tracer` and `Functionalize` are in the thread's included keys.
//! By c10's order `Tracer` comes first, so its kernel has two roles. Called from the user's code it
//! notes which operator the user called and passes the call on: composites fall apart, views and
//! writes are made functional. The calls that `Functionalize` then makes, with itself excluded,
//! reach the tracer again, and these it records: their results come from the operator's Meta
//! kernel, and stand for values of the graph.

mod sized_by_data;

use super::{dependent, outside};
use crate::dispatch::{
    DispatchError, DispatchKey, DispatchKeySet, Kernel, Lines, OperatorHandle, Stack, TlsKeySets,
    Value, grad_enabled, meta,
};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use crate::tensor::watcher::Line;
use std::cell::RefCell;
use std::sync::Arc;
use straightline_catalog::{Arg, Op, TensorMeta};
use straightline_catalog::{Device, Scalar};
use straightline_passes::ir::graph::{EagerCall, Graph, Provenance, SourceLine, ValueRef};

/// The graph that this thread is capturing.
pub(crate) struct Recording {
    /// What has been recorded.
    pub(crate) graph: Graph,
    /// The operator that the user called, while it runs, and the line.
    outer_op: Option<OperatorHandle>,
    /// The line that called it.
    line: Option<Line>,
    /// The call that eager code makes in place of the one that is recorded next.
    eager: Option<Arc<EagerCall>>,
    /// Has calls note their lines.
    _lines: Lines,
    /// Tells graphs apart: a value of another graph must not be used.
    id: u64,
    /// The capture that it belongs to, which is the `id` of its outermost graph.
    capture: u64,
    /// Results of calls that are made where gradients are switched off are marked by `detach`.
    constants: bool,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
    /// The graphs around the one that is being recorded, outermost first: it is that of a branch or of
    /// a loop.
    static AROUND: RefCell<Vec<Recording>> = const { RefCell::new(Vec::new()) };
}

/// The graph value that a traced tensor stands for.
struct TracedValue {
    graph: u64,
    value: ValueRef,
}

/// In the number of a graph that is none of a whole function.
const INNER: u64 = 1 << 63;

fn next_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Recording {
    fn new(id: u64, capture: u64) -> Recording {
        Recording {
            graph: Graph::new(),
            outer_op: None,
            line: None,
            eager: None,
            _lines: Lines::noted(),
            id,
            capture,
            constants: false,
        }
    }
}

/// Starts recording on this thread; fails if it is already recording.
pub(crate) fn start() -> Result<u64> {
    let excluded = TlsKeySets::current().excluded;
    ensure_compile!(
        !excluded.has(DispatchKey::Tracer) && !excluded.has(DispatchKey::Functionalize),
        "nothing can be captured here: this thread excludes the keys that capture works at, as it does in the \
             handler of a dispatch mode or wrapper tensor. Capture the function before, or restore the keys with \
             `modes::reentrant_dispatch`"
    );
    let id = next_id();
    if RECORDING.with_borrow(Option::is_some) {
        return Err(outside::refuse(
            "`trace` of another function",
            "this thread is capturing a function already: trace it outside, or call it",
            None,
        ));
    }
    RECORDING.with_borrow_mut(|r| {
        *r = Some(Recording::new(id, id));
        Ok(id)
    })
}

/// Ends recording and returns what was recorded.
pub(crate) fn stop() -> Option<Recording> {
    RECORDING.take()
}

/// The capture that runs on this thread.
pub(crate) fn current() -> Option<u64> {
    RECORDING.with_borrow(|r| r.as_ref().map(|r| r.capture))
}

/// The graph that is being recorded: that of the function, or of a branch or loop in it.
pub(crate) fn scope() -> Option<u64> {
    RECORDING.with_borrow(|r| r.as_ref().map(|r| r.id))
}

/// Whether this graph is around the one that is being recorded.
pub(crate) fn is_around(scope: u64) -> bool {
    AROUND.with_borrow(|all| all.iter().any(|r| r.id == scope))
}

/// Whether a branch or the body of a loop is being recorded.
pub(crate) fn in_subgraph() -> bool {
    RECORDING.with_borrow(|r| r.as_ref().is_some_and(|r| r.id != r.capture))
}

/// Records a graph of its own while `f` runs. With `constants`, results of calls that are made where
/// gradients are switched off are marked by `detach`, so that the graph's gradient is that of `f`.
///
/// # Errors
///
/// Nothing is being captured; those of `f`.
pub(crate) fn subgraph<R>(constants: bool, f: impl FnOnce() -> Result<R>) -> Result<(Graph, R)> {
    let capture = current().ok_or_else(|| Error::compile("nothing is being captured"))?;
    struct End;
    impl End {
        fn end() -> Option<Recording> {
            RECORDING.replace(AROUND.with_borrow_mut(Vec::pop))
        }
    }
    impl Drop for End {
        fn drop(&mut self) {
            End::end();
        }
    }
    let mut inner = Recording::new(next_id() | INNER, capture);
    inner.constants = constants && grad_enabled();
    let outer = RECORDING.replace(Some(inner));
    AROUND.with_borrow_mut(|all| all.extend(outer));
    let end = End;
    let done = f();
    std::mem::forget(end);
    let inner = End::end().ok_or_else(|| Error::compile("a graph was ended within another"))?;
    Ok((inner.graph, done?))
}

/// Runs `f` as if the graph that is being recorded were not: what it records goes to the one around.
pub(crate) fn one_out<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Recording>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(inner) = self.0.take() {
                let outer = RECORDING.replace(Some(inner));
                AROUND.with_borrow_mut(|all| all.extend(outer));
            }
        }
    }
    let outer = AROUND.with_borrow_mut(Vec::pop);
    let _back = Back(outer.and_then(|outer| RECORDING.replace(Some(outer))));
    f()
}

/// Whether an operator that the captured function called is running.
pub(crate) fn in_operator() -> bool {
    RECORDING.with_borrow(|r| r.as_ref().is_some_and(|r| r.outer_op.is_some()))
}

/// The operator that the captured function called and that is running.
pub(crate) fn operator_name() -> Option<Arc<str>> {
    let op = RECORDING.with_borrow(|r| r.as_ref()?.outer_op)?;
    Some(op.name().to_string().into())
}

/// The line that called it.
pub(crate) fn operator_line() -> Option<Line> {
    RECORDING.with_borrow(|r| r.as_ref()?.line)
}

/// Works on the graph being recorded.
pub(crate) fn with_recording<R>(f: impl FnOnce(&mut Recording) -> Result<R>) -> Result<R> {
    RECORDING.with_borrow_mut(|r| match r {
        Some(r) => f(r),
        None => Err(Error::compile(
            "a traced tensor was used outside the function that is being captured",
        )),
    })
}

/// A tensor without data that stands for a graph value.
pub(crate) fn traced(graph: u64, value: ValueRef, meta: &TensorMeta) -> Tensor {
    let storage = Storage::without_data(meta.storage_bytes());
    Tensor::build_with(
        storage,
        meta.dtype,
        meta.device,
        meta.sizes.clone(),
        meta.strides.clone(),
        0,
        DispatchKeySet::for_device(meta.device.kind),
        Some(Arc::new(TracedValue { graph, value })),
    )
}

/// The graph value of a traced tensor.
pub(crate) fn value_of(t: &Tensor) -> Result<ValueRef> {
    let traced = t.extra().and_then(|e| e.downcast_ref::<TracedValue>());
    match traced {
        Some(v) if Some(v.graph) == scope() => Ok(v.value),
        Some(_) => Err(Error::compile(
            "a tensor that was made while another function was captured has leaked into this one",
        )),
        None => {
            Err(Error::compile("a tensor reached the tracer without having passed Functionalize"))
        }
    }
}

/// The value in the function's graph of a traced tensor, of any capture.
pub(crate) fn recorded(t: &Tensor) -> Option<ValueRef> {
    let traced = t.extra().and_then(|e| e.downcast_ref::<TracedValue>());
    traced.filter(|v| v.graph & INNER == 0).map(|v| v.value)
}

/// The fallback kernel at the `Tracer` key.
pub(crate) fn kernel() -> Kernel {
    Kernel::boxed(|op, keys, stack| {
        outside::used(op);
        let below = TlsKeySets::current();
        if below.excluded.has(DispatchKey::Functionalize) {
            return record(op, stack);
        }
        let outermost = enter(op);
        if outermost && let Err(e) = check_generators(op, stack) {
            leave();
            return Err(e);
        }
        let rest = keys & DispatchKeySet::full_after(DispatchKey::Tracer);
        let result = op.redispatch_boxed(rest, stack);
        if outermost {
            if let Err(e) = &result {
                outside::failed(op, e);
            }
            leave();
        }
        result
    })
}

/// Notes the user's operator; `false` inside another one.
fn enter(op: OperatorHandle) -> bool {
    RECORDING.with_borrow_mut(|r| match r {
        Some(r) if r.outer_op.is_none() => {
            r.outer_op = Some(op);
            r.line = crate::dispatch::line();
            true
        }
        _ => false,
    })
}

fn leave() {
    RECORDING.with_borrow_mut(|r| {
        if let Some(r) = r {
            r.outer_op = None;
            r.line = None;
        }
    });
}

/// Runs `f`, which records other calls in place of one of this operator: an error of a replay names
/// what eager code calls.
pub(crate) fn in_place_of<R>(op: OperatorHandle, args: &[Value], f: impl FnOnce() -> R) -> R {
    let set = |call: Option<Arc<EagerCall>>| {
        RECORDING
            .with_borrow_mut(|r| r.as_mut().and_then(|r| std::mem::replace(&mut r.eager, call)))
    };
    let before = set(eager_call(op, args));
    let result = f();
    set(before);
    result
}

/// A call with its operands' shapes; `None` if it has arguments that graphs have not.
fn eager_call(op: OperatorHandle, args: &[Value]) -> Option<Arc<EagerCall>> {
    let mut operands = Vec::new();
    let args = (args.iter())
        .map(|v| {
            to_arg(op.name(), v, &mut |t| {
                operands.push(t.meta());
                Ok(operands.len() as u32 - 1)
            })
        })
        .collect::<Result<_>>()
        .ok()?;
    let op = op.op()?;
    Some(Arc::new(EagerCall { op, args, operands }))
}

/// [`meta::run`], with the error of operators of ours that refuse complex numbers where their Meta
/// kernels do not look.
pub(crate) fn run_meta(op: OperatorHandle, args: &[Value]) -> Result<(Vec<Value>, Device)> {
    let done = meta::run(op, args);
    let for_want_of_data = |e: &Error| matches!(e.kind(), ErrorKind::DataDependent { .. });
    let complex = |t: &Tensor| t.dtype().is_complex();
    if done.as_ref().err().is_none_or(for_want_of_data)
        && args.iter().flat_map(Value::tensors).any(complex)
    {
        check_complex(op, args)?;
    }
    done
}

/// A plan draws from the default generator of its device, which need not be named.
fn check_generators(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let args = op.arity()?;
    let at = stack.len().saturating_sub(args);
    if !stack[at..].iter().any(|v| matches!(v, Value::Generator(_))) {
        return Ok(());
    }
    let tensor = stack[at..].iter().flat_map(Value::tensors).next().map(Tensor::device);
    let named = stack[at..].iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    let device = named.or(tensor).unwrap_or(Device::CPU);
    for v in &mut stack[at..] {
        match v {
            Value::Generator(g) if g.is_default_of(device) => *v = Value::None,
            Value::Generator(_) => return Err(own_generator(op)),
            _ => {}
        }
    }
    Ok(())
}

#[cold]
fn own_generator(op: OperatorHandle) -> Error {
    outside::refuse(
        &format!("`{}` with a generator of one's own", op.name()),
        "a compiled call draws from the default generator: leave the generator out and seed the default one with \
         `manual_seed` before the call, or draw the numbers before and pass them as an argument",
        None,
    )
}

/// Kernels find out in their loops that they have none for complex numbers, which a call on shapes
/// does not reach, and a plan does not if nobody uses the result: the kernel is called on
/// operands of one element each (or none, as they have), by a thread that captures nothing. What
/// else it says of those is not so of the real ones.
#[cold]
fn check_complex(op: OperatorHandle, args: &[Value]) -> Result<()> {
    let name = op.name();
    if name.namespace() != Some("aten") || op.op().is_some_and(|op| op.facts().draws) {
        return Ok(());
    }
    let one = |t: &Tensor| {
        let sizes = t.sizes().iter().map(|n| (*n).min(1)).collect::<Vec<_>>();
        let one = Tensor::allocate_contiguous(t.dtype(), Device::CPU, &sizes)?;
        crate::ops::copy::zero_(&one)?;
        Ok(one)
    };
    let mut stack = args.iter().map(|v| v.map_tensors(one)).collect::<Result<Stack>>()?;
    let call = || op.redispatch_boxed(DispatchKey::CPU.into(), &mut stack);
    let called = std::thread::scope(|scope| scope.spawn(call).join());
    let Ok(Err(e)) = called else { return Ok(()) };
    let why = e.kind().to_string();
    if !(why.contains("not implemented for") && why.contains("complex")) {
        return Ok(());
    }
    // without the operands, which were not the caller's
    Err(match e.kind() {
        ErrorKind::Kernel(kernel) => Error::new(ErrorKind::Kernel(kernel.clone())),
        ErrorKind::DType(_) => Error::dtype(why),
        _ => Error::not_implemented(why),
    })
}

/// A graph has dense values only.
#[cold]
fn made_of_another_kind(op: OperatorHandle, kind: &str) -> Error {
    outside::refuse(
        &format!("`{}`, whose result is {kind},", op.name()),
        "the values of a graph are dense: make the tensor before the call and pass it as an argument, or work on its parts",
        None,
    )
}

/// An operator of PyTorch's that has no shapes to give for a graph: those that make tensors of
/// other kinds.
#[cold]
fn unknown(op: OperatorHandle, e: Error) -> Error {
    let missing = matches!(e.kind(), ErrorKind::Dispatch(DispatchError::NoMetaKernel { .. }));
    if !missing || op.name().namespace() != Some("aten") {
        return e;
    }
    outside::refuse(
        &format!("`{}`", op.name()),
        "it has no kernel that tells the shape and the kind of its result without data: call it before, and pass what it \
         gives as an argument",
        None,
    )
}

fn record(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let schema = op.schema().ok_or_else(|| {
        Error::compile(format!("`{}` has no schema, so its calls cannot be captured", op.name()))
    })?;
    let args = stack.split_off(stack.len() - schema.args.len());
    let (results, device, dependent) = match run_meta(op, &args) {
        Ok((results, device)) => (results, device, false),
        Err(e) => match sized_by_data::results(op, &args, &e) {
            Some(results) => {
                let first = args.iter().flat_map(Value::tensors).next();
                (results?, first.map_or(Device::CPU, Tensor::device), true)
            }
            None => return Err(unknown(op, e)),
        },
    };
    let mut made = results.iter().flat_map(Value::tensors);
    if let Some((kind, _)) = made.find_map(Tensor::kind_without_memory) {
        return Err(made_of_another_kind(op, kind));
    }
    let mut graph_args = Vec::with_capacity(args.len());
    for v in &args {
        graph_args.push(to_arg(op.name(), v, &mut value_of)?);
    }
    let mut metas: Vec<TensorMeta> = Vec::new();
    for t in results.iter().flat_map(Value::tensors) {
        metas.push(TensorMeta { device, ..t.meta() });
    }
    // the kernel that eager execution runs is not the one that is known by the name
    let op = match op.is_replaced() {
        true => super::functionalize::called(op, schema)?,
        false => op,
    };
    let (graph, first) = with_recording(|r| {
        let called =
            op.op().ok_or_else(|| Error::compile(format!("`{}` has no schema", op.name())))?;
        let results = metas.iter().cloned().collect();
        let graph_args = (called.fitted(graph_args)).map_err(|e| Error::compile(e.to_string()))?;
        let first = r.graph.complete_call(called, graph_args, results);
        r.graph.node_mut(first.node).provenance = Provenance {
            location: match crate::dispatch::source_line() {
                Some(line) => Some(SourceLine::Text(line)),
                None => r.line.map(SourceLine::Caller),
            },
            outer_op: r.outer_op.and_then(|op| op.op()).filter(|op| *op != called),
            eager: r.eager.clone(),
            text: None,
        };
        Ok((r.id, first))
    })?;
    if dependent {
        dependent::note(first.node);
    }
    let constant = !grad_enabled() && with_recording(|r| Ok(r.constants))?;
    let mut next = 0;
    let mut wrap = |t: &Tensor| {
        let mut value = ValueRef { node: first.node, index: next };
        next += 1;
        if constant && t.dtype().is_floating() {
            let meta = TensorMeta { device, ..t.meta() };
            let detached = |r: &mut Recording| {
                let results = [meta].into_iter().collect();
                Ok(r.graph.complete_call(Op::detach, vec![Arg::Tensor(value)], results))
            };
            value = with_recording(detached).unwrap_or(value);
        }
        traced(graph, value, &TensorMeta { device, ..t.meta() })
    };
    for v in &results {
        stack.push(match v {
            Value::Tensor(t) => Value::Tensor(wrap(t)),
            Value::TensorList(l) => Value::TensorList(l.iter().map(&mut wrap).collect()),
            Value::None => Value::None,
            other => {
                let what = format!("`{}`, which returns a {},", op.name(), other.type_name());
                let why = "it has no value before the compiled call runs: call it outside";
                return Err(outside::refuse(&what, why, None));
            }
        });
    }
    Ok(())
}

/// The arguments of a view without its tensors, as far as a graph can have them. The tensor that is
/// viewed, at position `viewed`, may be missing, as it is from what is kept to view again.
pub(crate) fn shape_args(args: &[Value], viewed: usize) -> Result<Vec<Arg<()>>> {
    let arg = |(i, v): (usize, &Value)| match i == viewed {
        true => Ok(Arg::Tensor(())),
        false => to_arg("a view operator", v, &mut |_| Ok(())),
    };
    args.iter().enumerate().map(arg).collect()
}

/// A value as an argument in a graph, its tensors as `tensor` has them.
pub(crate) fn to_arg<V>(
    op: impl std::fmt::Display,
    v: &Value,
    tensor: &mut dyn FnMut(&Tensor) -> Result<V>,
) -> Result<Arg<V>> {
    Ok(match v {
        Value::None => Arg::None,
        Value::Tensor(t) => Arg::Tensor(tensor(t)?),
        Value::Bool(b) => Arg::Scalar(Scalar::Bool(*b)),
        Value::Int(i) => Arg::Scalar(Scalar::Int(*i)),
        Value::Double(x) => Arg::Scalar(Scalar::Float(*x)),
        Value::Complex(re, im) => Arg::Scalar(Scalar::Complex(*re, *im)),
        Value::String(s) => Arg::Str(s.clone()),
        Value::Device(d) => Arg::Device(*d),
        Value::DType(d) => Arg::DType(*d),
        Value::Layout(l) => Arg::Layout(*l),
        Value::MemoryFormat(m) => Arg::MemoryFormat(*m),
        Value::IntList(l) => Arg::Ints(l.clone()),
        Value::DoubleList(l) => Arg::Floats(l.clone()),
        Value::BoolList(l) => Arg::Bools(l.clone()),
        Value::TensorList(l) => {
            Arg::Tensors(l.iter().map(|t| tensor(t).map(Some)).collect::<Result<_>>()?)
        }
        Value::OptionalTensorList(l) => Arg::Tensors(
            l.iter().map(|t| t.as_ref().map(&mut *tensor).transpose()).collect::<Result<_>>()?,
        ),
        Value::Generator(_) | Value::ScalarList(_) | Value::Tuple(_) | Value::Object(_) => {
            return Err(Error::compile(format!(
                "`{}` takes a {} argument, which cannot be captured: call it outside `compile()` \
                 and pass the result in",
                op,
                v.type_name()
            )));
        }
    })
}

impl Recording {
    /// Which graph it is.
    pub(crate) fn scope(&self) -> u64 {
        self.id
    }

    /// Adds an input that no tensor stands for yet.
    pub(crate) fn input(&mut self, name: &str, meta: &TensorMeta) -> Tensor {
        let value = self.graph.input(name, meta.clone());
        traced(self.id, value, meta)
    }

    /// Adds a parameter or input node for a real tensor and returns the traced tensor for it.
    pub(crate) fn leaf(&mut self, name: &str, t: &Tensor, input: bool) -> Tensor {
        let meta = t.meta();
        let value = if input {
            self.graph.input(name, meta.clone())
        } else {
            self.graph.parameter(name, meta.clone())
        };
        let traced = traced(self.id, value, &meta);
        if t.is_wrapped_number() { traced.into_wrapped_number() } else { traced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use straightline_catalog::DType;

    #[test]
    fn meta_arguments_follow_an_explicit_device() {
        let (_, device) =
            meta::meta_arguments(&[Value::IntList(vec![2]), Value::Device(Device::META)]);
        assert_eq!(device, Device::META);
        let (args, device) =
            meta::meta_arguments(&[Value::Tensor(Tensor::from_slice(&[1f32], &[1]).unwrap())]);
        assert_eq!(device, Device::CPU);
        assert_eq!(args[0].as_tensor().unwrap().device(), Device::META);
        assert_eq!(args[0].as_tensor().unwrap().dtype(), DType::F32);
    }

    #[test]
    fn recording_is_exclusive_per_thread() {
        let id = start().unwrap();
        assert_eq!(current(), Some(id));
        assert!(start().is_err());
        assert!(stop().is_some());
        assert_eq!(current(), None);
    }
}
