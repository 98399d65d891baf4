//! What follows from a view agrees: where its elements lie, which elements of the source they are,
//! what a write through it leaves, and what two of them come to.

use super::*;
use crate::layout::{contiguous_strides, numel};
use proptest::prelude::*;

/// Positions of a shape in row-major order.
fn positions(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for n in sizes {
        let longer = |p: &Vec<i64>| (0..*n).map(|i| [&p[..], &[i]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The address of each element of a view, of a source whose elements lie in rows.
fn addresses(sizes: &[i64], strides: &[i64], offset: i64) -> Vec<i64> {
    let at = |p: &Vec<i64>| offset + p.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>();
    positions(sizes).iter().map(at).collect()
}

/// The same by the indices into the source.
fn by_index(map: &ViewMap, source: &[i64]) -> Option<Vec<i64>> {
    let rows = contiguous_strides(source);
    let indices: Vec<Affine> =
        (0..source.len()).map(|d| map.source(source, d)).collect::<Option<_>>()?;
    let at = |p: &Vec<i64>| {
        let index = |a: &Affine| a.base + a.terms.iter().map(|(d, by)| p[*d] * by).sum::<i64>();
        indices.iter().zip(&rows).map(|(a, s)| index(a) * s).sum()
    };
    Some(positions(&map.sizes(source)).iter().map(at).collect())
}

/// The source after each element of the view has become its own position, counted from 1, by
/// [`ViewMap::inverse`].
fn written(map: &ViewMap, source: &[i64]) -> Option<Vec<i64>> {
    let sizes = map.sizes(source);
    let mut out = vec![0; numel(source) as usize];
    let rows = contiguous_strides(source);
    let view_rows = contiguous_strides(&sizes);
    let at = |p: &[i64], strides: &[i64]| -> usize {
        p.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as usize
    };
    let inverse = map.inverse(source);
    for p in positions(source) {
        let place = at(&p, &rows);
        let from: Option<Vec<i64>> = match &inverse {
            Inverse::Same => Some(p),
            Inverse::Reshape => {
                out[place] = place as i64 + 1;
                None
            }
            Inverse::Permute(back) => {
                let mut q = vec![0; p.len()];
                for (to, from) in back.iter().enumerate() {
                    q[*from] = p[to];
                }
                Some(q)
            }
            Inverse::Slice { dim, start, end, step } => {
                let i = p[*dim];
                let inside = (*start..*end).contains(&i) && (i - start) % step == 0;
                inside.then(|| {
                    let mut q = p.clone();
                    q[*dim] = (i - start) / step;
                    q
                })
            }
            Inverse::Select { dim, index } => (p[*dim] == *index).then(|| {
                let mut q = p.clone();
                q.remove(*dim);
                q
            }),
            Inverse::Diagonal { offset, dim1, dim2 } => {
                (p[*dim2] - p[*dim1] == *offset).then(|| {
                    let rest = (0..p.len()).filter(|d| d != dim1 && d != dim2);
                    let mut q: Vec<i64> = rest.map(|d| p[d]).collect();
                    q.push(p[*dim1].min(p[*dim2]));
                    q
                })
            }
            Inverse::None => return None,
        };
        if let Some(q) = from {
            out[place] = at(&q, &view_rows) as i64 + 1;
        }
    }
    Some(out)
}

fn size() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0i64), 3 => Just(1i64), 6 => 2i64..5]
}

fn sizes() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(size(), 0..4)
}

/// Any view of a source of these sizes.
fn view_of(sizes: Vec<i64>) -> BoxedStrategy<ViewMap> {
    let rank = sizes.len() as i64;
    let any = (0..9, -rank - 1..=rank, -rank - 1..=rank, -6i64..7, -6i64..7, 1i64..4);
    any.prop_filter_map("a view that there is", move |(kind, a, b, i, j, step)| {
        let made = match kind {
            0 => ViewMap::transpose(&sizes, a, b),
            1 => ViewMap::slice(&sizes, a, Some(i), Some(j), step),
            2 => ViewMap::select(&sizes, a, i),
            3 => ViewMap::unsqueeze(&sizes, a),
            4 => ViewMap::squeeze(
                &sizes,
                if step == 1 { None } else { Some(std::slice::from_ref(&a)) },
            ),
            5 => ViewMap::diagonal(&sizes, i, a, b),
            6 => ViewMap::unfold(&sizes, a, j, step),
            7 => {
                let mut to: Vec<i64> =
                    sizes.iter().map(|n| if *n == 1 { j.abs() } else { *n }).collect();
                to.splice(0..0, (0..step - 1).map(|_| i.abs()));
                ViewMap::expand(&sizes, &to)
            }
            _ => ViewMap::reshape(&sizes, &[numel(&sizes), 1]),
        };
        made.ok()
    })
    .boxed()
}

