//! The recorded calls of `tests/data`.

/// Files of `tests/data` with calls that succeed.
pub(crate) const SUCCEED: [&str; 13] = [
    "public.jsonl.gz",
    "complex.jsonl.gz",
    "derived.jsonl.gz",
    "more.jsonl.gz",
    "samples.jsonl.gz",
    "overloads.jsonl.gz",
    "forms.jsonl.gz",
    "linalg.jsonl.gz",
    "layout.jsonl.gz",
    "held_out.jsonl.gz",
    "out_dtypes.jsonl.gz",
    "narrow.jsonl.gz",
    "overlap.jsonl.gz",
];

/// And with calls that must fail.
pub(crate) const FAIL: [&str; 10] = [
    "public_errors.jsonl.gz",
    "samples_errors.jsonl.gz",
    "out_dtypes_errors.jsonl.gz",
    "layout_errors.jsonl.gz",
    "linalg_errors.jsonl.gz",
    "bad.jsonl.gz",
    "overloads_errors.jsonl.gz",
    "forms_errors.jsonl.gz",
    "narrow_errors.jsonl.gz",
    "overlap_errors.jsonl.gz",
];
