//! W12: sentence embeddings by all-MiniLM-L6-v2, with its real weights from a folder.

use super::data::ids;
use super::program::{Unready, function};
use super::workload::{SUMS, Workload};
use straightline::{DType, Tensor};
use straightline_models::bert::Bert;

pub(super) fn workloads() -> Vec<Workload> {
    let mut suite = Vec::new();
    for batch in [1, 8] {
        for length in [8, 32, 128] {
            let name = format!("w12.minilm_b{batch}_l{length}");
            suite.push(Workload::new(name, SUMS, move |setting| {
                let Some(folder) = setting.minilm() else {
                    return Err(Unready::Unavailable(
                        "it needs the weights of all-MiniLM-L6-v2: give their folder with --minilm PATH or STRAIGHTLINE_MINILM".into(),
                    ));
                };
                let bert = Bert::load(&folder)?;
                // row-major: a smaller batch is a prefix of the same data
                let tokens = ids(&format!("w12.ids.l{length}"), &[batch, length], 1000, 30_000)?;
                let mask = Tensor::with(DType::I64).ones([batch, length])?;
                function((tokens, mask), move |(ids, mask): &(Tensor, Tensor)| {
                    bert.embed(ids, mask)
                })
            }));
        }
    }
    suite
}
