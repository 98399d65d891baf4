use straightline_ptx_interpreter::{Module, supported};

const GOLDENS: &[(&str, &str)] = &[
    ("control", include_str!("../kernels/control.ptx")),
    ("convert", include_str!("../kernels/convert.ptx")),
    ("faults", include_str!("../kernels/faults.ptx")),
    ("gemm", include_str!("../kernels/gemm.ptx")),
    ("math", include_str!("../kernels/math.ptx")),
    ("parallel", include_str!("../kernels/parallel.ptx")),
    ("pointwise", include_str!("../kernels/pointwise.ptx")),
    ("softmax", include_str!("../kernels/softmax.ptx")),
];

/// The mnemonic of a line that is an instruction.
fn mnemonic(line: &str) -> Option<&str> {
    let line = line.split("//").next()?.trim();
    let line = line.strip_prefix('{').unwrap_or(line).trim();
    let line = if line.starts_with('@') { line.split_once(' ')?.1.trim() } else { line };
    let name = line.split(['.', ' ', ';', '\t']).next()?;
    let known = name.starts_with(|first: char| first.is_ascii_lowercase());
    (known && line.contains(';') && !line.contains(":")).then_some(name)
}

#[test]
fn every_instruction_of_the_kernels_is_interpreted() {
    for (name, ptx) in GOLDENS {
        let module = Module::parse(ptx).unwrap_or_else(|error| panic!("{name}.ptx:{error}"));
        for kernel in module.kernels().filter(|kernel| kernel.name() != "exotic") {
            let unsupported: Vec<_> = kernel.unsupported().collect();
            assert!(unsupported.is_empty(), "{name}.ptx, {}: {unsupported:?}", kernel.name());
        }
    }
}

#[test]
fn every_mnemonic_of_the_kernels_is_in_the_table() {
    let mut missing: Vec<&str> = Vec::new();
    for (_, ptx) in GOLDENS {
        let mnemonics = ptx.lines().filter_map(mnemonic);
        missing
            .extend(mnemonics.filter(|name| !supported().iter().any(|(known, _)| known == name)));
    }
    missing.sort_unstable();
    missing.dedup();
    assert_eq!(missing, ["wgmma"]);
}

#[test]
fn the_table_is_in_order() {
    assert!(supported().is_sorted_by(|left, right| left.0 < right.0));
}
