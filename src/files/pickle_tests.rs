//! Pickles made by hand: what is read, and what is refused.

use super::error::FileReason;
use super::made::Zip;
use super::saved::{Key, Saved};
use crate::error::{Error, ErrorKind};
use std::time::{Duration, Instant};
use straightline_catalog::DType;

/// A program that ends with these instructions.
fn program(parts: &[&[u8]]) -> Vec<u8> {
    [b"\x80\x02".as_slice(), &parts.concat(), b"."].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X".as_slice(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn long_text(length: usize) -> Vec<u8> {
    text(&"x".repeat(length))
}

fn int(number: i32) -> Vec<u8> {
    [b"J".as_slice(), &number.to_le_bytes()].concat()
}

fn tuple(numbers: &[i32]) -> Vec<u8> {
    [b"(".to_vec(), numbers.iter().flat_map(|n| int(*n)).collect(), b"t".to_vec()].concat()
}

fn storage(class: &str, key: &str, elements: i32) -> Vec<u8> {
    let class = format!("c{class}\n");
    [b"(", &*text("storage"), class.as_bytes(), &text(key), &text("cpu"), &int(elements), b"tQ"]
        .concat()
}

/// A tensor of `torch.FloatStorage`, or another class, over entry `0`.
fn tensor(class: &str, elements: i32, offset: i32, sizes: &[i32], strides: &[i32]) -> Vec<u8> {
    let parts: [&[u8]; 7] = [
        b"ctorch._utils\n_rebuild_tensor_v2\n(",
        &storage(&format!("torch\n{class}"), "0", elements),
        &int(offset),
        &tuple(sizes),
        &tuple(strides),
        b"\x89ccollections\nOrderedDict\n)R",
        b"tR",
    ];
    parts.concat()
}

fn archive(program: &[u8], data: &[u8]) -> Vec<u8> {
    Zip::new()
        .entry("a/data.pkl", program)
        .entry("a/byteorder", b"little")
        .entry("a/data/0", data)
        .done()
}

/// What is read of these instructions, over an entry of these bytes.
fn read_over(parts: &[&[u8]], data: &[u8]) -> Result<Saved, Error> {
    Saved::parse(archive(&program(parts), data))
}

fn read(parts: &[&[u8]]) -> Result<Saved, Error> {
    read_over(parts, &[0; 64])
}

/// The error of a file that is refused.
fn refused(result: Result<Saved, Error>) -> Error {
    let error = result.unwrap_err();
    assert!(error.to_string().starts_with("<bytes>: entry `"), "{error}");
    error
}

fn why(error: &Error) -> &FileReason {
    let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
    &found.reason
}

fn shown(parts: &[&[u8]]) -> String {
    read(parts).unwrap().to_string()
}

