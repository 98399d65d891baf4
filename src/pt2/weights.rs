//! Weights of an archive, used where they lie.

use super::codes;
use super::json::json;
use super::schema::{Payload, PayloadConfig, SymInt, TensorMeta};
use crate::error::Result;
use crate::files::archive::Archive;
use crate::program::ProgramError;
use crate::tensor::{ExternalMemory, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use straightline_catalog::DType;

/// The weights that an archive describes, by name.
pub(super) struct Weights<'a> {
    archive: &'a Archive,
    /// Of each name the folder of its bytes, and what it is.
    all: BTreeMap<String, (&'static str, Payload)>,
    /// What has been copied, since a program writes it.
    copies: BTreeMap<String, ExternalMemory>,
}

impl<'a> Weights<'a> {
    /// Reads the two tables.
    pub(super) fn read(archive: &'a Archive, model: &str) -> Result<Weights<'a>> {
        let mut all = BTreeMap::new();
        for (folder, table) in
            [("data/weights/", "weights_config"), ("data/constants/", "constants_config")]
        {
            let entry = format!("{folder}{model}_{table}.json");
            if !archive.has(&entry) {
                continue;
            }
            let bytes = archive.bytes(&entry)?;
            let table: PayloadConfig = json(&entry, bytes)?;
            for (name, payload) in table.config {
                all.entry(name).or_insert((folder, payload));
            }
        }
        Ok(Weights { archive, all, copies: BTreeMap::new() })
    }

    /// The entry that has the bytes of a weight, if there is such a weight.
    pub(super) fn entry_of(&self, name: &str) -> Option<String> {
        self.all.get(name).map(|(folder, payload)| format!("{folder}{}", payload.path_name))
    }

    /// A weight. Where its bytes are `written`, all weights that have them lie in one copy.
    pub(super) fn tensor(&mut self, name: &str, written: &BTreeSet<String>) -> Result<Tensor> {
        let Some((folder, payload)) = self.all.get(name) else {
            return Err(ProgramError::Weight {
                weight: name.into(),
                entry: "the archive".into(),
                reason: "there is no weight of this name".into(),
            }
            .into());
        };
        let entry = format!("{folder}{}", payload.path_name);
        let wrong = |reason: String| ProgramError::Weight {
            weight: name.to_owned(),
            entry: entry.clone(),
            reason,
        };
        if payload.use_pickle {
            let reason = "it is pickled, as tensors of classes of Python are, and pickles run code: export the model \
                          with plain tensors";
            return Err(wrong(reason.into()).into());
        }
        let meta = payload.tensor_meta.as_ref();
        let meta = meta.ok_or_else(|| wrong("it has no description".into()))?;
        let Geometry { dtype, sizes, strides, offset } = geometry(meta).map_err(&wrong)?;
        if !self.archive.has(&entry) {
            return Err(wrong("the archive has no such entry".into()).into());
        }
        let there = self.archive.tensor(&entry, dtype, &sizes, &strides, offset);
        let there = there.map_err(|e| wrong(e.to_string()))?;
        if !written.contains(&entry) {
            return Ok(there);
        }
        let copy = match self.copies.get(&entry) {
            Some(copy) => copy.clone(),
            None => {
                let copy = self.archive.memory(&entry)?.copied()?;
                self.copies.insert(entry.clone(), copy.clone());
                copy
            }
        };
        copy.tensor(dtype, &sizes, &strides, offset)
    }
}

struct Geometry {
    dtype: DType,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
}

fn geometry(meta: &TensorMeta) -> Result<Geometry, String> {
    let int = |n: &SymInt| match n {
        SymInt::AsInt(n) => Ok(*n),
        SymInt::AsExpr(e) => Err(format!("the size {} of a weight is no number", e.expr_str)),
    };
    if meta.layout != 7 {
        let name = codes::layout(meta.layout)?;
        return Err(format!("its layout is {name:?}, and only strided weights are supported"));
    }
    Ok(Geometry {
        dtype: codes::dtype(meta.dtype)?,
        sizes: meta.sizes.iter().map(int).collect::<Result<_, _>>()?,
        strides: meta.strides.iter().map(int).collect::<Result<_, _>>()?,
        offset: int(&meta.storage_offset)?,
    })
}
