//! What PyTorch wrote is what is read.

use super::folder;
use serde_json::{Map, Value};
use straightline::files::{FileReason, Key, Saved};
use straightline::nn::{Layer, Linear, Module};
use straightline::ops::aten;
use straightline::{DType, ErrorKind, Tensor, load_checkpoint, load_state_dict};

fn load(name: &str) -> Saved {
    load_checkpoint(folder().join(name).with_extension("pt")).unwrap()
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

/// Real and imaginary parts one after the other, as numbers of 64 bits.
fn numbers(t: &Tensor) -> Vec<f64> {
    let mut t = t.resolve_conj().unwrap().resolve_neg().unwrap();
    if t.dtype().is_complex() {
        t = aten::view_as_real(&t).unwrap();
    }
    t.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap()
}

fn check_tensor(t: &Tensor, facts: &Map<String, Value>, name: &str) {
    assert_eq!(t.dtype().torch_name(), facts["dtype"].as_str().unwrap(), "{name}");
    assert_eq!(t.sizes(), integers(&facts["sizes"]), "{name}");
    assert_eq!(t.strides(), integers(&facts["strides"]), "{name}");
    if t.numel() > 0 {
        assert_eq!(t.storage_offset(), facts["offset"].as_i64().unwrap(), "{name}");
    }
    match t.dtype() {
        DType::I64 => assert_eq!(t.to_vec::<i64>().unwrap(), integers(&facts["values"]), "{name}"),
        _ => {
            let number = |v: &Value| match v.as_str() {
                Some(text) => text.parse().unwrap(),
                None => v.as_i64().unwrap() as f64,
            };
            let values: Vec<f64> = facts["values"].as_array().unwrap().iter().map(number).collect();
            assert_eq!(numbers(t), values, "{name}");
        }
    }
    assert!(!t.requires_grad());
    if t.numel() > 0 {
        let error = t.zero_().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ReadOnly { .. }), "{name}: {error}");
        t.copied().unwrap().zero_().unwrap();
    }
}

/// A value as Python shows it, for those values that have a short form.
fn repr(value: &Saved) -> Option<String> {
    Some(match value {
        Saved::Int(number) => number.to_string(),
        Saved::Bool(true) => "True".to_owned(),
        Saved::Bool(false) => "False".to_owned(),
        Saved::None => "None".to_owned(),
        Saved::Text(text) => format!("'{text}'"),
        Saved::Constant(name) if name.starts_with("torch.") => name.to_string(),
        _ => return None,
    })
}

#[test]
fn files_hold_what_pytorch_says() {
    let (mut files, mut tensors, mut others) = (0, 0, 0);
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        files += 1;
        let facts: Map<String, Value> =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let saved = load_checkpoint(path.with_extension("pt")).unwrap();
        let mut storages: Vec<(u64, Tensor)> = Vec::new();
        for (name, facts) in &facts {
            let full = format!("{}: {name}", path.display());
            let value = match name.as_str() {
                "" => &saved,
                name => saved.find(name).unwrap_or_else(|| panic!("{full} is missing\n{saved}")),
            };
            let facts = facts.as_object().unwrap();
            if let Some(wanted) = facts.get("repr") {
                others += 1;
                let wanted = wanted.as_str().unwrap();
                match value {
                    Saved::Float(number) => {
                        assert_eq!(*number, wanted.parse::<f64>().unwrap(), "{full}")
                    }
                    _ if repr(value).is_some_and(|found| found != wanted) => {
                        panic!("{full} is {value} and not {wanted}")
                    }
                    _ => {}
                }
                continue;
            }
            tensors += 1;
            let t = value.as_tensor().unwrap_or_else(|| panic!("{full} is no tensor"));
            check_tensor(t, facts, &full);
            if t.numel() > 0 {
                let storage = facts["storage"].as_u64().unwrap();
                for (other, u) in &storages {
                    assert_eq!(t.shares_storage_with(u), *other == storage, "{full}");
                }
                storages.push((storage, t.clone()));
            }
        }
        let found = facts.values().filter(|f| f.get("dtype").is_some()).count();
        if saved.as_tensor().is_none() {
            assert_eq!(saved.state_dict().unwrap().len(), found, "{}", path.display());
        }
    }
    assert_eq!(files, 11);
    println!("{files} files, {tensors} tensors, {others} other values");
}

