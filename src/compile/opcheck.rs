//! `opcheck`: does an operator do what its schema, its Meta kernel and its registrations say?
//! (`torch.library.opcheck`)

use crate::compile::compile;
use crate::dispatch::DispatchError;
use crate::dispatch::ExcludeGuard;
use crate::dispatch::OperatorHandle;
use crate::dispatch::{Stack, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::tracer::run_meta;
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use std::fmt;
use straightline_catalog::DType;
use straightline_catalog::TensorMeta;
use straightline_catalog::key::DispatchKey as K;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{AliasInfo, FunctionSchema};

/// Why a test of [`opcheck`] failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum CheckFailure {
    #[error("the operator has no schema: define it first")]
    NoSchema,
    #[error(
        "the schema has {want} arguments, and {given} were given; those that are left out need a default"
    )]
    Arguments { want: usize, given: usize },
    #[error("the call failed: {0}")]
    Call(String),
    #[error(
        "argument `{argument}` is not defined as mutable but was mutated: write it as `Tensor(a!) {argument}` in the schema"
    )]
    UndeclaredMutation { argument: String },
    #[error(
        "output {output} is not defined to alias argument `{argument}` but shares memory with it: return a clone, or annotate both \
         with the same alias set"
    )]
    UndeclaredAlias { output: usize, argument: String },
    #[error(
        "outputs {first} and {second} share memory, which the schema does not say: return a clone of one"
    )]
    AliasedOutputs { first: usize, second: usize },
    #[error(
        "a call of tensors of the {key} backend does not reach a kernel, whatever is registered below: {reason}"
    )]
    NoAutogradKernel { key: K, reason: String },
    #[error(
        "output {output} requires grad although the call went below autograd: the gradient formula is registered at a backend's key. \
         Register it at the Autograd key, which passes the call on"
    )]
    AutogradBelowAutograd { output: usize },
    #[error("the fake kernel returns {fake} values and the real one {real}")]
    FakeCount { fake: usize, real: usize },
    #[error(
        "output {output}: the fake kernel says {what} {fake} and the real one {real}; `compile()` believes the fake one"
    )]
    FakeMismatch { output: usize, what: &'static str, fake: String, real: String },
    #[error("the {call} call of the compiled operator differs from the eager one in {what}")]
    CompiledMismatch { call: &'static str, what: String },
    #[error(
        "the return of type {ty} has no value while a function is captured, so the operator cannot be in a compiled function"
    )]
    NotCapturable { ty: &'static str },
}

impl From<Error> for CheckFailure {
    fn from(e: Error) -> Self {
        CheckFailure::Call(e.to_string())
    }
}

type Check = std::result::Result<(), CheckFailure>;
type Test = fn(&Subject) -> Check;

/// What [`opcheck`] found: the name of each test and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct OpCheckReport {
    /// The operator.
    pub op: String,
    /// Test and result, in the order of the tests.
    pub results: Vec<(&'static str, std::result::Result<(), CheckFailure>)>,
}

impl OpCheckReport {
    /// Whether all tests succeeded.
    pub fn is_success(&self) -> bool {
        self.results.iter().all(|(_, r)| r.is_ok())
    }

    /// The failure of a test; `None` if it succeeded, or where there is no such test.
    pub fn failure(&self, test: &str) -> Option<&CheckFailure> {
        let (_, result) = self.results.iter().find(|(name, _)| *name == test)?;
        result.as_ref().err()
    }

    /// The report as a result.
    ///
    /// # Errors
    ///
    /// Some test failed; the message is the whole report.
    pub fn into_result(self) -> Result<()> {
        if self.is_success() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Runtime(self.to_string())))
    }
}

impl fmt::Display for OpCheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "opcheck({}):", self.op)?;
        for (name, result) in &self.results {
            match result {
                Ok(()) => writeln!(f, "  {name}: SUCCESS")?,
                Err(e) => writeln!(f, "  {name}: {e}")?,
            }
        }
        Ok(())
    }
}

