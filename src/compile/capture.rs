//! Capture: the function runs once on stand-ins, and the tracer records what is dispatched.

use super::flat::{self, Handed};
use super::results;
use super::settle::{self, Met};
use super::tape;
use super::traced::{LeafUse, Mutation, Reshape, Surroundings, Traced};
use super::tree::TensorTree;
use crate::autograd::{GradGuard, captured};
use crate::dispatch::{DispatchKey, DispatchKeySet, IncludeGuard, TlsKeySets, fallback_epochs};
use crate::error::{Error, ErrorKind, Result};
use crate::methods::operators;
use crate::modes::functionalize::{self, InputSlot, Leaf, MergedStorages, Owner};
use crate::modes::outside::{self, Asked, Gradient};
use crate::modes::{dependent, tracer};
use crate::tensor::{Held, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use straightline_catalog::{DeviceType, Effects, Op, default_dtype};
use straightline_passes::ir::graph::{Graph, NodeKind, ValueRef};

/// The result of a capture: the graph with its surroundings, and the structure of the result.
pub(super) struct Captured<O> {
    pub(super) traced: Traced,
    /// The function's result; its tensors are stand-ins to be replaced.
    pub(super) output: O,
    /// Which of them are wrappers that the function was given.
    pub(super) handed: Vec<Option<Handed>>,
    pub(super) tls: TlsKeySets,
}

/// How a capture may end well.
pub(super) enum Outcome<O> {
    /// With a graph.
    Captured(Box<Captured<O>>),
    /// The function left tensors in outside state, so its graph cannot be replayed. Its calls have
    /// been made, once, and this is its result. The error says why.
    Performed(O, Error),
    /// The function does with gradients what compiled code cannot: it has to run eagerly.
    Recorded {
        /// What that is.
        why: String,
        /// Another call may be captured.
        once: bool,
    },
}

/// Ends the capture when the function returns or panics.
struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        tracer::stop();
        functionalize::take_leaves();
        outside::end();
    }
}

/// Attempts at capturing: each merges storages that the one before found to be shared.
const ATTEMPTS: usize = 8;

/// Captures `f` for inputs of these shapes.
///
/// Whether tensors that share memory are written is known when `f` has run. If so, `f` runs again,
/// with one graph node for all of them.
pub(super) fn capture<I: TensorTree, O: TensorTree>(
    f: &dyn Fn(&I) -> Result<O>,
    inputs: &I,
) -> Result<Captured<O>> {
    capture_for(f, inputs, Wanted::default())
}

/// [`capture`], with what is `wanted` besides.
pub(super) fn capture_for<I: TensorTree, O: TensorTree>(
    f: &dyn Fn(&I) -> Result<O>,
    inputs: &I,
    wanted: Wanted,
) -> Result<Captured<O>> {
    match capture_or_perform(f, inputs, wanted)? {
        Outcome::Captured(captured) => Ok(*captured),
        Outcome::Performed(_, e) => Err(e),
        Outcome::Recorded { why, .. } => Err(Error::compile(format!(
            "{why}: capture the function under `no_grad`, or call it eagerly"
        ))),
    }
}

/// What a capture is for.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    /// The calls of a function that leaves tensors in outside state are made.
    pub(super) perform: bool,
    /// Results that want gradients give a joint graph.
    pub(super) joint: bool,
}

/// How capturing ends, as far as it ends well.
pub(super) fn capture_or_perform<I: TensorTree, O: TensorTree>(
    f: &dyn Fn(&I) -> Result<O>,
    inputs: &I,
    wanted: Wanted,
) -> Result<Outcome<O>> {
    let _pin = default_dtype::pin(default_dtype::default_dtype());
    let (mut merge, mut bind) = (MergedStorages::new(), wanted.joint);
    for _ in 0..ATTEMPTS {
        match attempt(f, inputs, &merge, wanted, &mut bind)? {
            Ok(outcome) => return Ok(outcome),
            Err(more) => merge = more,
        }
    }
    Err(Error::compile(
        "the function reaches other memory each time it is captured: it must be deterministic",
    ))
}