#[test]
fn plain_values_are_those_of_python() {
    for protocol in 2..=5 {
        let saved = load(&format!("plain_{protocol}"));
        let bytes = |name| match saved.get(name) {
            Some(Saved::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes("bytes"), b"\x00\xffab");
        assert_eq!(bytes("array"), b"xy");
        assert!(matches!(saved.get("seed"), Some(Saved::Int(n)) if *n == i128::from(u64::MAX)));
        assert_eq!(saved.get("seed").and_then(Saved::as_int), None);
        assert_eq!(saved.get("large").and_then(Saved::as_int), Some(1 << 40));
        assert_eq!(saved.get("float").and_then(Saved::as_float), Some(0.1));
        assert_eq!(saved.get("true").and_then(Saved::as_bool), Some(true));
        assert_eq!(saved.get("text").and_then(Saved::as_text), Some("häß"));
        assert!(matches!(saved.get("device"), Some(Saved::Constant(name)) if **name == *"cuda:1"));
        assert_eq!(saved.find("list.1.1.0").and_then(Saved::as_int), Some(3));
        let Some(Saved::Set(values)) = saved.get("frozen") else { panic!("{saved}") };
        assert_eq!(values.len(), 1);
        let order: Vec<String> =
            saved.get("ordered").unwrap().items().iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(order, ["z", "a"]);
        assert_eq!(saved.get("5").and_then(Saved::as_text), Some("five"));
        assert!(saved.items().iter().any(|(key, _)| *key == Key::Int(5)));
    }
}

#[test]
fn a_checkpoint_prints_as_an_outline() {
    let text = load("training").to_string();
    let begin = "dict of 4\n  model: dict of 2\n    weight: f32[2, 3]\n    bias: f32[2]\n  optimizer: dict of 2\n    \
                 state: dict of 2\n      0: dict of 3\n        step: f32[]\n        exp_avg: f32[2, 3]\n";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.ends_with("  epoch: 3\n"), "{text}");
}

#[test]
fn a_module_takes_the_weights_as_they_lie_in_the_file() {
    let saved = load("training");
    let net = Linear::new(3, 2).unwrap();
    let weights = saved.get("model").unwrap().state_dict().unwrap();
    net.load_state_dict(&weights, true).unwrap();
    let x = Tensor::ones([1, 3]).unwrap();
    let y = net.forward(&x).unwrap();
    let wanted = x.matmul(weights["weight"].t().unwrap()).unwrap().add(&weights["bias"]).unwrap();
    straightline::assert_close(&y, &wanted).unwrap();
    // the module's own parameters may be written
    net.parameters()[0].detach().unwrap().zero_().unwrap();
    assert_eq!(
        saved.find("optimizer.state.0.exp_avg").and_then(Saved::as_tensor).unwrap().sizes(),
        [2, 3]
    );
    let all = load_state_dict(folder().join("training.pt")).unwrap();
    assert!(all["model.weight"].shares_storage_with(&all["model.weight"]));
    assert!(all.contains_key("optimizer.state.1.exp_avg_sq"));
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    for (name, wanted) in [
        ("module", "names `torch.nn.modules.linear.Linear`"),
        ("trap", ".system`"),
        ("numpy", "turn numpy's scalars into Python's with `.item()`"),
        (
            "legacy",
            "a bare pickle as PyTorch wrote it before 1.6: convert it in Python with `torch.save(torch.load(",
        ),
        ("sparse", "`a.s` is a sparse tensor"),
        ("quantized", "`q` is a quantized tensor"),
        ("meta", "`m` is a tensor on the device `meta`"),
        ("uint16", "tensor `layer.u` has dtype torch.uint16"),
        ("float8", "tensor `f` has dtype torch.float8_e4m3fn"),
        ("storage", "`s` is a storage"),
        ("tuple_key", "at the top is a dict with keys that are neither"),
        ("loop", "either nested too deeply, or a part of itself"),
        ("torchscript", "a program of TorchScript"),
    ] {
        let path = folder().join(name).with_extension("pt");
        for error in [load_checkpoint(&path).unwrap_err(), load_state_dict(&path).unwrap_err()] {
            let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
            assert!(found.path.ends_with(&format!("{name}.pt")));
            assert!(error.to_string().contains(wanted), "{name}: {error}");
        }
    }
    let error = load_checkpoint(folder().join("trap.pt")).unwrap_err();
    let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
    let FileReason::Refused { at, .. } = found.reason else { panic!("{error}") };
    assert!(at > 100, "{at}");
}

