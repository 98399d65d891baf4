//! The `minilm` example on real weights against PyTorch's embeddings.
//!
//! Runs where `STRAIGHTLINE_MINILM` names a folder with all-MiniLM-L6-v2 (see the example for
//! where to get one), and says that it did nothing where it does not.

#[allow(dead_code, reason = "shared with the example")]
#[path = "../examples/minilm/embedder.rs"]
mod embedder;

use embedder::{Embedder, Result, similarity};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Reference {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    sentence: String,
    input_ids: Vec<i64>,
    embedding: Vec<f32>,
}

#[test]
fn embeddings_are_pytorchs() -> Result<()> {
    let Some(folder) = std::env::var_os("STRAIGHTLINE_MINILM") else {
        println!("skipped: STRAIGHTLINE_MINILM does not name a folder with the weights");
        return Ok(());
    };
    let reference: Reference =
        serde_json::from_str(include_str!("../../tests/data/minilm_reference.json"))?;
    let embedder = Embedder::open(Path::new(&folder))?;
    let mut worst = 1f32;
    for row in &reference.rows {
        let tokens = embedder.tokens(&row.sentence)?;
        assert_eq!(tokens, row.input_ids, "tokens of {:?}", row.sentence);
        let inputs = embedder.inputs(&tokens)?;
        let both = [("eager", embedder.eager(&inputs)?), ("compiled", embedder.compiled(&inputs)?)];
        for (mode, found) in both {
            let near = similarity(&found, &row.embedding);
            worst = worst.min(near);
            assert!(near >= 0.9999, "{mode}, {:?}: cosine {near}", row.sentence);
        }
    }
    println!("{} sentences, lowest cosine {worst}", reference.rows.len());
    Ok(())
}