/// The capture, or the storages that must be merged for it. `bind` says whether `.grad`s that the
/// function reads are arguments.
fn attempt<I: TensorTree, O: TensorTree>(
    f: &dyn Fn(&I) -> Result<O>,
    inputs: &I,
    merge: &MergedStorages,
    wanted: Wanted,
    bind: &mut bool,
) -> Result<Result<Outcome<O>, MergedStorages>> {
    let tls = TlsKeySets::current();
    // start the dispatcher first, so that its registrations are not attributed to the function
    crate::dispatch::handle_of(Op::add_Tensor)?;
    tracer::start()?;
    functionalize::begin(merge.clone());
    outside::begin();
    dependent::take();
    let fallbacks = reached_fallbacks(inputs, tls);
    let scope = Scope;
    let (mut failed, mut index) = (None, 0);
    let stand_ins = flat::map(inputs, |t| {
        index += 1;
        let made = functionalize::wrap_argument(t, index - 1);
        made.inspect(|stand_in| captured::adopt(stand_in, t)).unwrap_or_else(|e| {
            failed.get_or_insert(e);
            t.clone()
        })
    });
    if let Some(e) = failed {
        return Err(e);
    }
    if *bind {
        outside::bind_gradients(index);
    }
    let ran = {
        let _on = recording();
        let run = || outside::run(|| operators::returned(|| f(&stand_ins)));
        catch_unwind(AssertUnwindSafe(run))
    };
    let (output, panicked) = match ran {
        Ok(output) => (output, None),
        Err(panic) => (Err(Error::compile("the function panicked")), Some(panic)),
    };
    let gradients = outside::take_gradients();
    let mut conflicts = functionalize::conflicts();
    let bound = gradients.iter().any(|g| g.touched.argument().is_some());
    let in_parts = bound && dependent::count() > 0;
    if conflicts.is_none() && (in_parts || tape::reached_twice(&gradients)) {
        *bind = false;
        conflicts = Some(merge.clone());
    }
    let mut eager = outside::left_eager();
    if conflicts.is_none() && eager.is_none() {
        eager = tape::refusal(&gradients, &stand_ins, inputs)
            .or_else(|| tape::tangents(inputs, output.as_ref().ok()));
    }
    let done = match conflicts.is_some() || eager.is_some() {
        true => {
            drop(output);
            Err(Error::compile("captured again, or not at all"))
        }
        false => output.and_then(|output| {
            let traced = finish(&output, inputs, &gradients, wanted)?;
            let handed = flat::handed_through(&stand_ins, &output);
            Ok((traced, output.map(&mut Tensor::clone), handed))
        }),
    };
    if done.is_err() && eager.is_none() && conflicts.is_none() {
        conflicts = functionalize::conflicts();
    }
    eager = eager.or_else(outside::left_eager);
    let given_up = match &done {
        Ok(_) => None,
        Err(_) => tracer::stop().map(|recording| recording.graph),
    };
    let (remains, met) = (outside::remains(), Met::now());
    drop(stand_ins);
    drop(scope);
    let mut arguments = Vec::new();
    flat::visit(inputs, |t| arguments.push(t));
    arguments.extend(tape::arguments(&gradients));
    let mut result = Vec::new();
    if let Ok((_, output, _)) = &done {
        flat::visit(output, |t| result.push(t));
    }
    result.extend(gradients.iter().filter_map(|g| g.after.as_ref()?.as_ref()));
    let kept = remains.kept(&result);
    let (mut traced, output, handed) = match done {
        Ok(done) => done,
        Err(e) => {
            let unlike = conflicts.iter().flatten();
            let unlike = unlike.filter(|(id, merged)| merge.get(*id) != Some(*merged));
            let unlike = unlike.map(|(id, merged)| (*id, merged.clone())).collect();
            // eager code must find the tensors that were kept, even if the capture failed
            let settled =
                settle::settle(&kept, &given_up.unwrap_or_default(), &met, &arguments, &unlike);
            if let Some(panic) = panicked {
                resume_unwind(panic);
            }
            settled?;
            return match (conflicts, eager) {
                (Some(more), _) => Ok(Err(more)),
                (None, Some(why)) => Ok(Ok(Outcome::Recorded { why, once: false })),
                (None, None) => Err(e),
            };
        }
    };
    if kept.stand_ins.iter().any(|s| s.tensor.requires_grad()) {
        settle::settle(&kept, &traced.graph, &met, &arguments, &MergedStorages::new())?;
        let why = "it keeps values that want gradients outside".into();
        return Ok(Ok(Outcome::Recorded { why, once: false }));
    }
    if let Some(e) = kept.escaped() {
        if !wanted.perform {
            settle::settle(&kept, &traced.graph, &met, &arguments, &MergedStorages::new())?;
            return Err(e);
        }
        if traced.joint.is_some() {
            settle::settle(&kept, &traced.graph, &met, &arguments, &MergedStorages::new())?;
            let why = format!("its results want gradients, and {e}");
            return Ok(Ok(Outcome::Recorded { why, once: true }));
        }
        let grads: Vec<&Tensor> =
            gradients.iter().filter_map(|g| g.after.as_ref()?.as_ref()).collect();
        let output = settle::perform(&mut traced, &output, &grads, &kept, &met, &arguments)?;
        return Ok(Ok(Outcome::Performed(output, e)));
    }
    // what the function did may depend on the sizes alone
    for call in &traced.dependent {
        if traced.graph.contains(*call) {
            let effects = traced.graph.effects(*call);
            traced.graph.set_effects(*call, effects | Effects::MAY_FAIL);
        }
    }
    traced.graph.eliminate_dead_code();
    debug_assert_eq!(mutating_call(&traced.graph), None, "a captured write");
    let structure = template(&output);
    drop((output, met, gradients));
    traced.surroundings.fallbacks = fallbacks;
    traced.surroundings.kept = kept.tables.into_iter().map(Held::new).collect();
    check_held(&traced)?;
    Ok(Ok(Outcome::Captured(Box::new(Captured { traced, output: structure, handed, tls }))))
}

