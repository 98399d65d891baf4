//! Keys and key sets against PyTorch's, all of them. `tests/data/dispatch_keys.py` made the table.

use straightline::dispatch::{DispatchKey as K, DispatchKeySet as S};

const TABLE: &str = include_str!("../data/dispatch_keys.txt");

fn lines(of_pairs: bool) -> impl Iterator<Item = Vec<&'static str>> {
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter(move |l| l.starts_with("pair ") == of_pairs)
        .map(|l| l.split(' ').collect())
}

fn raw(field: &str) -> u64 {
    u64::from_str_radix(field.trim_start_matches("0x"), 16).unwrap()
}

/// PyTorch's own text, without the spaces.
fn printed(set: S) -> String {
    set.to_string().replace(' ', "")
}

#[test]
fn order_names_and_bits() {
    let mut count = 0;
    for (i, fields) in lines(false).enumerate() {
        let [value, name, _, alone, _, _, _, text] = fields[..] else {
            panic!("{fields:?}");
        };
        let key = K::ALL[i];
        assert_eq!(key.value().to_string(), value);
        count += 1;
        // the end of the functionalities is a placeholder, in PyTorch without a name
        if key == K::EndOfFunctionalityKeys {
            continue;
        }
        assert_eq!(key.to_string(), name, "{key:?}");
        if key.is_runtime() || key.is_alias() || key == K::Undefined {
            assert_eq!(S::from(key).raw(), raw(alone), "{key}");
            assert_eq!(printed(S::from(key)), text);
        }
    }
    assert_eq!((count, K::ALL.len()), (156, 156));
}

#[test]
fn the_names_that_parse_are_those_of_pytorch() {
    let mut parse = 0;
    for (key, fields) in K::ALL.iter().zip(lines(false)) {
        // the placeholders print as `Undefined` or `..Undefined`
        if fields[1].ends_with("Undefined") && *key != K::Undefined || fields[1] == "UnknownUnknown"
        {
            continue;
        }
        let parsed = fields[1].parse::<K>();
        match fields[2] {
            "yes" => {
                parse += 1;
                assert_eq!(parsed.unwrap(), *key);
            }
            _ => assert_eq!(
                parsed.unwrap_err().to_string(),
                format!("could not parse dispatch key: {}", fields[1])
            ),
        }
    }
    assert!(parse > 90, "{parse}");
}

#[test]
fn what_is_below_a_key() {
    for (key, fields) in K::ALL.iter().zip(lines(false)) {
        if fields[4] != "-" && (key.is_runtime() || S::from(*key) == S::from(key.functionality())) {
            assert_eq!(S::full_after(*key).raw(), raw(fields[4]), "{key}");
        }
    }
}

#[test]
fn members_of_aliases() {
    let aliases = [
        K::Autograd,
        K::CompositeImplicitAutograd,
        K::FuncTorchBatchedDecomposition,
        K::CompositeImplicitAutogradNestedTensor,
        K::CompositeExplicitAutograd,
        K::CompositeExplicitAutogradNonFunctional,
    ];
    for (key, fields) in K::ALL.iter().zip(lines(false)).filter(|(k, _)| k.is_runtime()) {
        let want: Vec<&str> = fields[6].split(',').filter(|f| *f != "-").collect();
        for alias in aliases {
            assert_eq!(key.is_included_in(alias), want.contains(&alias.name()), "{key} in {alias}");
            assert_eq!(key.is_included_in(alias), alias.expansion().has(*key));
        }
    }
}

#[test]
fn backends_behind_autograd() {
    let mut behind = 0;
    for (key, fields) in K::ALL.iter().zip(lines(false)).filter(|(k, _)| k.is_runtime()) {
        let want = if fields[5] == "-" { 0 } else { raw(fields[5]) };
        assert_eq!(key.backends_behind_autograd().raw(), want, "{key}");
        behind += usize::from(fields[5] != "-");
    }
    assert_eq!(behind, 18);
}

#[test]
fn sets_of_two() {
    let key = |name: &str| *K::ALL.iter().find(|k| k.name() == name).unwrap();
    let mut pairs = 0;
    for fields in lines(true) {
        let [_, a, b, both, top, without, text] = fields[..] else {
            panic!("{fields:?}");
        };
        let (a, b) = (key(a), key(b));
        let set = S::of(&[a, b]);
        assert_eq!(set.raw(), raw(both), "{a} and {b}");
        assert_eq!(S::from(a) | S::from(b), set);
        assert_eq!(set.highest_priority_key().to_string(), top, "{a} and {b}");
        assert_eq!(set.remove(b).raw(), raw(without), "{set} without {b}");
        assert_eq!(set - S::from(b), set.remove(b));
        assert_eq!(printed(set), text);
        pairs += 1;
    }
    assert_eq!(pairs, 19 * 18);
}