#[test]
fn plain_values_of_every_instruction() {
    for (instructions, wanted) in [
        (&b"N"[..], "None"),
        (b"\x88", "True"),
        (b"\x89", "False"),
        (b"K\xff", "255"),
        (b"M\xff\xff", "65535"),
        (b"J\xff\xff\xff\xff", "-1"),
        (b"\x8a\x00", "0"),
        (b"\x8a\x01\xff", "-1"),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "18446744073709551615"),
        (b"\x8b\x02\x00\x00\x00\x00\x80", "-32768"),
        (b"G\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
        (b"X\x02\x00\x00\x00hi", "\"hi\""),
        (b"\x8c\x02hi", "\"hi\""),
        (b"\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi", "\"hi\""),
        (b"U\x02hi", "\"hi\""),
        (b"T\x02\x00\x00\x00hi", "\"hi\""),
        (b"C\x02hi", "2 bytes"),
        (b"B\x02\x00\x00\x00hi", "2 bytes"),
        (b"\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi", "2 bytes"),
        (b"\x96\x02\x00\x00\x00\x00\x00\x00\x00hi", "2 bytes"),
        (b")", "tuple of 0"),
        (b"]", "list of 0"),
        (b"}", "dict of 0"),
        (b"\x8f", "set of 0"),
        (b"K\x01\x85", "tuple of 1: 1"),
        (b"K\x01K\x02\x86", "tuple of 2: 1, 2"),
        (b"K\x01K\x02K\x03\x87", "tuple of 3: 1, 2, 3"),
        (b"(K\x01t", "tuple of 1: 1"),
        (b"](K\x01K\x02e", "list of 2: 1, 2"),
        (b"]K\x01a", "list of 1: 1"),
        (b"(K\x01\x91", "set of 1: 1"),
        (b"\x8f(K\x01K\x02\x90", "set of 2: 1, 2"),
        (b"}K\x01K\x02s", "dict of 1\n  1: 2"),
        (b"}(K\x01K\x02NNK\x01K\x03u", "dict of 2\n  1: 3\n  None: None"),
        (b"K\x012\x86", "tuple of 2: 1, 1"),
        (b"K\x01K\x020", "1"),
        (b"K\x01(0", "1"),
        (b"K\x01(K\x02K\x031", "1"),
        (b"K\x01q\x070h\x07", "1"),
        (b"K\x01r\x00\x00\x01\x000j\x00\x00\x01\x00", "1"),
        (b"K\x01\x940h\x00", "1"),
        (b"\x95\x01\x00\x00\x00\x00\x00\x00\x00N", "None"),
        (b"ctorch\nfloat32\n", "torch.float32"),
        (b"ctorch\nuint7\n", "torch.uint7"),
        (b"ctorch\nchannels_last\n", "torch.channels_last"),
        (b"ctorch\ndevice\n\x8c\x04cuda\x85R", "cuda"),
        (b"ctorch\ndevice\n\x8c\x04cudaK\x01\x86R", "cuda:1"),
        (b"ctorch\nSize\nK\x02\x85\x85R", "tuple of 1: 2"),
        (b"ccollections\nOrderedDict\n)R}\x8c\x01aK\x01sb", "dict of 0"),
        (b"ccollections\nOrderedDict\n)\x81", "dict of 0"),
        (b"ccollections\nOrderedDict\n](K\x01K\x02\x86e\x85R", "dict of 1\n  1: 2"),
        (b"ccollections\nCounter\n}K\x01K\x02s\x85R", "dict of 1\n  1: 2"),
        (b"ccollections\ndefaultdict\ncbuiltins\nlist\n\x85R", "dict of 0"),
        (b"c__builtin__\nset\n]K\x01a\x85R", "set of 1: 1"),
        (b"\x8c\x08builtins\x8c\x03set\x93)R", "set of 0"),
        (b"c_codecs\nencode\n\x8c\x03a\xc3\xbf\x8c\x06latin1\x86R", "2 bytes"),
        (b"cbuiltins\nbytearray\nC\x01a\x85R", "1 bytes"),
        (b"cbuiltins\nbytearray\n)R", "0 bytes"),
    ] {
        assert_eq!(
            shown(&[instructions]),
            format!("{wanted}\n"),
            "{}",
            instructions.escape_ascii()
        );
    }
    let Saved::Bytes(bytes) =
        read(&[b"c_codecs\nencode\n\x8c\x03a\xc3\xbf\x8c\x06latin1\x86R"]).unwrap()
    else {
        panic!("no bytes")
    };
    assert_eq!(*bytes, [b'a', 255]);
    let Saved::Dict(items) = read(&[b"}(\x88N\x8c\x01aK\x01u"]).unwrap() else { panic!() };
    let keys: Vec<&Key> = items.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&Key::Bool(true), &Key::Text("a".into())]);
}

#[test]
fn names_that_are_not_known_are_refused_with_their_place() {
    for (instructions, wanted, at) in [
        (&b"cos\nsystem\n\x8c\x02ls\x85R"[..], "os.system", 2),
        (b"NN\x86cposix\nsystem\n", "posix.system", 5),
        (b"\x8c\x08builtins\x8c\x04eval\x93", "builtins.eval", 18),
        (b"cbuiltins\ngetattr\n", "builtins.getattr", 2),
        (b"ctorch.nn.modules.linear\nLinear\n)\x81", "torch.nn.modules.linear.Linear", 2),
        (b"cnumpy.core.multiarray\nscalar\n", "numpy.core.multiarray.scalar", 2),
        (b"ctorch\nload\n", "torch.load", 2),
        (b"ctorch.storage\n_load_from_bytes\n", "torch.storage._load_from_bytes", 2),
        (b"ctorch._utils\n_import_dotted_name\n", "torch._utils._import_dotted_name", 2),
        (b"c\n\n", ".", 2),
        (b"ctorch\n.float32\n", "torch..float32", 2),
    ] {
        let error = refused(read(&[instructions]));
        let FileReason::Refused { name, at: place } = why(&error) else { panic!("{error}") };
        assert_eq!((name.as_str(), *place), (wanted, at));
    }
    let error = read(&[b"cos\nsystem\n"]).unwrap_err().to_string();
    assert!(error.contains("torch.save(model.state_dict(), path)"), "{error}");
    let error = read(&[b"cnumpy\nfloat64\n"]).unwrap_err().to_string();
    assert!(error.contains(".item()"), "{error}");
}