fn one() -> impl Strategy<Value = (Vec<i64>, ViewMap)> {
    sizes().prop_flat_map(|s| view_of(s.clone()).prop_map(move |m| (s.clone(), m)))
}

fn two() -> impl Strategy<Value = (Vec<i64>, ViewMap, ViewMap)> {
    one().prop_flat_map(|(s, first)| {
        let seen = first.sizes(&s).to_vec();
        view_of(seen).prop_map(move |second| (s.clone(), first.clone(), second))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn strides_and_indices_are_one_map((source, map) in one()) {
        let rows = contiguous_strides(&source);
        let (sizes, strides, offset) = map.strides(&source, &rows, 0).unwrap();
        prop_assert_eq!(&sizes, &map.sizes(&source));
        if let Some(indices) = by_index(&map, &source) {
            prop_assert_eq!(addresses(&sizes, &strides, offset), indices);
        }
    }

    #[test]
    fn what_is_written_through_a_view_is_seen_through_it((source, map) in one()) {
        let rows = contiguous_strides(&source);
        let (sizes, strides, offset) = map.strides(&source, &rows, 0).unwrap();
        if let Some(after) = written(&map, &source) {
            let places = addresses(&sizes, &strides, offset);
            let seen: Vec<i64> = places.iter().map(|at| after[*at as usize]).collect();
            prop_assert_eq!(seen, (1..=numel(&sizes)).collect::<Vec<_>>());
            let untouched = after.iter().filter(|x| **x == 0).count();
            prop_assert_eq!(untouched, after.len() - places.len());
        }
    }

    #[test]
    fn two_views_are_one((source, first, second) in two()) {
        if let Some(both) = first.then(&second) {
            let rows = contiguous_strides(&source);
            let (sizes, strides, offset) = first.strides(&source, &rows, 0).unwrap();
            let Ok((sizes, strides, offset)) = second.strides(&sizes, &strides, offset) else {
                return Ok(());
            };
            let one = both.strides(&source, &rows, 0).unwrap();
            prop_assert_eq!(&one.0, &sizes);
            prop_assert_eq!(addresses(&one.0, &one.1, one.2), addresses(&sizes, &strides, offset));
        }
    }
}

#[test]
fn steps_are_as_wide_as_numbers_go() {
    let map = ViewMap::slice(&[10], 0, Some(0), Some(10), i64::MAX).unwrap();
    assert_eq!(map.sizes(&[10])[..], [1]);
    assert_eq!(map.source(&[10], 0), Some(Affine::at(0)));
    assert_eq!(map.strides(&[10], &[2], 3).unwrap().2, 3);
}

#[test]
fn strides_that_say_nothing_are_pytorchs() {
    let of =
        |map: ViewMap, sizes: &[i64], strides: &[i64]| map.strides(sizes, strides, 0).unwrap().1;
    assert_eq!(of(ViewMap::unsqueeze(&[2, 3], 0).unwrap(), &[2, 3], &[3, 1])[..], [6, 3, 1]);
    assert_eq!(of(ViewMap::unsqueeze(&[2, 3], 2).unwrap(), &[2, 3], &[3, 1])[..], [3, 1, 1]);
    assert_eq!(of(ViewMap::expand(&[2], &[1, 2]).unwrap(), &[2], &[5])[..], [10, 5]);
    assert_eq!(of(ViewMap::expand(&[], &[1, 2]).unwrap(), &[], &[])[..], [0, 0]);
    assert_eq!(of(ViewMap::unfold(&[], 0, 1, 1).unwrap(), &[], &[])[..], [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The short ways of [`ViewMap::strides`] come to what follows from [`ViewMap::source`].
    #[test]
    fn short_ways_are_the_general_one((source, map) in one()) {
        if !matches!(map, ViewMap::Reshape(_)) {
            let rows = contiguous_strides(&source);
            let short = map.strides(&source, &rows, 3).unwrap();
            prop_assert_eq!(short, map.general_strides(&source, &rows, 3).unwrap());
        }
    }
}
