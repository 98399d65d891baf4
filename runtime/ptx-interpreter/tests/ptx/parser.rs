use proptest::prelude::*;
use straightline_ptx_interpreter::{DeviceMemory, Launch, Module, Options, launch};

const CONTROL: &str = include_str!("../kernels/control.ptx");
const HEADER: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";

#[track_caller]
fn refused(text: &str) -> String {
    Module::parse(&format!("{HEADER}{text}")).unwrap_err().to_string()
}

#[test]
fn errors_say_where_and_what() {
    assert_eq!(refused(".entry k() { mov.u32 %r1, 5; }"), "4:14: expected a register, found `%r1`");
    assert_eq!(
        refused(".entry k() { .reg .b32 r;\n mov.u32 r, there;\n}"),
        "5:2: expected a name that is declared, found `there`"
    );
    assert_eq!(refused(".entry k() { bra away; }"), "4:14: expected a label, found `away`");
    assert_eq!(refused(".entry k() { ret }"), "4:18: expected an operand, found `}`");
    assert_eq!(refused(".entry k() { ret;"), "4:18: expected `}`, found `the end of the text`");
    assert_eq!(refused(".global .b7 x;"), "4:9: expected a type, found `.b7`");
    assert_eq!(refused(".global .align 3 .b8 x;"), "4:16: expected a power of two, found `3`");
    assert_eq!(
        refused(".entry k() { .reg .b32 r; ld.global.v2.u32 {r, r, r}, [0]; }"),
        "4:27: expected a vector of as many registers, found `a vector`"
    );
    assert_eq!(refused("/* never"), "4:1: expected `*/`, found `the end of the text`");
    assert_eq!(refused("é"), "4:1: expected a token of PTX, found `é`");
    let narrow = Module::parse(".version 9.0\n.target sm_90\n.address_size 32").unwrap_err();
    assert_eq!((narrow.line, narrow.expected.as_str(), narrow.found.as_str()), (3, "64", "32"));
}

#[test]
fn names_are_those_of_the_nearest_block() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 out) {{
            .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred p;
            ld.param.u64 %rd1, [out];
            mov.b32 %r1, 1;
            mov.b32 %r2, 0;
            {{ .reg .b32 %r1; .reg .pred p; mov.b32 %r1, 7; setp.eq.u32 p, %r1, 7;
               @p bra L; mov.b32 %r2, 100; L: add.u32 %r2, %r2, %r1; }}
            {{ .reg .pred p; setp.ne.u32 p, %r1, 1; @p bra L; add.u32 %r2, %r2, 20; L: }}
            st.global.v2.b32 [%rd1], {{%r1, %r2}};
            ret;
        }}"
    );
    let module = Module::parse(&text).unwrap();
    let mut memory = DeviceMemory::default();
    let loaded = module.load(&mut memory).unwrap();
    let out = memory.allocate(8).unwrap();
    let shape =
        Launch { grid: [1; 3], block: [1; 3], dynamic_shared: 0, params: &out.to_le_bytes() };
    launch(&loaded, "k", &shape, &mut memory, &Options::default()).unwrap();
    let mut bytes = [0; 8];
    memory.read(out, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 0, 0, 0, 27, 0, 0, 0]);
}

#[test]
fn initial_values() {
    let module = Module::parse(&format!(
        "{HEADER}.global .align 8 .u64 table[3] = {{target, generic(target)+8, 5}};
        .global .align 4 .b32 target[4] = {{-1, 0f3F800000, 0x10, 0b11}};
        .const .align 8 .f64 wide = 0d4000000000000000;
        .global .align 1 .b8 text[4] = {{65, 66}};
        .extern .shared .align 16 .b8 dynamic[];"
    ))
    .unwrap();
    let mut memory = DeviceMemory::default();
    let loaded = module.load(&mut memory).unwrap();
    let read = |name: &str| {
        let (address, bytes) = loaded.address(name).unwrap();
        let mut contents = vec![0; bytes as usize];
        memory.read(address, &mut contents).unwrap();
        contents
    };
    let (target, _) = loaded.address("target").unwrap();
    let words: Vec<u64> =
        read("table").chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [target, target + 8, 5]);
    let words: Vec<u32> =
        read("target").chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [u32::MAX, 0x3f80_0000, 16, 3]);
    assert_eq!(read("wide"), 2f64.to_le_bytes());
    assert_eq!(read("text"), [65, 66, 0, 0]);
    assert_eq!(loaded.address("dynamic"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = Module::parse(&text);
    }

    #[test]
    fn no_row_of_tokens_makes_it_panic(words in proptest::collection::vec(
        prop_oneof![
            Just(".entry"), Just(".func"), Just("k"), Just("("), Just(")"), Just("{"), Just("}"), Just(";"), Just(","),
            Just(".reg"), Just(".b32"), Just(".pred"), Just("%r<4>"), Just("%r1"), Just("%p1"), Just("[%r1+4]"), Just("["),
            Just("]"), Just("0x10"), Just("-1"), Just("0f3F800000"), Just("mov.b32"), Just("add.s32"), Just("ld.global.v2.u32"),
            Just("st.shared.f32"), Just("@%p1"), Just("!"), Just("bra"), Just("L:"), Just("L"), Just("call"), Just(".param"),
            Just(".shared"), Just(".global"), Just("="), Just("shfl.sync.up.b32"), Just("cvt.rn.f32.s64"), Just("|"), Just("<"),
            Just("99999999999999999999"), Just("cp.async.ca.shared.global"), Just("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        ],
        0..60,
    )) {
        let _ = Module::parse(&format!("{HEADER}{}", words.join(" ")));
    }

    #[test]
    fn no_damage_to_a_module_makes_it_panic(at in 0..CONTROL.len(), length in 0..40usize, with in "[ -~]{0,4}") {
        let mut text = CONTROL.to_owned();
        let end = (at + length).min(text.len());
        text.replace_range(at..end, &with);
        if let Ok(module) = Module::parse(&text) {
            let mut memory = DeviceMemory::new(1 << 24);
            let Ok(loaded) = module.load(&mut memory) else { return Ok(()) };
            let options = Options { max_instructions: 20_000, ..Options::default() };
            for kernel in module.kernels() {
                let mut params = vec![0; kernel.param_bytes()];
                if let (Ok(out), true) = (memory.allocate(4096), params.len() >= 8) {
                    params[..8].copy_from_slice(&out.to_le_bytes());
                }
                let shape = Launch { grid: [1; 3], block: [33, 1, 1], dynamic_shared: 0, params: &params };
                let _ = launch(&loaded, kernel.name(), &shape, &mut memory, &options);
            }
        }
    }
}