#[test]
fn instructions_that_are_not_known_are_refused() {
    for opcode in *b"PidlLFSVIgpio\x82\x83\x84\x92\x97\x98\x00\xff" {
        let error = refused(read(&[&[opcode]]));
        let FileReason::Instruction { opcode: found, at: 2 } = why(&error) else {
            panic!("{error}")
        };
        assert_eq!(*found, opcode);
    }
}

#[test]
fn damaged_programs_are_refused() {
    let wrong = "a function is called with arguments that it does not take";
    let storage_of = storage("torch\nFloatStorage", "0", 1);
    let short = [b"ctorch._utils\n_rebuild_tensor_v2\n", &*storage_of, b"\x85R"].concat();
    let no_storage = b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR";
    for (instructions, wanted) in [
        (&b"X\xff\xff\xff\xff"[..], "the program ends within an instruction"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "the program ends within an instruction"),
        (b"\x95\xff\xff\xff\xff\xff\xff\xff\xff", "the program ends within an instruction"),
        (b"ctorch", "the program ends within an instruction"),
        (b"\x8c\x01\xff", "a text is not UTF-8"),
        (b"c\xff\n\n", "a name is not UTF-8"),
        (b"\x8a\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", "an integer has more than 128 bits"),
        (b"\x8a\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00", "an integer has more than 128 bits"),
        (b"0", "there is nothing on the stack"),
        (b"", "there is nothing on the stack"),
        (b"K\x01(", "there is nothing on the stack"),
        (b"2", "there is nothing on the stack"),
        (b"q\x00", "there is nothing on the stack"),
        (b"1", "there is no mark"),
        (b"t", "there is no mark"),
        (b"K\x01\x86", "there is not enough on the stack"),
        (b"K\x01(\x85", "there is not enough on the stack"),
        (b"h\x00", "a value is used that was never remembered"),
        (b"K\x01K\x02a", "the value on the stack has no parts"),
        (b")K\x02a", "values are appended to what is no list"),
        (b"]K\x02K\x02s", "items are set of what is no dict"),
        (b"}(K\x02u", "a key has no value"),
        (b"](K\x01\x90", "values are added to what is no set"),
        (b"NNb", "the value on the stack has no parts"),
        (b"]Nb", "a state is given to what has none"),
        (b"N)R", "what is called is no function"),
        (b"ccollections\nOrderedDict\nNR", "the arguments of a call are no tuple"),
        (b"ccollections\nOrderedDict\nNN\x86R", wrong),
        (b"ccollections\nOrderedDict\n]Na\x85R", "a dict is made of what are no pairs"),
        (b"ccollections\ndefaultdict\nNN\x86R", wrong),
        (b"cbuiltins\nlist\n)R", wrong),
        (b"cbuiltins\nset\nN\x85R", wrong),
        (b"ctorch\nSize\n)R", wrong),
        (b"ctorch\ndevice\n)R", wrong),
        (b"ctorch\nfloat32\n)R", wrong),
        (b"ctorch\nFloatStorage\n)R", wrong),
        (b"c_codecs\nencode\n)R", wrong),
        (b"cbuiltins\nbytearray\nN\x85R", wrong),
        (b"ctorch._utils\n_rebuild_parameter\nN\x85R", wrong),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(NNNNtR", wrong),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\nctorch\nTensor\n)NtR", wrong),
        (&short, wrong),
        (no_storage, "a tensor is made of what is no storage"),
        (b"K\x01K\x01\x93", "the name of a function is no text"),
        (b"NQ", "what is kept outside of the pickle is no storage"),
        (b")Q", "what is kept outside of the pickle is no storage"),
    ] {
        let error = refused(read(&[instructions]));
        let FileReason::Pickle { what, .. } = why(&error) else { panic!("{error}") };
        assert_eq!(*what, wanted, "{}", instructions.escape_ascii());
    }
}

#[test]
fn values_that_are_no_data_are_refused_with_their_place() {
    for (instructions, wanted, what) in [
        (&b"}\x8c\x01acbuiltins\nlist\ns"[..], "a", "a function or a class"),
        (b"}\x8c\x01a]ctorch\nTensor\nas", "a.0", "a function or a class"),
        (b"})K\x01s", "", "a dict with keys"),
        (b"}G\x3f\xf8\x00\x00\x00\x00\x00\x00K\x01s", "", "a dict with keys"),
        (
            b"}\x8c\x01ac_codecs\nencode\n\x8c\x03\xe2\x82\xac\x8c\x06latin1\x86Rs",
            "a",
            "bytes with characters above 255",
        ),
    ] {
        let error = refused(read(&[instructions]));
        let FileReason::Value { place, what: found } = why(&error) else { panic!("{error}") };
        assert_eq!(place, wanted);
        assert!(found.starts_with(what), "{found}");
    }
}

