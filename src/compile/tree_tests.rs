use crate::{Result, Tensor, TensorTree};
use std::collections::BTreeMap;

fn number(value: f32) -> Result<Tensor> {
    Tensor::from_slice(&[value], &[1])
}

/// The numbers in the tensors, in the order of `visit`.
fn numbers(tree: &impl TensorTree) -> Vec<f32> {
    let mut seen = Vec::new();
    tree.visit(&mut |t| seen.extend(t.to_vec::<f32>().expect("test tensors are f32")));
    seen
}

/// Negates every tensor through `map`.
fn negated<T: TensorTree>(tree: &T) -> T {
    tree.map(&mut |t| t.neg().expect("test tensors can be negated"))
}

#[test]
fn visits_and_maps_in_order() -> Result<()> {
    let mut named = BTreeMap::new();
    named.insert("b".to_owned(), number(6.0)?);
    named.insert("a".to_owned(), number(5.0)?);
    let tree = (
        number(1.0)?,
        [number(2.0)?, number(3.0)?],
        vec![Some(number(4.0)?), None],
        named,
        Box::new((number(7.0)?, 2.5f64, "relu".to_owned())),
    );
    assert_eq!(numbers(&tree), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let other = negated(&tree);
    assert_eq!(numbers(&other), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0]);
    assert!(other.2[1].is_none());
    assert_eq!((other.4.1, other.4.2.as_str()), (2.5, "relu"));
    assert_eq!(other.matches(&tree), None);
    Ok(())
}

#[test]
fn says_where_structures_differ() -> Result<()> {
    let t = number(1.0)?;
    let new = (t.clone(), vec![t.clone(), t.clone()]);
    let old = (t.clone(), vec![t.clone(), t.clone(), t.clone()]);
    let what = new.matches(&old);
    assert_eq!(what.as_deref(), Some("element 1: length 2, was 3"));

    let new = vec![Some(t.clone()), None];
    let old = vec![Some(t.clone()), Some(t.clone())];
    let what = new.matches(&old);
    assert_eq!(what.as_deref(), Some("element 1: None, was Some"));

    let one = |key: &str| BTreeMap::from([(key.to_owned(), t.clone())]);
    let what = one("a").matches(&one("b"));
    assert_eq!(what.as_deref(), Some("key \"a\" is new"));
    let what = BTreeMap::new().matches(&one("b"));
    assert_eq!(what.as_deref(), Some("key \"b\" is missing"));
    Ok(())
}

#[test]
fn static_leaves_are_structure() {
    assert_eq!(3i64.matches(&3), None);
    assert_eq!(3i64.matches(&4).as_deref(), Some("3, was 4"));
    assert_eq!(f64::NAN.matches(&f64::NAN), None);
    assert_eq!(0f32.matches(&-0f32).as_deref(), Some("0.0, was -0.0"));
    let what = [(true, 1usize), (false, 2)].matches(&[(true, 1), (true, 2)]);
    assert_eq!(what.as_deref(), Some("element 1: element 0: false, was true"));
    assert_eq!(().matches(&()), None);
}

#[derive(TensorTree)]
struct Layer<W> {
    weight: W,
    bias: Option<Tensor>,
    eps: f64,
}

#[derive(TensorTree)]
struct Pair(Tensor, Tensor);

#[derive(TensorTree)]
struct Nothing;

#[derive(TensorTree)]
enum Norm<W>
where
    W: Clone,
{
    None,
    Scale(W),
    Affine { scale: W, shift: Tensor },
}

#[derive(TensorTree)]
enum Never {}

#[derive(TensorTree)]
struct Model<const N: usize> {
    layers: [Layer<Pair>; N],
    norm: Norm<Tensor>,
    nothing: Nothing,
    never: Option<Never>,
}

fn model(norm: Norm<Tensor>, eps: f64) -> Result<Model<2>> {
    let layer = |from: f32| -> Result<Layer<Pair>> {
        Ok(Layer {
            weight: Pair(number(from)?, number(from + 1.0)?),
            bias: Some(number(from + 2.0)?),
            eps,
        })
    };
    Ok(Model { layers: [layer(1.0)?, layer(4.0)?], norm, nothing: Nothing, never: None })
}

#[test]
fn derived_for_structs_and_enums() -> Result<()> {
    let affine = Norm::Affine { scale: number(7.0)?, shift: number(8.0)? };
    let one = model(affine, 1e-5)?;
    assert_eq!(numbers(&one), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let two = negated(&one);
    assert_eq!(numbers(&two)[7], -8.0);
    assert_eq!(two.layers[1].eps, 1e-5);
    assert_eq!(two.matches(&one), None);

    let three = model(Norm::Scale(number(7.0)?), 1e-5)?;
    let what = three.matches(&one);
    assert_eq!(what.as_deref(), Some("field `norm`: variant `Scale`, was `Affine`"));
    let what = model(Norm::None, 1e-6)?.matches(&three);
    assert_eq!(what.as_deref(), Some("field `layers`: element 0: field `eps`: 1e-6, was 1e-5"));
    let what = Norm::Scale(vec![number(1.0)?]).matches(&Norm::Scale(vec![]));
    assert_eq!(what.as_deref(), Some("field 0: length 1, was 0"));
    Ok(())
}
