//! Exported programs against PyTorch's own results, and archives that must be refused. The archives
//! are some of those that `tools/conformance --pt2` runs; their format is beside them.

pub(crate) mod recorded;

use recorded::{Recorded, Way, archives_of};
use std::path::PathBuf;
use straightline::program::ProgramError;
use straightline::{ErrorKind, pt2};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pt2"))
}

fn all(way: Way) {
    let paths = archives_of(&folder()).unwrap();
    assert!(paths.len() >= 10);
    let failures: Vec<String> = (paths.iter())
        .filter_map(|path| {
            let recorded = Recorded::open(path).unwrap();
            recorded.run(way).err().map(|e| format!("{}: {e}", recorded.name))
        })
        .collect();
    assert!(failures.is_empty(), "{way:?}:\n{}", failures.join("\n"));
}

#[test]
fn archives_run_eagerly() {
    all(Way::Eager);
}

#[test]
fn archives_run_compiled() {
    all(Way::Compiled);
}

#[test]
fn damaged_archives_are_refused_with_a_reason() {
    let expected = [
        ("unknown_operator", "no_such_operator"),
        ("newer_major_schema", "version 9"),
        ("use_before_definition", "read before it is defined"),
        ("weight_too_short", "5"),
        ("stride_out_of_bounds", "reaches"),
        ("pickled_weight", "pickled"),
        ("no_model", "models/model.json"),
        ("not_json", "no JSON"),
        ("truncated", "truncated.pt2"),
        ("not_zip", "not_zip.pt2"),
    ];
    for (name, reason) in expected {
        let e = pt2::load(folder().join(format!("bad/{name}.pt2"))).unwrap_err();
        assert!(e.to_string().contains(reason), "{name}: {e}");
        assert!(
            matches!(e.kind(), ErrorKind::Program(_) | ErrorKind::Archive(_)),
            "{name}: {:?}",
            e.kind()
        );
    }
    pt2::load(folder().join("bad/good.pt2")).unwrap();
    let e = pt2::load(folder().join("bad/unknown_operator.pt2")).unwrap_err();
    let ErrorKind::Program(e) = e.kind() else { panic!("{e}") };
    assert!(matches!(&**e, ProgramError::Unsupported { targets } if targets.len() == 1));
}

/// Of these bytes others, from a fixed stream: a byte, a number in place of a number, a piece that is
/// gone or there twice.
fn mutant(json: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let mut out = json.to_vec();
    let at = below(out.len());
    match below(4) {
        0 => out[at] = below(256) as u8,
        1 => {
            let digits = |b: &u8| b.is_ascii_digit();
            let from = out[at..].iter().position(digits).map_or(at, |i| at + i);
            let end = out[from..].iter().position(|b| !digits(b)).map_or(from, |i| from + i);
            let numbers = ["0", "-1", "7", "99999999999", "9223372036854775807", "1e300", "null"];
            out.splice(from..end, numbers[below(numbers.len())].bytes());
        }
        2 => {
            let end = (at + below(40)).min(out.len());
            out.drain(at..end);
        }
        _ => {
            let piece = out[at..(at + below(40)).min(out.len())].to_vec();
            out.splice(at..at, piece);
        }
    }
    out
}

#[test]
fn damaged_descriptions_are_refused_or_loaded() {
    let folder_of_mutants = tempfile::tempdir().unwrap();
    let path = folder_of_mutants.path().join("mutant.pt2");
    let (mut refused, mut all) = (0, 0);
    for name in ["mlp_tree", "cond", "lstm", "transformer_encoder"] {
        let whole = std::fs::read(folder().join(format!("{name}.pt2"))).unwrap();
        let find = |what: &[u8], from: usize| {
            whole[from..].windows(what.len()).position(|w| w == what).map(|at| from + at)
        };
        // an entry has its size before it: what is shorter is filled up with spaces, what is longer cut
        let begin = find(b"{\"graph_module\"", 0).unwrap();
        let end = find(b"PK", begin).unwrap();
        let json = &whole[begin..end];
        for seed in 0..400 {
            let mut bytes = whole.clone();
            let mut new = mutant(json, seed);
            new.resize(json.len(), b' ');
            bytes[begin..end].copy_from_slice(&new);
            std::fs::write(&path, &bytes).unwrap();
            all += 1;
            if let Err(e) = pt2::load(&path) {
                refused += 1;
                let kind = e.kind();
                assert!(
                    matches!(kind, ErrorKind::Program(_) | ErrorKind::Archive(_)),
                    "{name} {seed}: {kind:?}"
                );
            }
        }
    }
    assert!(refused > all / 2, "{refused} of {all}");
}