/// Tests a custom operator or one of ATen on sample arguments. The arguments are copied first and
/// not changed; omitted ones at the end get their defaults.
///
/// | test | what must hold |
/// |---|---|
/// | `test_schema` | only arguments with a `!` are written, and only what shares an alias set shares memory |
/// | `test_autograd_registration` | the autograd key of the arguments' backend leads to a kernel, and gradients are recorded there and not below |
/// | `test_faketensor` | the Meta kernel tells the sizes, strides, dtype and device that the real kernel's results have |
/// | `test_aot_dispatch` | captured and compiled, the operator gives what it gives eagerly, and writes what it writes |
///
/// ```
/// use straightline::Tensor;
/// use straightline::dispatch::{CheckFailure, Library, opcheck, operator, DispatchKey};
///
/// let x = Tensor::from_slice(&[1f32, -2.0, 3.0, -4.0], &[2, 2])?;
/// let report = opcheck(operator("aten::add.Tensor")?, &[(&x).into(), (&x).into()]);
/// assert!(report.is_success(), "{report}");
///
/// // an operator that does not keep its word
/// let mut lib = Library::new("docs_opcheck")?;
/// let op = lib.def("clear(Tensor x) -> Tensor")?;
/// lib.impl_at("clear", DispatchKey::CPU, |x: &Tensor| x.zero_())?;
/// let report = opcheck(op, &[x.into()]);
/// assert_eq!(
///     report.failure("test_schema"),
///     Some(&CheckFailure::UndeclaredMutation { argument: "x".into() })
/// );
/// println!("{report}");
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn opcheck(op: OperatorHandle, args: &[Value]) -> OpCheckReport {
    let name = op.name().to_string();
    let tests: [(&'static str, Test); 4] = [
        ("test_schema", test_schema),
        ("test_autograd_registration", test_autograd_registration),
        ("test_faketensor", test_faketensor),
        ("test_aot_dispatch", test_aot_dispatch),
    ];
    let subject = Subject::new(op, args);
    let results = tests
        .into_iter()
        .map(|(test, run)| match &subject {
            Ok(subject) => (test, run(subject)),
            Err(e) => (test, Err(e.clone())),
        })
        .collect();
    OpCheckReport { op: name, results }
}

/// The operator and its full list of arguments.
struct Subject {
    op: OperatorHandle,
    schema: &'static FunctionSchema,
    args: Vec<Value>,
}

impl Subject {
    fn new(op: OperatorHandle, args: &[Value]) -> std::result::Result<Subject, CheckFailure> {
        let schema = op.schema().ok_or(CheckFailure::NoSchema)?;
        let mut args = args.to_vec();
        let wrong = CheckFailure::Arguments { want: schema.args.len(), given: args.len() };
        if args.len() > schema.args.len() {
            return Err(wrong);
        }
        for arg in &schema.args[args.len()..] {
            match &arg.default {
                Some(d) => args.push(Value::from_default(d, &arg.ty)),
                None => return Err(wrong),
            }
        }
        Ok(Subject { op, schema, args })
    }

    /// Fresh copies of the arguments, which share memory among each other as the originals do.
    fn copies(&self) -> Result<Vec<Value>> {
        let mut storages: Vec<(Storage, Storage)> = Vec::new();
        let mut copy = |t: &Tensor| copy_tensor(&mut storages, t);
        self.args.iter().map(|v| v.map_tensors(&mut copy)).collect()
    }

    fn call(&self, args: Vec<Value>) -> Result<Stack> {
        let mut stack = args;
        self.op.call_boxed(&mut stack)?;
        let returns = &self.schema.returns;
        if stack.len() != returns.len() && !self.schema.varret {
            let want: Vec<String> = returns.iter().map(|r| r.ty.to_string()).collect();
            let got: Vec<&str> = stack.iter().map(Value::type_name).collect();
            return Err(DispatchError::Returns {
                op: self.op.name().to_string(),
                want: format!("({})", want.join(", ")),
                got: format!("({})", got.join(", ")),
            }
            .into());
        }
        Ok(stack)
    }

    /// The operator draws random numbers, so two calls differ.
    fn is_random(&self) -> bool {
        self.op.tags().contains(&"nondeterministic_seeded")
    }
}

/// The same tensor over memory of its own. What has no memory, or a payload that only a backend
/// understands, stays as it is.
fn copy_tensor(storages: &mut Vec<(Storage, Storage)>, t: &Tensor) -> Result<Tensor> {
    if !t.storage().has_data() || t.extra().is_some() {
        return Ok(t.clone());
    }
    let known = storages.iter().find(|(old, _)| old.same(t.storage()));
    let storage = match known {
        Some((_, new)) => new.clone(),
        None => {
            let new = Storage::allocate(t.storage().bytes())?;
            copy_bytes(t.storage(), &new)?;
            storages.push((t.storage().clone(), new.clone()));
            new
        }
    };
    let copy = Tensor::build_with(
        storage,
        t.dtype(),
        t.device(),
        t.sizes(),
        t.strides(),
        t.storage_offset(),
        t.key_set(),
        None,
    );
    Ok(if t.is_wrapped_number() { copy.into_wrapped_number() } else { copy })
}

fn copy_bytes(from: &Storage, to: &Storage) -> Result<()> {
    let (_read, _write) = (from.read()?, to.write()?);
    if let (Some(source), Some(target)) = (from.ptr(), to.ptr()) {
        // SAFETY: both storages hold that many bytes, the guards keep others from writing the one
        // and from touching the other, and they are two allocations.
        unsafe { std::ptr::copy_nonoverlapping(source, target, from.bytes().min(to.bytes())) };
    }
    Ok(())
}

/// The bytes of a tensor's whole storage; none where there is no memory.
fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    let storage = t.storage();
    let _read = storage.read()?;
    Ok(match storage.ptr() {
        // SAFETY: the storage holds that many bytes, and the guard keeps others from writing them.
        Some(p) => unsafe { std::slice::from_raw_parts(p, storage.bytes()) }.to_vec(),
        None => Vec::new(),
    })
}

