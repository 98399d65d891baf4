//! A call of a `Vmap` layer, as rules see it.

use crate::dispatch::schema::{AliasInfo, FunctionSchema};
use crate::dispatch::{OperatorHandle, Value};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use crate::transforms::error::TransformError;
use crate::transforms::layer::Layer;
use crate::transforms::map::moved;
use crate::transforms::wrapper;
use std::rc::Rc;

/// A call with batched operands.
pub(in crate::transforms) struct Call<'a> {
    pub(super) layer: &'a Rc<Layer>,
    pub(super) op: OperatorHandle,
    /// Without the namespace `aten`, and without the `_` of an operator in place: `add.Tensor`.
    pub(super) name: String,
    pub(super) schema: &'static FunctionSchema,
    pub(super) args: Vec<Value>,
    /// How many samples there are.
    pub(super) size: i64,
}

/// Tensors whose samples are at a dimension; no dimension where all samples share them.
pub(super) type Given = (Tensor, Option<usize>);

/// Results of a rule, of which each tensor has its samples in the first dimension.
pub(super) type Results = Vec<Value>;

pub(super) fn is_batched(t: &Tensor, layer: &Layer) -> bool {
    wrapper::samples_of(t, layer).is_some()
}

/// The name by which rules know an operator.
pub(super) fn name_of(op: OperatorHandle, schema: &FunctionSchema) -> String {
    let own = op.name();
    let base = own.name.strip_prefix("aten::").unwrap_or(&own.name);
    let base = match schema.is_inplace() {
        true => base.strip_suffix('_').unwrap_or(base),
        false => base,
    };
    match own.overload.is_empty() {
        true => base.to_string(),
        false => format!("{base}.{}", own.overload),
    }
}

