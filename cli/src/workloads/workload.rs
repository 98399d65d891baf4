//! An entry of the suite, and what it needs to run.

use super::program::{Built, Program, Unready};
use crate::error::{CliError, Result};
use crate::model::ModelOptions;
use std::path::PathBuf;
use straightline::DType;

/// What a workload may need from outside.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Setting {
    /// Folder with the weights of all-MiniLM-L6-v2 (config.json, model.safetensors), for w12; the
    /// default is the environment variable STRAIGHTLINE_MINILM
    #[arg(long, value_name = "PATH")]
    pub(crate) minilm: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelOptions,
}

impl Setting {
    /// The folder that was given, or the one that the environment names.
    pub(super) fn minilm(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os("STRAIGHTLINE_MINILM").map(PathBuf::from);
        self.minilm.clone().or_else(from_environment)
    }
}

/// How close the compiled output must be to the eager one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Agreement {
    /// Within this share of the element and of the root mean square.
    Within(f64),
    /// As [`Agreement::Within`] by the dtype of each output: what sums in another order may differ by.
    ByDType,
    /// The elements are whatever was in memory: only sizes and dtype must agree.
    ShapeOnly,
}

impl Agreement {
    /// The share for an output of this dtype, unless its elements mean nothing.
    pub(crate) fn share(self, dtype: DType) -> Option<f64> {
        match self {
            Agreement::Within(share) => Some(share),
            Agreement::ByDType if dtype.is_half() => Some(2e-2),
            Agreement::ByDType if dtype.is_floating() || dtype.is_complex() => Some(1e-4),
            Agreement::ByDType => Some(0.0),
            Agreement::ShapeOnly => None,
        }
    }
}

/// Pointwise results: the same functions in the same order, except that products may be fused into
/// additions with one rounding.
pub(super) const POINTWISE: Agreement = Agreement::Within(1e-5);
/// Sums and products of matrices: the order of additions differs.
pub(super) const SUMS: Agreement = Agreement::Within(1e-4);

/// One entry of the suite.
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) agreement: Agreement,
    build: Box<dyn Fn(&Setting) -> Built>,
}

impl Workload {
    pub(super) fn new(
        name: impl Into<String>,
        agreement: Agreement,
        build: impl Fn(&Setting) -> Built + 'static,
    ) -> Workload {
        Workload { name: name.into(), agreement, build: Box::new(build) }
    }

    /// Makes its data and weights.
    pub(crate) fn build(&self, setting: &Setting) -> Built {
        (self.build)(setting)
    }

    /// [`Workload::build`] where it must run.
    pub(crate) fn require(&self, setting: &Setting) -> Result<Box<dyn Program>> {
        self.build(setting).map_err(|e| match e {
            Unready::Failed(e) => e,
            Unready::Unavailable(reason) => {
                CliError::Unavailable { workload: self.name.clone(), reason }
            }
        })
    }
}
