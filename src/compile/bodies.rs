//! Calls of higher order in plans: the graphs that they are given become plans of their own.

use super::failure;
use crate::error::{Error, Result};
use std::sync::Arc;
use straightline_catalog::{Arg, Op, Subgraph, TensorMeta};
use straightline_passes::ir::control::Control;
use straightline_passes::ir::graph::Graph;
use straightline_passes::schedule::loops::{Extern, Schedule, Step};
use straightline_passes::schedule::{ScheduleOptions, schedule};
use straightline_runtime::plan::branch::{self, Body, BodyError};
use straightline_runtime::plan::{
    ExternCtx, ExternError, ExternFn, ExternRegistry, Plan, PlanError, PlanOptions,
};

/// A graph with its plan.
struct Compiled {
    graph: Subgraph,
    body: Body,
}

/// The kernel of an operator of higher order for the calls in a schedule; `None` for other operators.
/// `registry` has the kernels that a plan calls.
pub(super) fn kernel(
    of: &Schedule,
    op: Op,
    registry: fn(&Schedule) -> Result<Arc<ExternRegistry>>,
) -> Result<Option<ExternFn>> {
    let mut all: Vec<Compiled> = Vec::new();
    for step in &of.steps {
        let Step::Extern(Extern::Op { op: called, args, .. }) = step else { continue };
        for arg in args.iter().filter(|_| *called == op) {
            if let Arg::Graph(g) = arg
                && let Some(graph) = g.get::<Graph>()
                && !all.iter().any(|known| known.graph.is_same(g))
            {
                all.push(Compiled { graph: g.clone(), body: compile(graph, registry)? });
            }
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(move |ctx: &ExternCtx<'_>| run(&all, ctx))))
}

/// Makes a plan of a graph, which has been rewritten with the one around it.
fn compile(graph: &Graph, registry: fn(&Schedule) -> Result<Arc<ExternRegistry>>) -> Result<Body> {
    let schedule =
        schedule(graph, &ScheduleOptions::default()).map_err(|e| Error::compile(e.to_string()))?;
    let options = PlanOptions { externs: registry(&schedule)?, ..PlanOptions::default() };
    let plan = Plan::compile(schedule, &options).map_err(|e| Error::compile(e.to_string()))?;
    let inputs: Vec<TensorMeta> =
        graph.inputs().iter().map(|n| graph.meta((*n).into()).clone()).collect();
    Ok(Body::new(plan, inputs))
}

fn run(all: &[Compiled], ctx: &ExternCtx<'_>) -> Result<(), ExternError> {
    let graphs = ctx.args.iter().filter_map(|a| match a {
        Arg::Graph(g) => Some(g),
        _ => None,
    });
    let found: Option<Vec<&Compiled>> =
        graphs.map(|g| all.iter().find(|known| known.graph.is_same(g))).collect();
    let missing = || -> ExternError { format!("{} is called with other graphs", ctx.op).into() };
    let found = found.ok_or_else(missing)?;
    let bodies: Vec<&Body> = found.iter().map(|c| &c.body).collect();
    let (Some(call), [first, rest @ ..]) = (Control::read(ctx.op, ctx.args), &bodies[..]) else {
        return Err(missing());
    };
    // SAFETY: the views are those that a plan gives its kernels, and the verifier has compared the
    // call's operands and results with those of its graphs.
    let done = unsafe {
        match (call, rest) {
            (Control::Cond { .. }, [second]) => branch::cond(ctx, [first, second]),
            (Control::While { .. }, [second]) => branch::while_loop(ctx, first, second),
            (Control::Scan { carried, xs, reverse, .. }, []) => {
                branch::scan(ctx, first, carried.len(), xs.len(), reverse)
            }
            _ => return Err(missing()),
        }
    };
    done.map_err(|e| failed(&found, e).into())
}

/// The error of a call within a graph, with that call's operator and line.
#[cold]
fn failed(found: &[&Compiled], BodyError { graph, error }: BodyError) -> Error {
    match (found.get(graph), error) {
        (_, PlanError::Body { what }) => Error::compile(what),
        (Some(c), error) => match c.graph.get::<Graph>() {
            Some(graph) => failure::error(c.body.plan().schedule(), graph, error),
            None => Error::compile(error.to_string()),
        },
        (None, error) => Error::compile(error.to_string()),
    }
}
