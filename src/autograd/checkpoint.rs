//! Checkpoints: values are computed again in the backward pass instead of being kept.

use super::error::{AutogradError, Made};
use super::graph;
use super::hooks::saved_tensors_hooks;
use super::mode::GradGuard;
use super::saved::described;
use crate::error::Result;
use crate::modes::autocast;
use crate::tensor::{Generator, Tensor};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

type Run = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// What a checkpointed call knows of itself.
struct Frame {
    /// How many tensors the first run saved.
    saved: Mutex<usize>,
    /// What the second run saved, until the gradients have used it.
    again: Mutex<Option<Vec<Option<Tensor>>>>,
    run: Run,
    inputs: Vec<Tensor>,
    /// How often the memory of each had been written.
    versions: Vec<u64>,
    state: Tensor,
    autocast: autocast::Settings,
    line: &'static Location<'static>,
}

/// Runs `f` and keeps none of the tensors that its gradients need: the first of them that a
/// backward pass asks for makes it run again. Random numbers are drawn again from the same state, and
/// autocast is what it was.
/// PyTorch's `checkpoint(use_reentrant=False)`, and the only form there is: the reentrant one, which
/// PyTorch advises against, refuses `grad` and `inputs`, loses gradients where no input wants one, and
/// has nothing that this one lacks. In a function that is compiled it does nothing: there
/// the whole graph is looked at.
///
/// # Errors
///
/// Those of `f`; in the backward pass, that `f` does something else the second time, or that an input
/// was written meanwhile.
///
/// ```
/// use straightline::{autograd::checkpoint, tensor, Tensor};
/// let x = tensor([1.0])?.requires_grad_(true)?;
/// let block = |x: &[Tensor]| Ok(vec![x[0].sin()?.exp()?]);
/// let y = checkpoint(block, &[x.clone()])?;
/// y[0].sum()?.backward()?;
/// let expected = 1f32.cos() * 1f32.sin().exp();
/// assert!((x.grad().unwrap().item::<f32>()? - expected).abs() < 1e-6);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn checkpoint(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    if crate::modes::tracer::current().is_some() {
        // what is kept for the backward pass is decided when the graph is cut
        return f(inputs);
    }
    let f = Arc::new(f);
    let again = f.clone();
    let frame = Arc::new(Frame {
        saved: Mutex::new(0),
        again: Mutex::new(None),
        run: Box::new(move |inputs| again(inputs)),
        inputs: inputs.to_vec(),
        versions: inputs.iter().map(Tensor::writes).collect(),
        state: Generator::default_cpu().state()?,
        autocast: autocast::Settings::now(),
        line: Location::caller(),
    });
    let (packing, unpacking) = (frame.clone(), frame);
    saved_tensors_hooks(
        move |_| {
            let mut saved = packing.saved.lock().unwrap_or_else(PoisonError::into_inner);
            *saved += 1;
            Ok(*saved - 1)
        },
        move |at: &usize| unpacking.value(*at),
        || f(inputs),
    )
}

impl Frame {
    /// The value that was saved as number `at`.
    fn value(&self, at: usize) -> Result<Tensor> {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        if again.as_ref().is_none_or(|a| a.get(at).is_none_or(Option::is_none)) {
            *again = Some(self.compute()?);
        }
        let first = *self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let count = again.as_ref().map_or(0, Vec::len);
        let value = again.as_mut().and_then(|a| a.get_mut(at)).and_then(Option::take);
        match value {
            Some(t) if count == first => Ok(t),
            _ => Err(AutogradError::Checkpoint { first, again: count }.into()),
        }
    }

    /// An input is what the first run has seen.
    fn check(&self) -> Result<()> {
        for (t, before) in self.inputs.iter().zip(&self.versions) {
            if t.writes() != *before {
                return Err(AutogradError::Modified {
                    tensor: described(t),
                    output: None,
                    version: t.writes(),
                    expected: *before,
                    saved_by: Made { op: "checkpoint".into(), line: Some(self.line) },
                    written_by: None,
                }
                .into());
            }
        }
        Ok(())
    }

    fn compute(&self) -> Result<Vec<Option<Tensor>>> {
        self.check()?;
        let _autocast = self.autocast.enter();
        let values = Arc::new(Mutex::new(Vec::new()));
        let sink = values.clone();
        let _grad = GradGuard::set(true);
        let generator = Generator::default_cpu();
        let state = generator.state()?;
        generator.set_state(&self.state)?;
        let results = saved_tensors_hooks(
            move |t| {
                let t = graph::cut(t);
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(Some(t));
                Ok(())
            },
            |()| Err(crate::Error::runtime("a recomputed graph is not differentiated")),
            || (self.run)(&self.inputs),
        );
        generator.set_state(&state)?;
        results?;
        let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *values))
    }
}
