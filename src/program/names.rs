//! Operators that are others by another name: PyTorch has them for the names that numpy gives, and
//! exported programs keep them.

use straightline_catalog::schema::OperatorName;

/// The names, and what is known by them. Overloads and in-place forms correspond.
const OTHERS: [(&str, &str); 21] = [
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("special_logsumexp", "logsumexp"),
    ("subtract", "sub"),
    ("true_divide", "div"),
];

/// The operator that a name stands for, where it is another one's.
pub(super) fn canonical(name: &OperatorName) -> Option<OperatorName> {
    if name.name == "transformers::grouped_mm_fallback" {
        // rows, matrices and ends, as the operator that it stands in for
        return Some(OperatorName::new("aten::_grouped_mm", ""));
    }
    let base = name.name.strip_prefix("aten::")?;
    if base == "split" && name.overload == "sizes" {
        return Some(OperatorName::new("aten::split_with_sizes", ""));
    }
    let (plain, in_place) = match base.strip_suffix('_') {
        Some(plain) => (plain, "_"),
        None => (base, ""),
    };
    let (_, known) = OTHERS.iter().find(|(other, _)| *other == plain)?;
    Some(OperatorName::new(format!("aten::{known}{in_place}"), name.overload.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch;

    #[test]
    fn other_names_are_those_of_operators_that_are_there() {
        for (other, known) in OTHERS {
            let operator = format!("aten::{known}");
            let all = dispatch::all_operators();
            assert!(all.iter().any(|o| o.name().name == operator), "{other}: there is no {known}");
        }
        let of = |text: &str| canonical(&text.parse().unwrap()).map(|n| n.to_string());
        assert_eq!(of("aten::true_divide.Tensor").as_deref(), Some("aten::div.Tensor"));
        assert_eq!(of("aten::multiply_.Scalar").as_deref(), Some("aten::mul_.Scalar"));
        assert_eq!(of("aten::split.sizes").as_deref(), Some("aten::split_with_sizes"));
        assert_eq!(of("aten::split.Tensor"), None);
        assert_eq!(of("mine::multiply"), None);
    }
}