/// The fallbacks that calls of the function may reach.
fn reached_fallbacks<I: TensorTree>(inputs: &I, tls: TlsKeySets) -> Vec<(DispatchKey, u64)> {
    let cpu = DispatchKeySet::for_device(DeviceType::Cpu);
    let mut keys =
        tls.included | cpu | DispatchKeySet::of(&[DispatchKey::BackendSelect, DispatchKey::Meta]);
    flat::visit(inputs, |t| keys |= t.key_set());
    fallback_epochs(keys)
}

/// The structure of the result, without the tensors in it; wrapper tensors and those of other kinds
/// stay, since they may be handed out.
fn template<O: TensorTree>(output: &O) -> O {
    output.map(&mut |t| match flat::is_structure(t) {
        true => t.clone(),
        false => crate::dispatch::meta::to_meta(t),
    })
}

/// Every tensor that the function uses and did not make must be owned by the function or by state
/// that it reads. A later call would see a different tensor otherwise.
fn check_held(traced: &Traced) -> Result<()> {
    let flat = |t: &Held| {
        (traced.leaves.iter())
            .any(|l| l.flat && matches!(&l.owner, Owner::Tensor(o) if o.same_handle(t)))
    };
    let of_nobody = |t: &&Held| t.outside_handles() == 0 && !flat(t);
    let Some(t) = traced.closed_over().find(of_nobody) else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::NotCaptured {
        what: format!("the use of a {}{:?} that nobody else holds", t.dtype(), t.sizes()),
        why: "the function took it out of its state, or made it on another thread or past the dispatch keys of \
              capture, so that a later call would have another one: close over it, or pass it as an argument"
            .into(),
    }))
}

fn recording() -> IncludeGuard {
    IncludeGuard::new(DispatchKeySet::of(&[DispatchKey::Functionalize, DispatchKey::Tracer]))
}