impl Call<'_> {
    pub(super) fn tensor(&self, at: usize) -> Result<&Tensor> {
        self.optional(at).ok_or_else(|| {
            Error::runtime(format!("`{}` needs a tensor as its argument {at}", self.op.name()))
        })
    }

    pub(super) fn optional(&self, at: usize) -> Option<&Tensor> {
        self.args.get(at).and_then(Value::as_tensor)
    }

    pub(super) fn int(&self, at: usize) -> Result<i64> {
        match self.args.get(at) {
            Some(Value::Int(n)) => Ok(*n),
            Some(Value::Bool(b)) => Ok(i64::from(*b)),
            _ => Err(Error::runtime(format!(
                "`{}` needs a number as its argument {at}",
                self.op.name()
            ))),
        }
    }

    pub(super) fn ints(&self, at: usize) -> Result<Vec<i64>> {
        match self.args.get(at) {
            Some(Value::IntList(l)) => Ok(l.clone()),
            Some(Value::Int(n)) => Ok(vec![*n]),
            _ => Err(Error::runtime(format!(
                "`{}` needs numbers as its argument {at}",
                self.op.name()
            ))),
        }
    }

    pub(super) fn flag(&self, at: usize) -> bool {
        matches!(self.args.get(at), Some(Value::Bool(true)))
    }

    /// An argument's position by its name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.schema.arg_index(name)
    }

    /// What is inside of a tensor, and where its samples are.
    pub(super) fn inside(&self, t: &Tensor) -> Given {
        match wrapper::samples_of(t, self.layer) {
            Some((value, bdim)) => (value.clone(), Some(bdim)),
            None => (t.clone(), None),
        }
    }

    pub(super) fn is_batched(&self, t: &Tensor) -> bool {
        is_batched(t, self.layer)
    }

    /// A tensor with its samples in front, if it is batched.
    pub(super) fn front(&self, t: &Tensor) -> Result<Option<Tensor>> {
        match self.inside(t) {
            (value, Some(bdim)) => moved(&value, bdim, 0).map(Some),
            (_, None) => Ok(None),
        }
    }

    /// The same where it is not batched: as it is.
    pub(super) fn front_or_own(&self, t: &Tensor) -> Result<Tensor> {
        Ok(self.front(t)?.unwrap_or_else(|| t.clone()))
    }

    /// A tensor with samples in front, which are all the same if it is not batched.
    pub(super) fn expanded(&self, t: &Tensor) -> Result<Tensor> {
        match self.front(t)? {
            Some(t) => Ok(t),
            None => {
                let mut sizes = vec![self.size];
                sizes.extend(t.sizes());
                aten::expand(&aten::unsqueeze(t, 0)?, &sizes, false)
            }
        }
    }

    /// The arguments with each tensor replaced.
    pub(super) fn mapped(
        &self,
        mut f: impl FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<Value>> {
        self.args.iter().map(|v| v.map_tensors(&mut f)).collect()
    }

    /// Calls the operator itself.
    pub(super) fn again(&self, mut args: Vec<Value>) -> Result<Results> {
        self.op.call_boxed(&mut args)?;
        Ok(args)
    }

    /// The number of dimensions that a sample of the first tensor has.
    pub(super) fn rank(&self) -> usize {
        self.args.iter().flat_map(Value::tensors).next().map_or(0, Tensor::dim)
    }

    /// A dimension of a sample as one of the batch.
    pub(super) fn shifted(&self, dim: i64, rank: usize) -> Result<i64> {
        Ok(wrap_dim(dim, rank)? as i64 + 1)
    }

    /// The results with their samples in front as batched tensors; what was written is itself.
    pub(super) fn wrapped(&self, results: Results) -> Vec<Value> {
        let wrap = |(at, value): (usize, Value)| {
            let alias = self.schema.returns.get(at).and_then(|r| r.alias.as_ref());
            if let Some(name) = alias.filter(|a| a.write).and_then(|a| a.before.first()) {
                let shares = |a: &AliasInfo| a.before.contains(name);
                let args = self.schema.args.iter().zip(&self.args);
                let mut same = args.filter(|(a, _)| a.alias.as_ref().is_some_and(shares));
                if let Some((_, own)) = same.next() {
                    return own.clone();
                }
            }
            self.batched(&value)
        };
        results.into_iter().enumerate().map(wrap).collect()
    }

    pub(super) fn batched(&self, value: &Value) -> Value {
        let wrap = |t: &Tensor| wrapper::batched(t, 0, self.layer);
        match value {
            Value::Tensor(t) => Value::Tensor(wrap(t)),
            Value::TensorList(l) => Value::TensorList(l.iter().map(wrap).collect()),
            other => other.clone(),
        }
    }

    /// What is written must be batched where anything is.
    pub(super) fn check_written(&self) -> Result<()> {
        let op = || self.op.name().to_string();
        if self.schema.is_out_variant() {
            let why = "vmap does not support `out=`";
            return Err(TransformError::NoRule { op: op(), why }.into());
        }
        for (value, arg) in self.args.iter().zip(&self.schema.args) {
            if arg.is_write() && value.tensors().any(|t| !self.is_batched(t)) {
                if matches!(&*self.name, "add.Tensor" | "sub.Tensor") {
                    // the kernel says that the shapes do not fit
                    return Ok(());
                }
                return Err(TransformError::InPlace { op: op() }.into());
            }
        }
        Ok(())
    }

    /// Running statistics that all samples share are no sample's to write.
    pub(super) fn refuse_shared_statistics(&self) -> Result<()> {
        let training = self.position("training").or_else(|| self.position("train"));
        if !training.is_some_and(|at| self.flag(at)) {
            return Ok(());
        }
        let names = ["running_mean", "running_var"];
        let mut running = names.iter().filter_map(|n| self.optional(self.position(n)?));
        let input = self.optional(0).is_some_and(|x| self.is_batched(x));
        match input && running.any(|t| !self.is_batched(t)) && !self.name.contains("backward") {
            true => Err(TransformError::Vmap(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, \
                 were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be \
                 False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for \
                 resources on how to patch your module to work with vmap"
                    .into(),
            )
            .into()),
            false => Ok(()),
        }
    }

    pub(super) fn refuse_what_depends_on_data(&self) -> Result<()> {
        let op = || self.op.name().to_string();
        Err(match &*self.name {
            "item" | "_local_scalar_dense" => TransformError::Item,
            "is_nonzero" | "equal" | "allclose" => TransformError::ControlFlow,
            "masked_select" => TransformError::Mask { op: op() },
            "nonzero"
            | "nonzero_numpy"
            | "argwhere"
            | "_unique"
            | "_unique2"
            | "unique_dim"
            | "unique_consecutive"
            | "unique_dim_consecutive"
            | "repeat_interleave.Tensor"
            | "bincount" => TransformError::DynamicShape { op: op() },
            _ => return Ok(()),
        }
        .into())
    }
}
