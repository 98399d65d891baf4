//! Whether an output may take the place of the tensor whose new value it is.

use super::loops::*;

impl Schedule {
    /// Whether output buffer `output` may lie in the very memory of `old`, an input or a parameter
    /// of the same dtype, sizes and strides that no other buffer shares: each element is written
    /// where nothing reads the old one afterwards, and nothing that may fail comes after the first
    /// such write, so that a call that fails has changed nothing.
    pub fn replaces(&self, output: u32, old: &BufferKind) -> bool {
        let is = |id: BufferId, kind: &BufferKind| self.buffer(id).kind == *kind;
        let new = &BufferKind::Output(output);
        let mut steps = self.since_first_write(output);
        let Some(Step::Kernel(writer)) = steps.next() else { return false };
        writes_over(writer, &|id| is(id, new), &|id| is(id, old))
            && steps.all(|s| !touches(s, &|id| is(id, old)))
            && self.is_safe_once_written(output)
    }

    /// Whether nothing may fail from the first write to output buffer `output` on: the buffer may
    /// be memory whose content is wanted unless the call succeeds, and which nothing reads.
    pub fn is_safe_once_written(&self, output: u32) -> bool {
        self.since_first_write(output).all(|s| !may_fail(s))
    }

    fn since_first_write(&self, output: u32) -> impl Iterator<Item = &Step> {
        let is_new = move |id| match self.buffer(id).kind {
            BufferKind::Output(i) | BufferKind::Within { output: i, .. } => i == output,
            _ => false,
        };
        self.steps.iter().skip_while(move |s| !touches(s, &is_new))
    }
}

fn may_fail(step: &Step) -> bool {
    match step {
        Step::Kernel(kernel) => checks_indices(&kernel.stages),
        Step::Extern(Extern::Matmul(_) | Extern::Convolution(_)) => false,
        Step::Extern(Extern::Op { .. }) => true,
    }
}

/// Whether stages find that an index is out of range.
pub(crate) fn checks_indices(stages: &[Stage]) -> bool {
    let mut body = stages.iter().flat_map(|s| &s.body);
    body.any(|i| matches!(i.op, Op::CheckIndex { .. }))
}

/// Whether a step reads or writes such a buffer.
fn touches(step: &Step, is: &dyn Fn(BufferId) -> bool) -> bool {
    step.buffers().into_iter().any(is)
}