fn sets(alias: Option<&AliasInfo>, out: &mut Vec<String>) {
    if let Some(a) = alias {
        out.extend(a.before.iter().chain(&a.after).cloned());
        a.elements.iter().for_each(|e| sets(Some(e), out));
    }
}

/// Whether two alias annotations allow shared memory: a set in common, or the wildcard.
fn may_alias(a: Option<&AliasInfo>, b: Option<&AliasInfo>) -> bool {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    sets(a, &mut x);
    sets(b, &mut y);
    let wild = |s: &[String]| s.iter().any(|s| s == "*");
    !x.is_empty() && !y.is_empty() && (wild(&x) || wild(&y) || x.iter().any(|s| y.contains(s)))
}

fn shares(a: &Value, b: &Value) -> bool {
    a.tensors().any(|t| b.tensors().any(|o| t.is_same(o) || t.shares_storage_with(o)))
}

fn test_schema(s: &Subject) -> Check {
    let args = s.copies()?;
    let mut before: Vec<Vec<Vec<u8>>> = Vec::new();
    for v in &args {
        before.push(v.tensors().map(bytes).collect::<Result<_>>()?);
    }
    let outputs = s.call(args.clone())?;
    for (i, v) in args.iter().enumerate() {
        let now: Vec<Vec<u8>> = v.tensors().map(bytes).collect::<Result<_>>()?;
        // memory that a written argument shares with this one may change
        let written =
            (s.schema.args.iter().zip(&args)).any(|(a, other)| a.is_write() && shares(v, other));
        if now != before[i] && !written {
            let argument = s.schema.args[i].name.clone();
            return Err(CheckFailure::UndeclaredMutation { argument });
        }
    }
    for (o, out) in outputs.iter().enumerate() {
        let of_output = s.schema.returns.get(o).and_then(|r| r.alias.as_ref());
        for (arg, v) in s.schema.args.iter().zip(&args) {
            // an argument given twice may be returned if one of the two may
            let allowed = (s.schema.args.iter().zip(&args))
                .any(|(a, other)| shares(v, other) && may_alias(of_output, a.alias.as_ref()));
            if shares(out, v) && !allowed {
                return Err(CheckFailure::UndeclaredAlias {
                    output: o,
                    argument: arg.name.clone(),
                });
            }
        }
        for (p, other) in outputs[..o].iter().enumerate() {
            let of_other = s.schema.returns.get(p).and_then(|r| r.alias.as_ref());
            if shares(out, other) && !may_alias(of_output, of_other) {
                return Err(CheckFailure::AliasedOutputs { first: p, second: o });
            }
        }
    }
    Ok(())
}

fn test_autograd_registration(s: &Subject) -> Check {
    let args = s.copies()?;
    let keys = s.op.argument_keys(&args);
    let autograd = keys & (DispatchKeySet::AUTOGRAD | DispatchKeySet::ALL_BACKENDS);
    let key = autograd.highest_priority_key();
    // a fallthrough is served by a lower key
    let reaches = !s.op.masked(autograd).has(key) || s.op.has_computed_kernel(key);
    if key.is_runtime() && !reaches {
        let error = s.op.kernel_for(key).err();
        return Err(CheckFailure::NoAutogradKernel {
            key,
            reason: error.map_or_else(String::new, |e| e.to_string()),
        });
    }
    let _below = ExcludeGuard::below_autograd();
    let wants = |v: &Value| v.tensors().any(Tensor::requires_grad);
    let outputs = s.call(args.clone())?;
    let new = |out: &Value| !args.iter().any(|a| shares(out, a));
    match outputs.iter().position(|o| wants(o) && new(o)) {
        Some(output) => Err(CheckFailure::AutogradBelowAutograd { output }),
        None => Ok(()),
    }
}

/// The strides that matter: those of dimensions with more than one element.
fn walked(m: &TensorMeta) -> Vec<i64> {
    if m.sizes.contains(&0) {
        return Vec::new();
    }
    let pairs = m.sizes.iter().zip(m.strides.iter());
    pairs.filter(|(n, _)| **n > 1).map(|(_, s)| *s).collect()
}

