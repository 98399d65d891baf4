//! Archives, whole and damaged.

use super::archive::Archive;
use super::error::{FileError, FileReason};
use super::made::Zip;
use crate::error::{Error, ErrorKind};
use straightline_catalog::DType;

fn open(bytes: Vec<u8>) -> Archive {
    Archive::from_bytes("some/model.pt2", bytes).unwrap()
}

fn found(error: &Error) -> &FileError {
    let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
    found
}

/// The entry and the reason with which an archive is refused.
fn refused(bytes: Vec<u8>) -> (Option<String>, String, String) {
    let error = Archive::from_bytes("model.pt2", bytes).unwrap_err();
    let found = found(&error);
    let reason = format!("{:?}", found.reason);
    (found.entry.clone(), reason, error.to_string())
}

/// Eight floats after `archive_format`.
fn two() -> Zip {
    let floats: Vec<u8> = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    Zip::new().entry("m/archive_format", b"pt2").entry("m/data/weights/weight_0", &floats)
}

/// The same archive with some bytes, found by what stands there, replaced.
fn patched(mut bytes: Vec<u8>, signature: u32, nth: usize, at: usize, new: &[u8]) -> Vec<u8> {
    let signature = signature.to_le_bytes();
    let mut places = (0..bytes.len() - 4).filter(|i| bytes[*i..*i + 4] == signature);
    let place = places.nth(nth).unwrap() + at;
    bytes[place..place + new.len()].copy_from_slice(new);
    bytes
}

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const LARGE_END: u32 = 0x0606_4b50;
const LOCATOR: u32 = 0x0706_4b50;

#[test]
fn entries_are_read_in_every_layout() {
    for (align, descriptors, large) in
        [(64, true, false), (64, true, true), (1, false, false), (1, false, true), (4, true, false)]
    {
        for (root, comment) in [("m/", ""), ("", ""), ("a b/", "a comment")] {
            let mut zip = Zip::new();
            (zip.align, zip.descriptors, zip.large) = (align, descriptors, large);
            zip.comment = comment.into();
            let zip = zip
                .entry(&format!("{root}archive_format"), b"pt2")
                .entry(&format!("{root}data/"), b"")
                .entry(&format!("{root}data/empty"), b"")
                .entry(&format!("{root}data/0"), &[1; 9]);
            let archive = open(zip.done());
            let names: Vec<&str> = archive.names().collect();
            assert_eq!(names, ["archive_format", "data/0", "data/empty"]);
            assert_eq!(archive.entry("archive_format"), Some(&b"pt2"[..]));
            assert_eq!(archive.entry("data/0"), Some(&[1; 9][..]));
            assert_eq!(archive.entry("data/empty"), Some(&b""[..]));
            assert_eq!(archive.entry("data"), None);
            assert_eq!(archive.entry("m/archive_format"), None);
            assert_eq!(archive.memory("data/0").unwrap().bytes(), 9);
            assert_eq!(archive.memory("data/empty").unwrap().bytes(), 0);
            assert_eq!(archive.path(), "some/model.pt2");
        }
    }
    let archive = open(Zip::new().done());
    assert_eq!(archive.names().count(), 0);
    let archive = open(Zip::new().entry("a/x", b"1").entry("b/x", b"2").done());
    assert_eq!(archive.names().collect::<Vec<_>>(), ["a/x", "b/x"]);
}

#[test]
fn tensors_lie_in_the_file_and_share_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt2");
    std::fs::write(&path, two().done()).unwrap();
    let archive = Archive::open(&path).unwrap();
    let name = "data/weights/weight_0";
    let all = archive.tensor(name, DType::F32, &[2, 4], &[4, 1], 0).unwrap();
    let column = archive.tensor(name, DType::F32, &[2], &[4], 3).unwrap();
    assert!(all.shares_storage_with(&column));
    let at = archive.entry(name).unwrap().as_ptr();
    assert_eq!(all.data_ptr().unwrap().cast_const(), at, "no copy");
    drop(archive);
    assert_eq!(column.to_vec::<f32>().unwrap(), [3.0, 7.0]);
    assert_eq!(all.sum().unwrap().item::<f32>().unwrap(), 28.0);
    let error = all.add_(1).unwrap_err();
    let ErrorKind::ReadOnly { memory } = error.kind() else { panic!("{error}") };
    assert_eq!(memory, "`m/data/weights/weight_0` of model.pt2");
}

