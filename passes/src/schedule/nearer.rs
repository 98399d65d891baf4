//! Steps that only make results move up to what they are made of.
//!
//! A graph lists its results last: the updates of a training step follow all of its gradients. A
//! kernel whose operand has just been computed finds that in the cache, so such a kernel runs right
//! behind the last step that it waits for. Intermediates live no longer for it.

use std::collections::BTreeSet;

/// Moves steps of a sequence up to the last one that they wait for; `before` has those of each
/// step, `moves` says which may move, and `passes` whether the first may come before the second.
pub(super) fn nearer(
    sequence: Vec<usize>,
    before: &[BTreeSet<usize>],
    moves: &dyn Fn(usize) -> bool,
    passes: &dyn Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let mut placed: Vec<usize> = Vec::with_capacity(sequence.len());
    for step in sequence {
        let mut at = placed.len();
        if !before[step].is_empty() && moves(step) {
            let free = |other: usize| !before[step].contains(&other) && passes(step, other);
            while at > 0 && free(placed[at - 1]) {
                at -= 1;
            }
        }
        placed.insert(at, step);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets<const N: usize>(all: [&[usize]; N]) -> Vec<BTreeSet<usize>> {
        all.iter().map(|s| s.iter().copied().collect()).collect()
    }

    #[test]
    fn a_result_follows_its_last_operand() {
        let before = sets([&[], &[0], &[1], &[1], &[]]);
        let all = |moves: &dyn Fn(usize) -> bool, passes: &dyn Fn(usize, usize) -> bool| {
            nearer((0..5).collect(), &before, moves, passes)
        };
        assert_eq!(all(&|s| s == 3, &|_, _| true), [0, 1, 3, 2, 4]);
        // what waits for nothing stays, and so does what must not pass
        assert_eq!(all(&|s| s == 4, &|_, _| true), [0, 1, 2, 3, 4]);
        assert_eq!(all(&|s| s == 3, &|_, other| other != 2), [0, 1, 2, 3, 4]);
    }
}
