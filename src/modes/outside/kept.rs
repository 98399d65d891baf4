//! What a function keeps of the tensors that it made while it was captured.

use crate::error::{Error, ErrorKind};
use crate::tensor::watcher::Line;
use crate::tensor::{Held, Tensor};
use std::sync::Arc;

/// A stand-in that was made, and by what.
pub(crate) struct StandIn {
    pub(crate) tensor: Held,
    op: Option<Arc<str>>,
    at: Option<Line>,
}

impl StandIn {
    pub(super) fn new(t: &Tensor, op: Option<Arc<str>>, at: Option<Line>) -> StandIn {
        StandIn { tensor: Held::new(t.clone()), op, at }
    }

    /// Whether the function may still use it.
    pub(super) fn is_alive(&self) -> bool {
        self.tensor.outside_handles() > 0
    }

    /// Whether there are handles besides this one and the function's result.
    fn is_kept(&self, result: &[&Tensor]) -> bool {
        let returned = |t: &&&Tensor| t.same_handle(&self.tensor);
        self.tensor.outside_handles() > result.iter().filter(returned).count()
    }

    /// The error for a capture that ends with this one kept; `lost` if it has no value now.
    pub(crate) fn escaped(&self, lost: Option<&Error>) -> Error {
        escaped(&self.tensor, self.op.as_deref(), self.at, lost)
    }
}

/// What remains to be checked once the capture has dropped its own handles.
#[derive(Default)]
pub(crate) struct Remains {
    pub(super) stand_ins: Vec<StandIn>,
    /// With the stand-in of those that operators have written.
    pub(super) constants: Vec<(Tensor, Option<Held>)>,
}

/// What is kept by anything but the function's result.
#[derive(Default)]
pub(crate) struct Kept {
    /// Stand-ins.
    pub(crate) stand_ins: Vec<StandIn>,
    /// Tensors made from data that operators have written, with their stand-ins.
    pub(crate) written: Vec<(Tensor, Held)>,
    /// Others made from data.
    pub(crate) tables: Vec<Tensor>,
}

impl Remains {
    /// What has been kept; `result` are the tensors that the capture still holds of what the
    /// function returned.
    pub(crate) fn kept(self, result: &[&Tensor]) -> Kept {
        let mut kept = Kept::default();
        // what gradients keep of the function's values is not kept by the function
        let histories = self.stand_ins.iter().map(|s| s.tensor.put_grad_fn(None));
        let histories: Vec<_> = histories.collect();
        drop(histories);
        // a result holds what it is a view of, and so does a stand-in that nobody has any more
        let bases = result.iter().flat_map(|t| std::iter::successors(t.base(), |t| t.base()));
        let result: Vec<&Tensor> = result.iter().copied().chain(bases).collect();
        let result = &result[..];
        kept.stand_ins = self.stand_ins;
        loop {
            let before = kept.stand_ins.len();
            kept.stand_ins.retain(|s| s.is_kept(result));
            if kept.stand_ins.len() == before {
                break;
            }
        }
        for (t, written) in self.constants {
            // from now on it is an ordinary tensor
            t.settle(t.key_set());
            let returned = result.iter().filter(|r| r.same_handle(&t)).count();
            // the one in hand
            if t.outside_handles() <= 1 + returned {
                continue;
            }
            match written {
                Some(stand_in) => kept.written.push((t, stand_in)),
                None => kept.tables.push(t),
            }
        }
        kept
    }
}

impl Kept {
    /// The error for a capture after which something is kept that a compiled call would have to put
    /// there again.
    pub(crate) fn escaped(&self) -> Option<Error> {
        (self.stand_ins.first().map(|s| s.escaped(None))).or_else(|| {
            let (t, _) = self.written.first()?;
            Some(Kept::escaped_constant(t, None))
        })
    }

    /// The same for a tensor made from data.
    pub(crate) fn escaped_constant(t: &Tensor, lost: Option<&Error>) -> Error {
        escaped(t, Some("Tensor::from_slice"), None, lost)
    }
}

pub(super) fn escaped(
    t: &Tensor,
    op: Option<&str>,
    at: Option<Line>,
    lost: Option<&Error>,
) -> Error {
    let error = Error::new(ErrorKind::Escaped {
        tensor: format!("{}{:?}", t.dtype(), t.sizes()),
        made_by: op.map(str::to_string),
        lost: lost.map(ToString::to_string),
    });
    match at {
        Some(at) => error.with_location(at),
        None => error,
    }
}
