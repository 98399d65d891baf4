//! Where the nodes of a graph lie in a drawing: in layers from top to bottom, every edge downward,
//! after Sugiyama. An edge over several layers has a place in each of them, so that it passes between
//! the nodes there.

/// What is to be drawn. Each node is behind those that it reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch {
    /// How wide each node is.
    pub(super) widths: Vec<f64>,
    /// Whether a node lies right above what reads it, whatever it reads itself.
    pub(super) low: Vec<bool>,
    /// From a node to one behind it.
    pub(super) edges: Vec<(usize, usize)>,
}

/// Where everything lies. The unit is that of the widths; y grows downward.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Layout {
    /// The left upper corner of each node.
    pub(super) corners: Vec<(f64, f64)>,
    /// The places that each edge passes, from the lower side of a node to the upper side of another.
    pub(super) paths: Vec<Vec<(f64, f64)>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// How high a node is.
pub(super) const HEIGHT: f64 = 34.0;
/// Between two layers.
const BETWEEN: f64 = 30.0;
/// Between two nodes of a layer.
const BESIDE: f64 = 14.0;
/// What an edge takes that passes a layer.
const PASS: f64 = 6.0;
/// Around the drawing.
const MARGIN: f64 = 8.0;
/// How much it matters where what is to be low lies: it follows the others, and does not draw them aside.
const LIGHT: f64 = 0.01;
/// How often the layers are gone through, down and up.
const SWEEPS: usize = 8;

/// A node, or an edge on its way through a layer.
#[derive(Clone, Copy)]
struct Place {
    layer: usize,
    width: f64,
    /// Its middle.
    x: f64,
    passes: bool,
    /// How much it matters where it wants to be, and how much it draws others towards itself.
    weight: f64,
}

struct Layers {
    places: Vec<Place>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The places of each layer from left to right.
    rows: Vec<Vec<usize>>,
    /// The places of each edge, from end to end.
    chains: Vec<Vec<usize>>,
}

/// Lays out a sketch. Edges that do not lead forward are left out, their paths empty.
pub(super) fn layout(sketch: &Sketch) -> Layout {
    let mut layers = Layers::new(sketch);
    layers.order();
    layers.place();
    layers.finish(sketch.widths.len())
}

/// The layer of each node: below all that it reads, and right above its first user where that makes no
/// other edges longer, or where it is to be low.
pub(super) fn ranks(low: &[bool], edges: &[(usize, usize)]) -> Vec<usize> {
    let count = low.len();
    let mut ranks = vec![0usize; count];
    let (mut reads, mut users) = (vec![0usize; count], vec![Vec::new(); count]);
    let mut forward: Vec<(usize, usize)> = edges.to_vec();
    forward.sort_unstable_by_key(|(_, to)| *to);
    for (from, to) in &forward {
        ranks[*to] = ranks[*to].max(ranks[*from] + 1);
        reads[*to] += 1;
        users[*from].push(*to);
    }
    // users have their final layers when a node is looked at
    for node in (0..count).rev() {
        let first = users[node].iter().map(|user| ranks[*user]).min();
        let moves = low[node] || reads[node] <= users[node].len();
        if let Some(first) = first.filter(|_| moves) {
            ranks[node] = first.saturating_sub(1);
        }
    }
    ranks
}

impl Layers {
    fn new(sketch: &Sketch) -> Layers {
        let count = sketch.widths.len();
        let leads = |(from, to): &(usize, usize)| from < to && *to < count;
        let edges: Vec<(usize, usize)> = sketch.edges.iter().copied().filter(leads).collect();
        let low: Vec<bool> = (0..count).map(|n| sketch.low.get(n) == Some(&true)).collect();
        let ranks = ranks(&low, &edges);
        let place = |((layer, width), low): ((&usize, &f64), &bool)| Place {
            layer: *layer,
            width: *width,
            x: 0.0,
            passes: false,
            weight: if *low { LIGHT } else { 1.0 },
        };
        let mut all = Layers {
            places: ranks.iter().zip(&sketch.widths).zip(&low).map(place).collect(),
            above: vec![Vec::new(); count],
            below: vec![Vec::new(); count],
            rows: Vec::new(),
            chains: Vec::new(),
        };
        for edge in &sketch.edges {
            let chain = if leads(edge) { all.chain(edge.0, edge.1) } else { Vec::new() };
            all.chains.push(chain);
        }
        let depth = all.places.iter().map(|p| p.layer + 1).max().unwrap_or(0);
        all.rows = vec![Vec::new(); depth];
        for (at, place) in all.places.iter().enumerate() {
            all.rows[place.layer].push(at);
        }
        all
    }

