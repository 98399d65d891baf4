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