fn compare_metadata(output: usize, fake: &TensorMeta, real: &TensorMeta) -> Check {
    let differ = |what, fake: String, real: String| match fake == real {
        true => Ok(()),
        false => Err(CheckFailure::FakeMismatch { output, what, fake, real }),
    };
    differ(
        "sizes",
        format!("{:?}", fake.sizes.as_slice()),
        format!("{:?}", real.sizes.as_slice()),
    )?;
    differ("dtype", fake.dtype.to_string(), real.dtype.to_string())?;
    differ("strides", format!("{:?}", walked(fake)), format!("{:?}", walked(real)))?;
    differ("device", fake.device.to_string(), real.device.to_string())
}

fn test_faketensor(s: &Subject) -> Check {
    let real = s.call(s.copies()?)?;
    let (fake, device) = run_meta(s.op, &s.copies()?)?;
    if fake.len() != real.len() {
        return Err(CheckFailure::FakeCount { fake: fake.len(), real: real.len() });
    }
    for (output, (f, r)) in fake.iter().zip(&real).enumerate() {
        let differ = |what, fake: String, real: String| CheckFailure::FakeMismatch {
            output,
            what,
            fake,
            real,
        };
        let (fs, rs): (Vec<&Tensor>, Vec<&Tensor>) = (f.tensors().collect(), r.tensors().collect());
        if f.type_name() != r.type_name() {
            return Err(differ("type", f.type_name().into(), r.type_name().into()));
        }
        if fs.len() != rs.len() {
            return Err(differ("length", fs.len().to_string(), rs.len().to_string()));
        }
        for (f, r) in fs.into_iter().zip(rs) {
            let fake = TensorMeta { device, ..f.meta() };
            compare_metadata(output, &fake, &r.meta())?;
        }
    }
    Ok(())
}

/// The values of a tensor, and how far two runs may be apart: compiled code sums in another order.
fn numbers(t: &Tensor) -> Result<(Vec<f64>, f64)> {
    let tolerance = match t.dtype() {
        DType::F16 | DType::BF16 => 1e-2,
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
        _ => 0.0,
    };
    Ok((t.to_dtype(DType::F64)?.to_vec()?, tolerance))
}

fn close(a: &Tensor, b: &Tensor) -> Result<bool> {
    let ((x, tolerance), (y, _)) = (numbers(a)?, numbers(b)?);
    Ok(a.sizes() == b.sizes()
        && (x.iter().zip(&y)).all(|(x, y)| {
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + y.abs())
        }))
}

fn test_aot_dispatch(s: &Subject) -> Check {
    if let Some(other) = s
        .call(s.copies()?)?
        .iter()
        .find(|v| v.tensors().next().is_none() && !matches!(v, Value::TensorList(_)))
    {
        return Err(CheckFailure::NotCapturable { ty: other.type_name() });
    }
    let (op, args) = (s.op, s.args.clone());
    let compiled = compile(move |inputs: &Vec<Tensor>| {
        let mut inputs = inputs.iter();
        let mut stack = Stack::new();
        for v in &args {
            let mut next = |_: &Tensor| {
                inputs.next().cloned().ok_or_else(|| {
                    Error::new(ErrorKind::Runtime("fewer inputs than tensor arguments".into()))
                })
            };
            stack.push(v.map_tensors(&mut next)?);
        }
        op.call_boxed(&mut stack)?;
        let outputs: Vec<Tensor> = stack.iter().flat_map(Value::tensors).cloned().collect();
        Ok::<_, Error>(outputs)
    });
    let tensors = |values: &[Value]| -> Vec<Tensor> {
        values.iter().flat_map(Value::tensors).cloned().collect()
    };
    // the first call captures and compiles, the second replays
    for call in ["first", "second"] {
        let eager_args = s.copies()?;
        let eager_inputs = tensors(&eager_args);
        let eager = tensors(&s.call(eager_args)?);
        let inputs = tensors(&s.copies()?);
        let outputs = compiled.call(&inputs)?;
        if outputs.len() != eager.len() {
            let what = "the number of outputs".to_string();
            return Err(CheckFailure::CompiledMismatch { call, what });
        }
        for (i, (a, b)) in outputs.iter().zip(&eager).enumerate() {
            compare_metadata(i, &a.meta(), &b.meta()).map_err(|e| {
                CheckFailure::CompiledMismatch {
                    call,
                    what: format!("the shape of output {i}: {e}"),
                }
            })?;
            if !s.is_random() && !close(a, b)? {
                let what = format!("the values of output {i}");
                return Err(CheckFailure::CompiledMismatch { call, what });
            }
        }
        for (i, (a, b)) in inputs.iter().zip(&eager_inputs).enumerate() {
            if !s.is_random() && !close(a, b)? {
                let what = format!("what tensor argument {i} holds afterwards");
                return Err(CheckFailure::CompiledMismatch { call, what });
            }
        }
    }
    Ok(())
}
