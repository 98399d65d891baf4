//! How the function's results are delivered: fresh, or as views.

use super::layout::resolve;
use super::loops::{OutputBinding, ViewSource};
use super::program::{Def, OpaqueCall, Program, Source, V};
use crate::ir::Op;
use crate::ir::graph::{Graph, ValueRef};
use crate::ir::view::Affine;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{Dims, layout};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How the function's results are delivered, and which values must be stored for them.
pub(crate) struct Results {
    pub(crate) outputs: Vec<OutputBinding>,
    /// Stored values with their output buffer.
    pub(crate) bound: BTreeMap<V, u32>,
    pub(crate) strides: HashMap<V, Dims>,
}

fn same_layout(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    layout::numel(sizes) == 0
        || sizes.iter().zip(a.iter().zip(b)).all(|(n, (a, b))| *n == 1 || a == b)
}

pub(crate) fn bind_results(graph: &Graph, p: &mut Program, map: &HashMap<ValueRef, V>) -> Results {
    let outputs: Vec<(V, TensorMeta)> =
        graph.outputs().iter().map(|r| (map[r], graph.meta(*r).clone())).collect();
    let mut r = Results { outputs: Vec::new(), bound: BTreeMap::new(), strides: HashMap::new() };
    let mut fresh = 0u32;
    // computed results first: views of them refer to their buffers
    let mut direct: HashMap<V, u32> = HashMap::new();
    for (v, meta) in &outputs {
        if is_computed(p, *v) && !overlaps(meta) && !direct.contains_key(v) {
            direct.insert(*v, fresh);
            r.bound.insert(*v, fresh);
            r.strides.insert(*v, meta.strides.clone());
            fresh += 1;
        }
    }
    let mut delivered = BTreeSet::new();
    for (v, meta) in outputs {
        if let Some(&index) = direct.get(&v)
            && delivered.insert(index)
        {
            r.outputs.push(OutputBinding::Fresh { index, meta });
            continue;
        }
        if let Some(view) = as_view(p, v, &meta, &r) {
            r.outputs.push(view);
            continue;
        }
        // the value below views that show all of it: its buffer is the result's
        let contiguous = |b: V| layout::contiguous_strides(p.sizes(b));
        let below = resolve(p, v, &contiguous).filter(|s| {
            is_computed(p, s.base)
                && !r.bound.contains_key(&s.base)
                && s.offset == 0
                && p.numel(s.base) == p.numel(v)
                && same_layout(&meta.sizes, &s.strides, &meta.strides)
        });
        let value = match below {
            // each element once, and so all of them
            Some(s) if !layout::may_overlap(&meta.sizes, &meta.strides) => s.base,
            _ => {
                let own = own_value(p, v, &meta);
                r.strides.insert(own, meta.strides.clone());
                own
            }
        };
        r.bound.insert(value, fresh);
        r.outputs.push(OutputBinding::Fresh { index: fresh, meta });
        fresh += 1;
    }
    r
}

/// Neither a view nor memory or a number from outside.
fn is_computed(p: &Program, v: V) -> bool {
    let def = p.def(v);
    !def.is_view() && !matches!(def, Def::Source { .. } | Def::Const(_))
}

fn overlaps(meta: &TensorMeta) -> bool {
    layout::repeats(&meta.sizes, &meta.strides)
}

/// A new value for a result, without the dimensions that it repeats.
fn own_value(p: &mut Program, v: V, meta: &TensorMeta) -> V {
    if !overlaps(meta) {
        return copied(p, v, meta);
    }
    let once = layout::once(p.sizes(v), &meta.strides);
    let map = (p.sizes(v).iter().zip(&once).enumerate())
        .map(|(d, (n, once))| match n == once {
            true => Affine::dim(d),
            false => Affine::at(0),
        })
        .collect();
    let part = p.view(v, &once, map);
    copied(p, part, meta)
}

/// A copy of a value: of complex numbers, which loops do not hold, a call.
fn copied(p: &mut Program, v: V, meta: &TensorMeta) -> V {
    let (dtype, sizes) = (p.dtype(v), p.get(v).sizes.clone());
    if !dtype.is_complex() {
        return p.push(dtype, &sizes, Def::Copy(v));
    }
    let call = p.calls.len() as u32;
    let copy = p.push(dtype, &sizes, Def::Extern { call, index: 0 });
    p.calls.push(OpaqueCall {
        op: Op::clone,
        args: vec![Arg::Tensor(0), Arg::None],
        inputs: vec![v],
        after: Vec::new(),
        follow: None,
        predicted: None,
        results: vec![copy],
        metas: vec![TensorMeta { sizes, ..meta.clone() }],
        node: None,
    });
    copy
}

/// A result that shares the memory of an input, a parameter or another result.
fn as_view(p: &Program, v: V, meta: &TensorMeta, r: &Results) -> Option<OutputBinding> {
    let stored = |b: V| match (p.def(b), r.strides.get(&b)) {
        (Def::Source { strides, .. }, _) => strides.clone(),
        (_, Some(s)) => s.clone(),
        _ => layout::contiguous_strides(p.sizes(b)),
    };
    let s = resolve(p, v, &stored)?;
    let of = match p.def(s.base) {
        Def::Source { source: Source::Input(i), .. } => ViewSource::Input(*i),
        Def::Source { source: Source::Parameter(i), .. } => ViewSource::Parameter(*i),
        _ => ViewSource::Output(*r.bound.get(&s.base)?),
    };
    let meta = meta.clone();
    let offset = s.offset;
    same_layout(&meta.sizes, &s.strides, &meta.strides).then_some(OutputBinding::View {
        of,
        meta,
        offset,
    })
}