#[test]
fn big_endian_files_and_other_archives_are_refused() {
    let mut bytes = std::fs::read(folder().join("minimal.pt")).unwrap();
    let at = bytes.windows(6).position(|w| w == b"little").unwrap();
    bytes[at..at + 6].copy_from_slice(b"biglit");
    let error = Saved::parse(bytes.clone()).unwrap_err();
    assert!(error.to_string().contains("byte order `biglit`"), "{error}");
    bytes[at..at + 6].copy_from_slice(b"little");
    let saved = Saved::parse(bytes.clone()).unwrap();
    assert_eq!(
        saved.find("w").and_then(Saved::as_tensor).unwrap().to_vec::<f32>().unwrap(),
        [1.0, 1.0]
    );
    // without its pickle
    while let Some(at) = bytes.windows(8).position(|w| w == b"data.pkl") {
        bytes[at..at + 8].copy_from_slice(b"data.pki");
    }
    let error = Saved::parse(bytes).unwrap_err();
    assert!(error.to_string().contains("`data.pkl`: there is no such entry"), "{error}");
}

#[test]
fn safetensors_are_told_by_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.pt");
    let (w, b) = (Tensor::arange(6).unwrap(), straightline::tensor([true, false]).unwrap());
    straightline::save_safetensors(&path, [("w", &w), ("layer.b", &b)]).unwrap();
    let copied = straightline::load_safetensors(&path).unwrap();
    for found in [
        straightline::map_safetensors(&path).unwrap(),
        load_state_dict(&path).unwrap(),
        load_checkpoint(&path).unwrap().state_dict().unwrap(),
    ] {
        assert_eq!(found["w"].to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(found["layer.b"].to_vec::<bool>().unwrap(), [true, false]);
        let error = found["w"].zero_().unwrap_err();
        let ErrorKind::ReadOnly { memory } = error.kind() else { panic!("{error}") };
        assert_eq!(memory, "`w` of weights.pt");
        assert!(!found["w"].shares_storage_with(&found["layer.b"]));
    }
    copied["w"].zero_().unwrap();
    // truth values are checked by both
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() = 2;
    std::fs::write(&path, bytes).unwrap();
    for error in [
        straightline::load_safetensors(&path).unwrap_err(),
        straightline::map_safetensors(&path).unwrap_err(),
        load_state_dict(&path).unwrap_err(),
    ] {
        assert!(error.to_string().contains("`layer.b` is bool and holds bytes"), "{error}");
    }
}

#[test]
fn safetensors_with_headers_of_every_length_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let (w, mut begins_as_a_pickle) = (Tensor::arange(3).unwrap(), 0);
    for length in (1..1500).step_by(8) {
        let name = "x".repeat(length);
        straightline::save_safetensors(&path, [(&name, &w)]).unwrap();
        let begin = std::fs::read(&path).unwrap();
        begins_as_a_pickle += u32::from(matches!(begin[..], [0x80, 1..=5, ..]));
        assert_eq!(load_state_dict(&path).unwrap()[&name].to_vec::<i64>().unwrap(), [0, 1, 2]);
    }
    assert!(begins_as_a_pickle > 2, "{begins_as_a_pickle}");
}

#[test]
fn files_are_not_loaded_while_a_function_is_captured() {
    let path = folder().join("minimal.pt");
    let f = straightline::compile(move |x: &Tensor| x.add(&load_state_dict(&path)?["w"]));
    let error = f.call(&Tensor::ones([2]).unwrap()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotCaptured { .. }), "{error}");
    // tensors of a file that are loaded before are constants of the compiled function
    let w = load_state_dict(folder().join("minimal.pt")).unwrap().remove("w").unwrap();
    let f = straightline::compile(move |x: &Tensor| x.add(&w)?.exp());
    let x = Tensor::ones([2]).unwrap();
    for _ in 0..2 {
        straightline::assert_close(&f.call(&x).unwrap(), &x.add(1).unwrap().exp().unwrap())
            .unwrap();
    }
}