#[test]
fn an_entry_that_is_not_aligned_is_copied_once() {
    let mut zip = Zip::new();
    zip.align = 1;
    let floats: Vec<u8> = (0..5).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    let archive = open(zip.entry("m/x", &floats).entry("m/y", &floats).entry("m/ya", &[7]).done());
    for name in ["x", "y"] {
        let all = archive.tensor(name, DType::F64, &[5], &[1], 0).unwrap();
        let last = archive.tensor(name, DType::F64, &[], &[], 4).unwrap();
        assert!(all.shares_storage_with(&last), "{name}");
        assert_eq!(all.to_vec::<f64>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
    }
    assert_eq!(archive.tensor("ya", DType::U8, &[1], &[1], 0).unwrap().item::<u8>().unwrap(), 7);
    assert!(archive.tensor("ya", DType::U8, &[8], &[1], 0).is_err());
}

#[test]
fn what_does_not_fit_an_entry_is_refused() {
    let archive = open(two().done());
    let name = "data/weights/weight_0";
    for (sizes, strides, offset) in [
        (&[9][..], &[1][..], 0),
        (&[8], &[1], 1),
        (&[2], &[i64::MAX], 0),
        (&[i64::MAX, 2], &[0, 1], 0),
        (&[2], &[-1], 1),
        (&[-2], &[1], 0),
        (&[2], &[1, 1], 0),
        (&[1], &[1], -1),
        (&[1], &[1], i64::MAX),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            let made = archive.tensor(name, dtype, sizes, strides, offset);
            assert!(made.is_err() || dtype == DType::Bool, "{sizes:?} {strides:?} {offset}");
        }
    }
    let error = archive.tensor("weight_0", DType::F32, &[1], &[1], 0).unwrap_err();
    assert!(matches!(found(&error).reason, FileReason::Missing));
    assert_eq!(error.to_string(), "some/model.pt2: entry `weight_0`: there is no such entry");
}

