//! Stages that write where indices say: several lanes, and several points, may hit one element.

use super::random::{KERNELS, number, random_inst};
use super::scheduled::check;
use super::*;

fn axis(id: u32) -> Index {
    terms(&[(id, 1)])
}

/// A copy of an input into which a random body is scattered, by one random operation after the
/// other.
fn scatter(seed: u64) -> Case {
    let mut rng = Rng(seed ^ 0x5ca7);
    let sizes = [1, 2, 3, 4, 5, 8, 11, 17, 34, 70];
    let points = rng.pick(&sizes);
    let (places, sources) = (rng.pick(&sizes), rng.pick(&sizes));
    let row = rng.pick(&[1, 1, 3, 4, 8, 17, 34]);
    // the grid is outside the indexed dimension, or inside
    let inside = rng.below(3) == 0;
    let vectorize =
        rng.pick(&[Vectorize::Stage, Vectorize::Stage, Vectorize::Grid, Vectorize::None]);
    let mut c = Case::new(&[points], vectorize);
    let d = rng.pick(&DType::ALL);
    let len = points * places * row;
    let (grid, place) = match inside {
        true => (row, points * row),
        false => (places * row, row),
    };
    let base = c.input(d, (0..len).map(|_| rng.element(d)).collect());
    let out = c.output(d, len as usize);
    // the base
    let at = terms(&[(0, grid), (1, place), (2, 1)]);
    let copy = vec![load(d, base, at.clone()), store(d, out, at, 0)];
    c.stage(1, &[places, row], copy);
    let mut next = 3;
    for _ in 0..1 + rng.below(2) {
        let (k, j) = (next, next + 1);
        next += 2;
        // without rows the innermost loop is the one over the sources
        let along = i64::from(row > 1);
        // an index for each source, for each of its elements, or for each point as well
        let (of_row, of_point) = (rng.below(3) == 0, rng.below(3) == 0);
        let index = terms(&[
            (0, if of_point { sources * row } else { 0 }),
            (k, row),
            (j, if of_row { along } else { 0 }),
        ]);
        let wrap = rng.below(2) == 0;
        let bad = rng.below(12) == 0;
        let ids = (0..points * sources * row)
            .map(|_| match rng.below(40) {
                0 if bad => places + rng.below(2) as i64,
                1 if bad => -places - 1,
                _ if wrap => rng.below(2 * places as u64) as i64 - places,
                _ => rng.below(places as u64) as i64,
            })
            .map(Scalar::Int)
            .collect();
        let ids = c.input(DType::I64, ids);
        let e = rng.pick(&DType::ALL);
        let numbers = points * sources * row;
        let src = c.input(e, (0..numbers).map(|_| rng.element(e)).collect());
        let mut body = vec![
            load(DType::I64, ids, index),
            inst(DType::I64, Op::CheckIndex { index: Val(0), size: places, wrap }),
            load(e, src, terms(&[(0, sources * row), (k, row), (j, along)])),
        ];
        // where an index is out of range, nothing else goes wrong
        for _ in 0..if bad { 0 } else { rng.below(5) } {
            let more = random_inst(&mut rng, &mut body, 1);
            body.push(more);
        }
        let last = body.len() as u32 - 1;
        body.push(inst(d, Op::Cast(Val(last))));
        let value = Val(last + 1);
        let mut index = terms(&[(0, grid), (j, along)]);
        index.dynamic.push((Val(1), place));
        let mem = Mem::Buffer(BufferId(out));
        let op = rng.pick(&[
            None,
            Some(ReduceOp::Sum),
            Some(ReduceOp::Sum),
            Some(ReduceOp::Prod),
            Some(ReduceOp::Max),
            Some(ReduceOp::Min),
        ]);
        let op = match op {
            None => Op::Store { mem, index, value },
            Some(op) => Op::Update { op, mem, index, value },
        };
        body.push(inst(d, op));
        let both = [sources, row];
        c.stage(k, &both[..if row > 1 { 2 } else { 1 }], body);
    }
    c
}

#[test]
fn random_scatters() {
    let first = number("SEED", 0);
    let failed: Vec<u64> = (first..first + number("KERNELS", KERNELS))
        .filter(|&seed| {
            let c = scatter(seed);
            let sound = straightline_passes::schedule::verify_schedule(&c.schedule);
            sound.is_err() || std::panic::catch_unwind(|| c.check(0.0)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}

/// Every element hits the same place: lanes come one after another.
#[test]
fn one_place_for_all() {
    for d in DType::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            let mut c = Case::new(&[], Vectorize::Stage);
            let mut rng = Rng(7);
            let ids = c.input(DType::I64, vec![Scalar::Int(0); 37]);
            let src = c.input(d, (0..37).map(|_| rng.element(d)).collect());
            let out = c.output(d, 1);
            let check = Op::CheckIndex { index: Val(0), size: 1, wrap: false };
            let update = Op::Update {
                op,
                mem: Mem::Buffer(BufferId(out)),
                index: Index { dynamic: SmallVec::from_iter([(Val(1), 1)]), ..Index::default() },
                value: Val(2),
            };
            let zero = vec![inst(d, Op::Const(Scalar::Int(1))), store(d, out, terms(&[]), 0)];
            c.stage(0, &[], zero);
            let body = vec![
                load(DType::I64, ids, axis(1)),
                inst(DType::I64, check),
                load(d, src, axis(1)),
                inst(d, update),
            ];
            c.stage(1, &[37], body);
            c.check(0.0);
        }
    }
}

#[test]
fn rows_as_strips() {
    for op in ["index_add", "index_reduce"] {
        let more = match op {
            "index_add" => "alpha=2",
            _ => "reduce=\"amax\", include_self=false",
        };
        check(&format!(
            "graph(%x: f32[4,3,37], %i: i64[9], %y: f32[4,9,37]) {{
  %0: f32[4,9,37] = aten::tanh(%y)
  %1: f32[4,3,37] = aten::{op}(%x, dim=1, %i, %0, {more})
  return %1
}}"
        ));
    }
    check(
        "graph(%x: f32[300,256], %i: i64[50], %y: f32[50,256]) {
  %0: f32[50,256] = aten::gelu(%y, approximate=\"none\")
  %1: f32[300,256] = aten::index_copy(%x, dim=0, %i, %0)
  return %1
}",
    );
}

#[test]
fn scatters_of_all_dtypes() {
    for d in ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "u8", "bool"] {
        check(&format!(
            "graph(%x: {d}[3,7], %i: i64[2,5], %y: {d}[5,7]) {{
  %0: {d}[3,7] = aten::scatter.src(%x, dim=0, %i, %y)
  return %0
}}"
        ));
        check(&format!(
            "graph(%x: {d}[3,7], %i: i64[3,19], %y: {d}[3,19]) {{
  %0: {d}[3,7] = aten::scatter_add(%x, dim=1, %i, %y)
  %1: {d}[3,7] = aten::scatter_reduce.two(%0, dim=1, %i, %y, reduce=\"amin\", include_self=true)
  %2: {d}[3,7] = aten::scatter.value_reduce(%1, dim=1, %i, value=2, reduce=\"multiply\")
  return %1, %2
}}"
        ));
    }
}