/// Sets the graph's outputs: results of the function, then new values of written leaves.
fn finish<I: TensorTree, O: TensorTree>(
    output: &O,
    inputs: &I,
    gradients: &[Gradient],
    wanted: Wanted,
) -> Result<Traced> {
    let _on = recording();
    let _grad = GradGuard::set(false);
    let mut given = Vec::new();
    flat::visit(output, |t| given.push(t.clone()));
    let returned = given.len();
    let grads = tape::uses(gradients, &mut given);
    let leaves = functionalize::leaves();
    let mut values: Vec<ValueRef> = Vec::new();
    let outputs = results::sources(&given, &leaves, &mut values)?;
    let tape = tape::joint(&given[..returned], &outputs, wanted.joint)?;
    let leaves = match tape {
        Some(_) => functionalize::leaves(),
        None => leaves,
    };
    let mut mutations = Vec::new();
    for target in written(&leaves) {
        let memory = match target.wrapper.is_reshaped() {
            true => functionalize::whole_memory(&target.wrapper)?,
            false => None,
        };
        let memory = match memory {
            Some((value, meta, behind)) => {
                values.push(results::own_value(&value)?);
                Some((meta, behind))
            }
            None => {
                values.push(results::functional_value(&target.wrapper)?);
                None
            }
        };
        mutations.push(Mutation { target: target.owner.clone(), output: values.len() - 1, memory });
    }
    let joint = tape.map(|tape| tape.into_joint(&mut values)).transpose()?;
    let reshapes: Vec<Reshape> = (leaves.iter())
        .filter(|leaf| !leaf.made_inside && leaf.wrapper.is_reshaped())
        .map(|leaf| Reshape {
            target: leaf.owner.clone(),
            sizes: leaf.wrapper.sizes().to_vec(),
            strides: leaf.wrapper.strides().to_vec(),
            moved: leaf.wrapper.offset() - leaf.real.offset(),
        })
        .collect();
    if joint.is_some() && !reshapes.is_empty() {
        return Err(outside::leave_eager(
            "it changes the shape of a tensor and its results want gradients",
        ));
    }
    let mut asked = outside::asked();
    asked.extend(one_tensor(&leaves));
    asked.extend(tape::apart(gradients, inputs));
    let sources = functionalize::sources();
    let mut recording = tracer::stop()
        .ok_or_else(|| Error::compile("the function being captured ended its own capture"))?;
    recording.graph.set_outputs(&values);
    let roots = values.iter().map(|v| root(&recording.graph, *v)).collect();
    let mut shapes = Vec::new();
    flat::visit(inputs, |t| shapes.push(t.meta()));
    shapes.extend(tape::arguments(gradients).iter().map(|t| t.meta()));
    let merged = sources.inputs.iter().any(|s| matches!(s, InputSlot::Merged { .. }));
    Ok(Traced {
        graph: recording.graph,
        inputs: shapes,
        slots: if merged { sources.inputs } else { Vec::new() },
        parameters: sources.parameters,
        outputs,
        returned,
        grads,
        joint,
        mutations,
        reshapes,
        roots,
        declared: Vec::new(),
        given: false,
        dependent: dependent::take(),
        surroundings: Surroundings {
            asked,
            operators: outside::operators(),
            fallbacks: Vec::new(),
            kept: Vec::new(),
            default_dtype: Some(default_dtype::default_dtype()),
        },
        leaves: leaves
            .into_iter()
            .filter(|leaf| !leaf.made_inside)
            .map(|leaf| LeafUse {
                written: functionalize::is_written(&leaf.wrapper),
                reshaped: leaf.wrapper.is_reshaped(),
                merged: functionalize::is_merged(&leaf),
                flat: leaf.flat,
                owner: leaf.owner,
            })
            .collect(),
    })
}

/// Checks that a leaf whose shape changes is not also another leaf, whose shape would change with
/// it.
fn one_tensor(leaves: &[Leaf]) -> Vec<Asked> {
    let merged = |leaf: &Leaf| matches!(leaf.owner, Owner::Merged(_));
    let outside = || leaves.iter().filter(|leaf| !leaf.made_inside && !merged(leaf));
    let mut all = Vec::new();
    for reshaped in outside().filter(|leaf| leaf.wrapper.is_reshaped()) {
        for other in outside().filter(|other| !other.real.same_handle(&reshaped.real)) {
            all.push(Asked::Same { a: reshaped.owner.clone(), b: other.owner.clone(), yes: false });
        }
    }
    all
}

/// The leaves to copy new values into, each written place once: a leaf that lies in another one of
/// the same memory is written with it.
fn written(leaves: &[Leaf]) -> Vec<&Leaf> {
    let written: Vec<&Leaf> = leaves
        .iter()
        .filter(|leaf| !leaf.made_inside && functionalize::is_written(&leaf.wrapper))
        .collect();
    // a leaf whose shape changes is written with all the memory that it had
    let whole = |leaf: &Leaf| leaf.wrapper.is_reshaped();
    let memory = |leaf: &Leaf| functionalize::place(&leaf.wrapper).map(|p| p.memory);
    let covers = |a: &Leaf, b: &Leaf| match (whole(a), whole(b)) {
        (false, false) => functionalize::covers(&a.wrapper, &b.wrapper),
        (whole, _) => whole && memory(a) == memory(b),
    };
    let mut out: Vec<&Leaf> = Vec::new();
    for leaf in written {
        if out.iter().any(|o| covers(o, leaf)) {
            continue;
        }
        out.retain(|o| !covers(leaf, o));
        out.push(leaf);
    }
    out
}

/// Finds a call in the graph that writes to its arguments; there must be none.
fn mutating_call(graph: &Graph) -> Option<Op> {
    let calls = graph.topological().into_iter();
    let mut calls = calls.filter_map(|id| match &graph.node(id).kind {
        NodeKind::Call(call) => Some(call.op),
        _ => None,
    });
    calls.find(|op| op.facts().mutable)
}

/// The value whose memory a value shares: views lead back to what they view.
pub(super) fn root(graph: &Graph, mut v: ValueRef) -> ValueRef {
    loop {
        let NodeKind::Call(call) = &graph.node(v.node).kind else {
            return v;
        };
        if !call.op.facts().view {
            return v;
        }
        match graph.operands(v.node).first() {
            Some(of) => v = *of,
            None => return v,
        }
    }
}