#[test]
fn truth_values_are_0_or_1() {
    let zip = Zip::new().entry("m/b", &[0, 1, 1, 2, 0, 3, 0, 1]).entry("m/fine", &[0, 1]);
    let archive = open(zip.done());
    let bools = |sizes: &[i64], strides: &[i64], offset| {
        archive.tensor("b", DType::Bool, sizes, strides, offset)
    };
    assert_eq!(bools(&[3], &[1], 0).unwrap().to_vec::<bool>().unwrap(), [false, true, true]);
    assert_eq!(bools(&[2], &[1], 6).unwrap().to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(bools(&[0], &[1], 4).unwrap().numel(), 0);
    for (sizes, offset) in [(8, 0), (1, 3), (1, 5), (3, 5), (2, 2)] {
        let error = bools(&[sizes], &[1], offset).unwrap_err();
        assert!(matches!(found(&error).reason, FileReason::NotBool { at: 3, value: 2 }), "{error}");
    }
    assert!(archive.tensor("b", DType::U8, &[8], &[1], 0).is_ok());
    assert!(archive.tensor("fine", DType::Bool, &[2], &[1], 0).is_ok());
}

#[test]
fn what_is_no_archive_is_refused() {
    let (entry, reason, text) = refused(b"not an archive".to_vec());
    assert_eq!((entry, reason.as_str()), (None, "NotAnArchive { bytes: 14 }"));
    assert_eq!(
        text,
        "model.pt2: this is no zip archive: its 14 bytes do not end in the directory of one"
    );
    assert!(refused(Vec::new()).1.starts_with("NotAnArchive"));
    let whole = two().done();
    for cut in [whole.len() - 1, 300, 4] {
        let (_, reason, _) = refused(whole[..cut].to_vec());
        assert_eq!(reason, format!("CutOff {{ bytes: {cut} }}"));
    }
    let error = Archive::open(std::path::Path::new("there/is/none.pt2")).unwrap_err();
    assert!(matches!(found(&error).reason, FileReason::Io(_)), "{error}");
    let folder = tempfile::tempdir().unwrap();
    assert!(Archive::open(folder.path()).is_err());
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let error = Archive::open(&folder.path().join("empty")).unwrap_err();
    assert!(matches!(found(&error).reason, FileReason::NotAnArchive { bytes: 0 }), "{error}");
}

#[test]
fn a_damaged_directory_is_refused() {
    let mut zip = Zip::new();
    zip.large = true;
    let (whole, large) = (two().done(), zip.entry("m/a", b"123").entry("m/b", b"456").done());
    let most = u64::MAX.to_le_bytes();
    for (bytes, signature, at, new, wanted) in [
        (&whole, END, 4, &[1u8, 0][..], "SeveralDisks { disks: 2 }"),
        (&whole, END, 8, &[1, 0], "SeveralDisks { disks: 2 }"),
        (&whole, END, 8, &[9, 0, 9, 0], "Truncated { what: \"the directory\""),
        (&whole, END, 8, &[3, 0, 3, 0], "Truncated { what: \"the directory\""),
        (&whole, END, 8, &[1, 0, 1, 0], "Contradiction { what: \"the length of the directory\""),
        (&whole, END, 12, &[255, 255, 255, 127], "Truncated { what: \"the directory\""),
        (&whole, END, 16, &[255, 255, 255, 255], "Truncated { what: \"the directory\""),
        (&whole, END, 16, &[1, 0, 0, 0], "NoRecord { what: \"an entry of the directory\", at: 1 }"),
        (&large, LOCATOR, 16, &[2, 0], "SeveralDisks { disks: 2 }"),
        (&large, LOCATOR, 8, &most, "Truncated { what: \"the end record of a large archive\""),
        (&large, LOCATOR, 8, &[0; 8], "NoRecord { what: \"the end record of a large archive\""),
        (&large, LARGE_END, 24, &most, "SeveralDisks"),
        (&large, LARGE_END, 40, &most, "Truncated { what: \"the directory\""),
        (&large, LARGE_END, 48, &most, "Truncated { what: \"the directory\""),
        (
            &large,
            END,
            10,
            &[7, 0],
            "Contradiction { what: \"the number of entries\", one: 7, other: 2 }",
        ),
    ] {
        let (entry, reason, _) = refused(patched(bytes.clone(), signature, 0, at, new));
        assert!(reason.starts_with(wanted) && entry.is_none(), "{reason} is not {wanted}");
    }
    let everywhere = patched(large, LARGE_END, 0, 24, &[255; 16]);
    assert!(refused(everywhere).1.starts_with("Truncated { what: \"the directory\""));
}

#[test]
fn a_damaged_entry_is_refused_by_name() {
    let whole = two().done();
    for (signature, nth, at, new, wanted) in [
        (CENTRAL, 1, 8, &[1u8, 8][..], "Encrypted { flags: 2049 }"),
        (CENTRAL, 1, 10, &[8, 0], "Contradiction { what: \"its method\", one: 8, other: 0 }"),
        (CENTRAL, 1, 20, &[9], "Contradiction { what: \"its length\", one: 9, other: 32 }"),
        (CENTRAL, 1, 20, &[255, 255, 0, 0, 255, 255], "Truncated { what: \"its data\""),
        (CENTRAL, 1, 42, &[255, 255, 255, 127], "Truncated { what: \"the header before its data\""),
        (CENTRAL, 1, 42, &[1, 0, 0, 0], "NoRecord { what: \"the header before its data\", at: 1 }"),
        (CENTRAL, 1, 34, &[3, 0], "SeveralDisks { disks: 4 }"),
        (LOCAL, 1, 30, b"n", "NameDiffers { local: \"n/data/weights/weight_0\" }"),
        (LOCAL, 1, 8, &[8, 0], "Contradiction { what: \"its method\", one: 0, other: 8 }"),
        (LOCAL, 1, 26, &[255, 255], "Truncated { what: \"the header before its data\""),
        (LOCAL, 1, 28, &[255, 255], "Truncated { what: \"its data\""),
    ] {
        let (entry, reason, _) = refused(patched(whole.clone(), signature, nth, at, new));
        assert_eq!(entry.as_deref(), Some("m/data/weights/weight_0"), "{reason}");
        assert!(reason.starts_with(wanted), "{reason} is not {wanted}");
    }
    // no field for what does not fit
    let (_, reason, _) = refused(patched(whole.clone(), CENTRAL, 1, 42, &[255; 4]));
    assert!(reason.starts_with("NoRecord { what: \"the field with the sizes"), "{reason}");
    // two entries that are one
    let first = patched(whole.clone(), CENTRAL, 1, 42, &[0; 4]);
    assert!(refused(first).1.starts_with("NameDiffers"));
    let twice = Zip::new().entry("m/a", b"1").entry("m/a", b"2").done();
    assert_eq!(refused(twice.clone()).1, "Duplicate");
    let same = patched(twice, CENTRAL, 1, 42, &[0; 4]);
    assert_eq!(refused(same).1, "Duplicate");
    let longer = patched(whole, CENTRAL, 0, 20, &[80, 0, 0, 0, 80, 0, 0, 0]);
    let (entry, reason, text) = refused(longer);
    assert_eq!(reason, "Overlap { other: \"m/archive_format\" }");
    assert_eq!(entry.as_deref(), Some("m/data/weights/weight_0"));
    assert!(text.ends_with("it overlaps with `m/archive_format`"), "{text}");
}

#[test]
fn a_compressed_entry_is_refused_when_it_is_asked_for() {
    let bytes = patched(two().done(), CENTRAL, 1, 10, &[8, 0]);
    let archive = open(patched(bytes, LOCAL, 1, 8, &[8, 0]));
    let name = "data/weights/weight_0";
    assert!(archive.has(name) && archive.entry(name).is_none());
    assert_eq!(archive.bytes("archive_format").unwrap(), b"pt2");
    for error in [
        archive.bytes(name).unwrap_err(),
        archive.tensor(name, DType::F32, &[1], &[1], 0).unwrap_err(),
    ] {
        assert!(matches!(found(&error).reason, FileReason::Compressed { method: 8 }), "{error}");
    }
}

#[test]
fn names_stay_in_the_archive() {
    for name in ["", "/etc/passwd", "m/../x", "..", "m/..", "./x", "a\\b", "a\0b"] {
        let (entry, reason, _) = refused(Zip::new().entry(name, b"1").done());
        assert!(reason.starts_with("Name {"), "{name:?}: {reason}");
        assert_eq!(entry.as_deref(), Some(name));
    }
    let zip = Zip::new().entry("m/xxxx", b"1").done();
    let (_, reason, _) = refused(patched(zip, CENTRAL, 0, 46, &[0xff]));
    assert_eq!(reason, "Name { why: \"it is not UTF-8\" }");
    for name in ["..a", "a..", "m/...", "m/ä"] {
        open(Zip::new().entry(name, b"1").done());
    }
}