#[test]
fn tensors_are_compared_with_their_storage() {
    let sixteen = [0u8; 64];
    let good = tensor("FloatStorage", 16, 4, &[3, 4], &[4, 1]);
    let saved = read_over(&[&good], &sixteen).unwrap();
    assert_eq!(saved.as_tensor().unwrap().sizes(), [3, 4]);
    let at = [b"}".to_vec(), text("w")].concat();
    for (class, elements, offset, sizes, strides) in [
        ("FloatStorage", 16, 5, &[3, 4][..], &[4, 1][..]),
        ("DoubleStorage", 8, 0, &[9], &[1]),
        ("FloatStorage", 16, 0, &[2], &[i32::MAX]),
        ("FloatStorage", 16, 0, &[i32::MAX; 3], &[0; 3]),
        ("FloatStorage", 16, 0, &[2], &[1, 1]),
        ("FloatStorage", 16, i32::MAX, &[1], &[1]),
        ("FloatStorage", 16, -1, &[1], &[1]),
    ] {
        let made =
            read_over(&[&at, &tensor(class, elements, offset, sizes, strides), b"s"], &sixteen);
        let error = made.unwrap_err();
        let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
        let FileReason::Outside { tensor, bytes: 64, .. } = &found.reason else {
            panic!("{error}")
        };
        assert_eq!(tensor, "w");
    }
    for (class, elements) in
        [("FloatStorage", 17), ("ComplexDoubleStorage", 5), ("ByteStorage", i32::MAX)]
    {
        let made = read_over(&[&at, &tensor(class, elements, 0, &[1], &[1]), b"s"], &sixteen);
        let error = made.unwrap_err();
        assert!(matches!(why(&error), FileReason::Storage { bytes: 64, .. }), "{error}");
    }
    for (sizes, strides) in [(&[-1][..], &[1][..]), (&[1], &[-1]), (&[1; 65], &[1; 65])] {
        let error = refused(read(&[&tensor("FloatStorage", 16, 0, sizes, strides)]));
        assert!(matches!(why(&error), FileReason::Value { .. }), "{error}");
    }
    let error = refused(read(&[&tensor("FloatStorage", -1, 0, &[1], &[1])]));
    assert!(matches!(why(&error), FileReason::Pickle { .. }), "{error}");
    // an entry that is not there, and bytes that are no truth values
    let mut other = tensor("FloatStorage", 16, 0, &[1], &[1]);
    let key = other.windows(6).position(|w| w == b"\x01\x00\x00\x000X").unwrap() + 4;
    other[key] = b'7';
    let error = read(&[&other]).unwrap_err();
    assert_eq!(error.to_string(), "<bytes>: entry `data/7`: there is no such entry");
    let error = read_over(&[&tensor("BoolStorage", 4, 0, &[4], &[1])], &[0, 1, 2, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "<bytes>: entry `data/0`: byte 2 of it is 2, and truth values are 0 or 1"
    );
}

#[test]
fn what_is_used_twice_does_not_grow() {
    let clock = Instant::now();
    // sixty lists of two of the one before
    let mut laughs = b"]q\x00".to_vec();
    for _ in 0..60 {
        laughs.extend(b"0](h\x00h\x00eq\x00");
    }
    let error = refused(read(&[&laughs]));
    assert!(matches!(why(&error), FileReason::Expands { .. }), "{error}");
    // a large list in a list, again and again, and the same of dicts and sets that are copied
    let large = [b"](".to_vec(), b"N".repeat(50_000), b"eq\x000".to_vec()].concat();
    let pairs = [b"}(".to_vec(), b"K\x01N".repeat(50_000), b"uq\x000".to_vec()].concat();
    for (first, again) in [
        (&large, &b"h\x00"[..]),
        (&large, b"c__builtin__\nset\nh\x00\x85R"),
        (&pairs, b"h\x00"),
        (&pairs, b"cbuiltins\ndict\nh\x00\x85R"),
    ] {
        let many = [b"(".to_vec(), again.repeat(20_000), b"t".to_vec()].concat();
        let error = refused(read(&[first, &many]));
        assert!(matches!(why(&error), FileReason::Expands { .. }), "{error}");
    }
    // bytes are copied, texts are not
    let bytes = [b"B\x40\x42\x0f\x00".to_vec(), vec![7; 1_000_000], b"q\x000".to_vec()].concat();
    let many = [b"(".to_vec(), b"h\x00".repeat(20_000), b"t".to_vec()].concat();
    let error = refused(read(&[&bytes, &many]));
    assert!(matches!(why(&error), FileReason::Expands { .. }), "{error}");
    let texts = [long_text(1_000_000), b"q\x000".to_vec()].concat();
    assert_eq!(read(&[&texts, &many]).unwrap().values().len(), 20_000);
    // a key of a million bytes, set again and again, and texts that differ at their ends
    let keys = [text(&"x".repeat(999_999)), b"q\x010".to_vec()].concat();
    let sets = [b"}(".to_vec(), b"h\x00Nh\x01N".repeat(20_000), b"u".to_vec()].concat();
    assert_eq!(read(&[&texts, &keys, &sets]).unwrap().items().len(), 2);
    // sizes of a million dimensions, for many tensors
    let sizes = [b"(".to_vec(), b"K\x01".repeat(100_000), b"tq\x000".to_vec()].concat();
    let one = [
        b"ctorch._utils\n_rebuild_tensor_v2\n(".as_slice(),
        &storage("torch\nFloatStorage", "0", 1),
        b"K\x00h\x00h\x00\x89NtR",
    ];
    let many = [b"(".to_vec(), one.concat().repeat(1000), b"t".to_vec()].concat();
    assert!(matches!(why(&refused(read(&[&sizes, &many]))), FileReason::Value { .. }));
    assert!(clock.elapsed() < Duration::from_secs(60), "{:?}", clock.elapsed());
}

#[test]
fn depth_is_bounded() {
    let deep = [b"]".repeat(1_000_000), b"a".repeat(999_999)].concat();
    assert!(matches!(why(&refused(read(&[&deep]))), FileReason::TooDeep { levels: 100, .. }));
    let itself = b"]q\x00h\x00a";
    assert!(matches!(why(&refused(read(&[itself]))), FileReason::TooDeep { .. }));
    let twice = b"}q\x00(\x8c\x01ah\x00\x8c\x01bh\x00u";
    let error = refused(read(&[twice]));
    let FileReason::TooDeep { place, .. } = why(&error) else { panic!("{error}") };
    assert!(place.starts_with("a.a.a."), "{place}");
    let fine = [b"]".repeat(90), b"a".repeat(89)].concat();
    read(&[&fine]).unwrap();
}

#[test]
fn names_of_a_state_dict_are_bounded_and_different() {
    let one = tensor("FloatStorage", 16, 0, &[1], &[1]);
    let named = |name: &str| [text(name), one.clone()].concat();
    let same = [b"}(".as_slice(), &named("a.b"), &text("a"), b"}", &named("b"), b"su"];
    let error = read(&same).unwrap().state_dict().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Value(m) if m.contains("`a.b`")), "{error}");
    let error = read(&[&one]).unwrap().state_dict().unwrap_err();
    assert!(error.to_string().contains("without a name"), "{error}");
    // a long key, by which a dict is in a dict that is in a dict, and so on, with many tensors in each
    let mut program = [long_text(100_000), b"q\x000".to_vec(), one, b"q\x010".to_vec()].concat();
    program.extend(b"}q\x020");
    for _ in 0..40 {
        program.extend(b"}(");
        for i in 0..100 {
            program.extend([b'K', i, b'h', 1]);
        }
        program.extend(b"h\x00h\x02uq\x020");
    }
    program.extend(b"h\x02");
    let clock = Instant::now();
    let error = read(&[&program]).unwrap().state_dict().unwrap_err();
    assert!(error.to_string().contains("the names of the tensors have more than"), "{error}");
    assert!(clock.elapsed() < Duration::from_secs(30), "{:?}", clock.elapsed());
}

#[test]
fn tensors_of_one_storage_share_it_and_one_tensor_is_one() {
    let data: Vec<u8> = (0..16).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let first = tensor("FloatStorage", 16, 0, &[4, 4], &[4, 1]);
    let second = tensor("FloatStorage", 16, 1, &[4], &[4]);
    let saved = read_over(&[b"(", &first, b"q\x00h\x00", &second, b"t"], &data).unwrap();
    let all: Vec<_> = saved.values().iter().map(|v| v.as_tensor().unwrap()).collect();
    assert!(all[0].is_same(all[1]));
    assert!(all[0].shares_storage_with(all[2]));
    assert_eq!(all[2].to_vec::<f32>().unwrap(), [1.0, 5.0, 9.0, 13.0]);
    assert_eq!(all[2].dtype(), DType::F32);
}