    /// An edge's places: its ends, and one in each layer between them.
    fn chain(&mut self, from: usize, to: usize) -> Vec<usize> {
        let mut chain = vec![from];
        for layer in self.places[from].layer + 1..self.places[to].layer {
            chain.push(self.places.len());
            // edges on their way are to be straight
            let weight = 4.0 * self.places[from].weight;
            self.places.push(Place { layer, width: PASS, x: 0.0, passes: true, weight });
            self.above.push(Vec::new());
            self.below.push(Vec::new());
        }
        chain.push(to);
        for pair in chain.windows(2) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        chain
    }

    /// Sorts each layer by where the neighbours of its places are, so that few edges cross.
    fn order(&mut self) {
        let mut rank = vec![0.0f64; self.places.len()];
        for row in &self.rows {
            row.iter().enumerate().for_each(|(at, place)| rank[*place] = at as f64);
        }
        let mut best = (self.crossings(&rank), self.rows.clone());
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let mut layers: Vec<usize> = (0..self.rows.len()).collect();
            if !down {
                layers.reverse();
            }
            for layer in layers {
                let near = if down { &self.above } else { &self.below };
                let key = |place: usize| mean(&near[place], &rank).unwrap_or(rank[place]);
                let mut row: Vec<(f64, usize)> =
                    self.rows[layer].iter().map(|place| (key(*place), *place)).collect();
                row.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (at, (_, place)) in row.iter().enumerate() {
                    rank[*place] = at as f64;
                }
                self.rows[layer] = row.into_iter().map(|(_, place)| place).collect();
            }
            let crossings = self.crossings(&rank);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    /// How many pairs of edges between neighbouring layers cross.
    fn crossings(&self, rank: &[f64]) -> usize {
        let mut count = 0;
        for row in &self.rows {
            // inversions of the lower ends, with the upper ones in order
            let mut seen: Vec<f64> = Vec::new();
            for place in row {
                let mut ends: Vec<f64> = self.below[*place].iter().map(|p| rank[*p]).collect();
                ends.sort_by(f64::total_cmp);
                let before = seen.len();
                for end in ends {
                    let at = seen.partition_point(|other| *other <= end);
                    count += before.saturating_sub(at.min(before));
                    seen.insert(at, end);
                }
            }
        }
        count
    }

    /// Gives each place its x: near its neighbours, in the order of its layer, apart from the others.
    fn place(&mut self) {
        for row in 0..self.rows.len() {
            let wanted = vec![(0.0, 1.0); self.rows[row].len()];
            self.spread(row, &wanted);
        }
        for sweep in 0..2 * SWEEPS {
            let down = sweep % 2 == 0;
            for step in 0..self.rows.len() {
                let row = if down { step } else { self.rows.len() - 1 - step };
                let wanted: Vec<(f64, f64)> =
                    self.rows[row].iter().map(|p| self.wanted(*p, down)).collect();
                self.spread(row, &wanted);
            }
        }
    }

    /// Where a place would be if it were alone, and how much that matters.
    fn wanted(&self, at: usize, down: bool) -> (f64, f64) {
        let (first, second) = match down {
            true => (&self.above[at], &self.below[at]),
            false => (&self.below[at], &self.above[at]),
        };
        let place = &self.places[at];
        let xs = |of: &[usize]| {
            let near = || of.iter().map(|p| &self.places[*p]);
            let all: f64 = near().map(|p| p.weight).sum();
            (all > 0.0).then(|| near().map(|p| p.x * p.weight).sum::<f64>() / all)
        };
        (xs(first).or_else(|| xs(second)).unwrap_or(place.x), place.weight)
    }

    /// Puts the places of a layer as near to where they want to be as those beside them allow: the
    /// least squares under the order, by pooling neighbours that would overlap.
    fn spread(&mut self, row: usize, wanted: &[(f64, f64)]) {
        struct Pool {
            sum: f64,
            weight: f64,
            count: usize,
        }
        let row = &self.rows[row];
        let mut begins = Vec::with_capacity(row.len());
        let mut begin = 0.0;
        let mut last: Option<Place> = None;
        for at in row {
            let place = self.places[*at];
            if let Some(last) = last {
                let gap = if last.passes && place.passes { PASS } else { BESIDE };
                begin += (last.width + place.width) / 2.0 + gap;
            }
            begins.push(begin);
            last = Some(place);
        }
        let mut pools: Vec<Pool> = Vec::new();
        for ((x, weight), begin) in wanted.iter().zip(&begins) {
            pools.push(Pool { sum: (x - begin) * weight, weight: *weight, count: 1 });
            while let [.., a, b] = &pools[..]
                && a.sum / a.weight > b.sum / b.weight
            {
                let merged = Pool {
                    sum: a.sum + b.sum,
                    weight: a.weight + b.weight,
                    count: a.count + b.count,
                };
                pools.truncate(pools.len() - 2);
                pools.push(merged);
            }
        }
        let shifts = pools.iter().flat_map(|p| std::iter::repeat_n(p.sum / p.weight, p.count));
        let xs: Vec<f64> = shifts.zip(&begins).map(|(shift, begin)| shift + begin).collect();
        for (at, x) in row.iter().zip(xs) {
            self.places[*at].x = x;
        }
    }

    fn finish(&self, count: usize) -> Layout {
        let left = |p: &Place| p.x - p.width / 2.0;
        let least = self.places.iter().map(left).fold(f64::INFINITY, f64::min);
        let most = (self.places.iter().map(|p| p.x + p.width / 2.0)).fold(0.0, f64::max);
        let least = if least.is_finite() { least } else { 0.0 };
        let shift = MARGIN - least;
        let top = |p: &Place| MARGIN + p.layer as f64 * (HEIGHT + BETWEEN);
        let points = |chain: &Vec<usize>| {
            let mut points = Vec::with_capacity(2 * chain.len());
            for (i, at) in chain.iter().enumerate() {
                let place = &self.places[*at];
                let (x, y) = (place.x + shift, top(place));
                if i > 0 {
                    points.push((x, y));
                }
                if i + 1 < chain.len() {
                    points.push((x, y + HEIGHT));
                }
            }
            points
        };
        let rows = self.rows.len() as f64;
        Layout {
            corners: self.places[..count].iter().map(|p| (left(p) + shift, top(p))).collect(),
            paths: self.chains.iter().map(points).collect(),
            width: most + shift + MARGIN,
            height: 2.0 * MARGIN + rows * HEIGHT + (rows - 1.0).max(0.0) * BETWEEN,
        }
    }
}

fn mean(of: &[usize], rank: &[f64]) -> Option<f64> {
    let sum: f64 = of.iter().map(|place| rank[*place]).sum();
    (!of.is_empty()).then(|| sum / of.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sketch with a cheap generator's widths and edges: mostly a chain, with some far reads.
    fn made_up(count: usize, seed: u64) -> Sketch {
        let mut state = seed;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below.max(1)
        };
        let widths = (0..count).map(|_| 40.0 + next(120) as f64).collect();
        let mut edges = Vec::new();
        for to in 1..count {
            if next(10) > 0 {
                edges.push((to - 1 - next(to.min(3)), to));
            }
            if next(4) == 0 {
                edges.push((to - 1 - next(to.min(20)), to));
            }
        }
        Sketch { widths, edges, ..Sketch::default() }
    }

    #[test]
    fn nodes_do_not_overlap_and_edges_lead_down() {
        for (count, seed) in [(1, 1), (2, 5), (7, 2), (40, 3), (200, 4), (500, 6)] {
            let sketch = made_up(count, seed);
            let laid = layout(&sketch);
            assert_eq!(laid.corners.len(), count);
            for (a, (ax, ay)) in laid.corners.iter().enumerate() {
                let aw = sketch.widths[a];
                assert!(*ax >= 0.0 && ax + aw <= laid.width, "{a}");
                assert!(*ay >= 0.0 && ay + HEIGHT <= laid.height, "{a}");
                for (b, (bx, by)) in laid.corners.iter().enumerate().skip(a + 1) {
                    let apart = ax + aw <= bx + 1e-6 || bx + sketch.widths[b] <= ax + 1e-6;
                    assert!(apart || (ay - by).abs() >= HEIGHT, "{a} overlaps {b} of {count}");
                }
            }
            for (edge, path) in sketch.edges.iter().zip(&laid.paths) {
                let (from, to) = (laid.corners[edge.0], laid.corners[edge.1]);
                assert_eq!(path.first().map(|p| p.1), Some(from.1 + HEIGHT));
                assert_eq!(path.last().map(|p| p.1), Some(to.1));
                assert!(path.windows(2).all(|w| w[0].1 < w[1].1), "{path:?}");
            }
        }
    }

    #[test]
    fn edges_pass_beside_nodes() {
        let sketch = made_up(200, 9);
        let laid = layout(&sketch);
        for path in &laid.paths {
            // two points of one place: the edge is beside the nodes of that layer
            for pair in path.get(1..path.len() - 1).unwrap_or(&[]).chunks(2) {
                let [(x, above), (_, below)] = pair else { panic!("{path:?}") };
                assert_eq!(below - above, HEIGHT);
                for (corner, width) in laid.corners.iter().zip(&sketch.widths) {
                    let through = corner.0 < *x && *x < corner.0 + width;
                    assert!(!through || corner.1 != *above, "{corner:?} {x}");
                }
            }
        }
    }

    #[test]
    fn a_chain_is_straight() {
        let sketch = Sketch {
            widths: vec![30.0, 80.0, 50.0],
            edges: vec![(0, 1), (1, 2)],
            ..Sketch::default()
        };
        let laid = layout(&sketch);
        let middles: Vec<f64> =
            laid.corners.iter().zip(&sketch.widths).map(|(c, w)| c.0 + w / 2.0).collect();
        assert!(middles.windows(2).all(|w| (w[0] - w[1]).abs() < 1e-6), "{middles:?}");
    }

    #[test]
    fn what_one_node_reads_is_right_above_it() {
        // 0 -> 1 -> 2 -> 5 and 3 -> 4 -> 5
        let edges = vec![(0, 1), (1, 2), (2, 5), (3, 4), (4, 5)];
        assert_eq!(ranks(&[false; 6], &edges), [0, 1, 2, 1, 2, 3]);
        // 3 reads two and is read once: it stays above, unless it is to be low
        let edges = vec![(0, 4), (4, 5), (5, 6), (1, 3), (2, 3), (3, 6)];
        assert_eq!(ranks(&[false; 7], &edges), [0, 0, 0, 1, 1, 2, 3]);
        let low = [false, false, false, true, false, false, false];
        assert_eq!(ranks(&low, &edges), [0, 1, 1, 2, 1, 2, 3]);
    }

    #[test]
    fn nothing_and_nonsense_are_laid_out() {
        assert_eq!(layout(&Sketch::default()).corners, []);
        // backward, to itself, out of the sketch
        let edges = vec![(1, 0), (0, 0), (0, 7)];
        let laid = layout(&Sketch { widths: vec![10.0, 10.0], edges, ..Sketch::default() });
        assert_eq!(laid.paths, [vec![], vec![], vec![]]);
    }
}