/// Whether a kernel writes each element of the new buffer once, and reads of the old one at most
/// the element that it writes next.
pub(crate) fn writes_over(
    kernel: &Kernel,
    is_new: &dyn Fn(BufferId) -> bool,
    is_old: &dyn Fn(BufferId) -> bool,
) -> bool {
    let stages = kernel.stages.iter().enumerate();
    let all: Vec<(usize, &Op)> =
        stages.flat_map(|(at, s)| s.body.iter().map(move |i| (at, &i.op))).collect();
    let mut stores = all.iter().enumerate().filter_map(|(place, (at, op))| match op {
        Op::Store { mem: Mem::Buffer(b), index, .. } if is_new(*b) => Some((place, *at, index)),
        _ => None,
    });
    let (Some((place, at, index)), None) = (stores.next(), stores.next()) else { return false };
    let axes = kernel.grid.iter().chain(&kernel.stages[at].axes);
    let once =
        index.dynamic.is_empty() && axes.filter(|a| a.extent > 1).all(|a| index.stride(a.id) != 0);
    once && all.iter().enumerate().all(|(here, (of, op))| match op {
        Op::Load { mem: Mem::Buffer(b), index: from } if is_old(*b) => {
            *of == at && here < place && from == index
        }
        Op::Load { mem: Mem::Buffer(b), .. } | Op::Update { mem: Mem::Buffer(b), .. } => {
            !is_new(*b) && !is_old(*b)
        }
        Op::Store { mem: Mem::Buffer(b), .. } => !is_old(*b),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Arg, DType, Op as Call, TensorMeta, graph::Graph};
    use crate::schedule::{ScheduleOptions, schedule};

    /// The schedule of a function of `x`, `y` and the parameter `p`, all `[8, 8]`.
    fn of(build: impl Fn(&mut Graph, &TensorMeta) -> Option<()>) -> Schedule {
        let meta = TensorMeta::contiguous(DType::F32, &[8, 8]);
        let mut g = Graph::new();
        build(&mut g, &meta).expect("a graph");
        schedule(&g, &ScheduleOptions::default()).expect("a schedule")
    }

    fn replaces(build: impl Fn(&mut Graph, &TensorMeta) -> Option<()>) -> bool {
        of(build).replaces(0, &BufferKind::Parameter(0))
    }

    #[test]
    fn an_update_element_by_element_takes_the_place() {
        assert!(replaces(|g, m| {
            let (x, p) = (g.input("x", m.clone()), g.parameter("p", m.clone()));
            let y = g.call(Call::mul_Tensor, vec![Arg::Tensor(x), Arg::Tensor(p)], [m.clone()]);
            g.set_outputs(&[y.ok()?]);
            Some(())
        }));
    }

    #[test]
    fn what_others_still_read_stays() {
        // the transposed parameter is read at other places than are written
        assert!(!replaces(|g, m| {
            let p = g.parameter("p", m.clone());
            let mut turned = m.clone();
            turned.strides = [1, 8].into_iter().collect();
            let t = g.call(Call::t, vec![Arg::Tensor(p)], [turned]).ok()?;
            let y = g.call(Call::mul_Tensor, vec![Arg::Tensor(p), Arg::Tensor(t)], [m.clone()]);
            g.set_outputs(&[y.ok()?]);
            Some(())
        }));
        // a product reads it after the update
        assert!(!replaces(|g, m| {
            let (x, p) = (g.input("x", m.clone()), g.parameter("p", m.clone()));
            let y = g.call(Call::exp, vec![Arg::Tensor(p)], [m.clone()]).ok()?;
            let z = g.call(Call::mm, vec![Arg::Tensor(y), Arg::Tensor(p)], [m.clone()]).ok()?;
            let z = g.call(Call::mm, vec![Arg::Tensor(x), Arg::Tensor(z)], [m.clone()]);
            g.set_outputs(&[y, z.ok()?]);
            Some(())
        }));
    }

    #[test]
    fn a_chain_of_intermediates_lies_in_one_place() {
        let plan = of(|g, m| {
            let x = g.input("x", m.clone());
            let mut y = x;
            // products keep the kernels apart
            for _ in 0..3 {
                y = g.call(Call::mm, vec![Arg::Tensor(y), Arg::Tensor(x)], [m.clone()]).ok()?;
                y = g.call(Call::exp, vec![Arg::Tensor(y)], [m.clone()]).ok()?;
            }
            y = g.call(Call::mm, vec![Arg::Tensor(y), Arg::Tensor(x)], [m.clone()]).ok()?;
            g.set_outputs(&[y]);
            Some(())
        });
        // a product's result, over which the exponential lies; the next product's lies in the output
        assert_eq!(plan.arena_bytes, 8 * 8 * 4);
    }

    #[test]
    fn updates_follow_their_gradients_and_still_take_the_place() {
        let plan = of(|g, m| {
            let (x, p, q) =
                (g.input("x", m.clone()), g.parameter("p", m.clone()), g.parameter("q", m.clone()));
            let y = g.call(Call::mm, vec![Arg::Tensor(x), Arg::Tensor(q)], [m.clone()]).ok()?;
            let of_q = g.call(Call::mm, vec![Arg::Tensor(y), Arg::Tensor(x)], [m.clone()]).ok()?;
            let z = g.call(Call::mm, vec![Arg::Tensor(of_q), Arg::Tensor(q)], [m.clone()]).ok()?;
            let of_p = g.call(Call::mm, vec![Arg::Tensor(z), Arg::Tensor(x)], [m.clone()]).ok()?;
            let mut new = |w, grad| {
                let args = vec![Arg::Tensor(w), Arg::Tensor(grad)];
                g.call(Call::mul_Tensor, args, [m.clone()]).ok()
            };
            let all = [of_p, of_q, new(p, of_p)?, new(q, of_q)?];
            g.set_outputs(&all);
            Some(())
        });
        let names = plan.steps.iter().map(|s| match s {
            Step::Kernel(k) => k.name.as_str(),
            Step::Extern(_) => "product",
        });
        // that of `q` waits for the product that reads it
        let expected = ["product", "product", "product", "mul", "product", "mul"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert!(plan.replaces(2, &BufferKind::Parameter(0)));
        assert!(plan.replaces(3, &BufferKind::Parameter(1)));
    }

    #[test]
    fn a_failure_afterwards_must_change_nothing() {
        let with = |fails: bool| {
            move |g: &mut Graph, m: &TensorMeta| {
                let p = g.parameter("p", m.clone());
                let y = g.call(Call::exp, vec![Arg::Tensor(p)], [m.clone()]).ok()?;
                let call = if fails { Call::linalg_inv } else { Call::sin };
                let z = g.call(call, vec![Arg::Tensor(y)], [m.clone()]).ok()?;
                g.set_outputs(&[y, z]);
                Some(())
            }
        };
        assert!(replaces(with(false)) && !replaces(with(true)));
    }
}
