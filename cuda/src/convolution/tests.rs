use super::*;
use crate::driver::DeviceMemory;
use crate::testing::{Array, FLOATS, Gpu, assert_close, assert_no_spills, eighths, gpu, rounded};
use straightline_passes::schedule::loops::Activation;

const DIRECTIONS: [Direction; 3] = [Direction::Output, Direction::Input, Direction::Weight];

/// `output` follows from the rest.
fn geometry(base: Geometry) -> Geometry {
    let mut g = base;
    for d in 0..3 {
        let covered = g.dilation[d] * (g.kernel[d] - 1) + 1;
        g.output[d] = (g.input[d] + 2 * g.padding[d] - covered) / g.stride[d] + 1;
    }
    g
}

const PLAIN: Geometry = Geometry {
    batch: 2,
    channels: 3,
    filters: 5,
    groups: 1,
    input: [1, 6, 7],
    kernel: [1, 3, 2],
    output: [0; 3],
    stride: [1; 3],
    padding: [0, 1, 1],
    dilation: [1; 3],
};

/// Sizes of input, weight and output.
fn sizes(g: &Geometry) -> [[i64; 5]; 3] {
    let five = |a: i64, b: i64, [z, y, x]: [i64; 3]| [a, b, z, y, x];
    [
        five(g.batch, g.channels, g.input),
        five(g.filters, g.channels / g.groups, g.kernel),
        five(g.batch, g.filters, g.output),
    ]
}

/// Strides by which the last of these dimensions are neighbours, and the number of elements.
fn strides(sizes: [i64; 5], order: [usize; 5], gap: i64) -> ([i64; 5], i64) {
    let (mut strides, mut next) = ([0; 5], gap);
    for d in order.into_iter().rev() {
        strides[d] = next;
        next *= sizes[d];
    }
    (strides, next)
}

const BY_CHANNEL: [usize; 5] = [0, 1, 2, 3, 4];
const CHANNELS_LAST: [usize; 5] = [0, 2, 3, 4, 1];

struct Case {
    dtype: DType,
    geometry: Geometry,
    order: [usize; 5],
    gap: i64,
}

/// Each place of one position of the kernel: indices of input, weight and output.
fn each(g: &Geometry, mut f: impl FnMut([[i64; 5]; 3])) {
    let [_, [_, group, ..], _] = sizes(g);
    let filters = g.filters / g.groups;
    let spatial = |n: [i64; 3]| {
        (0..n[0]).flat_map(move |z| (0..n[1]).flat_map(move |y| (0..n[2]).map(move |x| [z, y, x])))
    };
    for n in 0..g.batch {
        for o in 0..g.filters {
            for at in spatial(g.output) {
                for c in 0..group {
                    for tap in spatial(g.kernel) {
                        let from: [i64; 3] = std::array::from_fn(|d| {
                            at[d] * g.stride[d] - g.padding[d] + tap[d] * g.dilation[d]
                        });
                        if (0..3).any(|d| from[d] < 0 || from[d] >= g.input[d]) {
                            continue;
                        }
                        let channel = o / filters * group + c;
                        let five = |a, b, [z, y, x]: [i64; 3]| [a, b, z, y, x];
                        f([five(n, channel, from), five(o, c, tap), five(n, o, at)]);
                    }
                }
            }
        }
    }
}

fn place(at: [i64; 5], strides: [i64; 5]) -> usize {
    at.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as usize
}

impl Case {
    /// Runs one direction; the result with what lies between its elements, and what it should be.
    fn run(
        &self,
        gpu: &Gpu,
        direction: Direction,
        follow: Option<Activation>,
    ) -> (Vec<f64>, Vec<f64>) {
        let (g, dtype) = (&self.geometry, self.dtype);
        let lie = sizes(g).map(|s| strides(s, self.order, self.gap));
        let mut seed = 3;
        let operands: [(Array, Vec<f64>); 3] = lie.map(|(_, len)| {
            seed += 1;
            let host = eighths(len, seed);
            (gpu.put(dtype, &host), host)
        });
        let which = match direction {
            Direction::Output => 2,
            Direction::Input => 0,
            Direction::Weight => 1,
        };
        let channels = [g.channels, 0, g.filters][which];
        let vectors: [(Array, Vec<f64>); 3] = [7, 8, 9].map(|seed| {
            let host = eighths(channels, seed);
            (gpu.put(dtype, &host), host)
        });
        let len = lie[which].1;
        let added = (gpu.put(dtype, &eighths(len, 10)), eighths(len, 10));
        let at = |i: usize| Vector { address: vectors[i].0.address(), stride: 1 };
        let operand = |i: usize| Operand { address: operands[i].0.address(), strides: lie[i].0 };
        let c = Convolution {
            dtype,
            direction,
            geometry: *g,
            input: operand(0),
            weight: operand(1),
            output: operand(2),
            bias: follow.map(|_| at(0)),
            follow: follow
                .map(|activation| {
                    vec![
                        Follow::Scale(at(1)),
                        Follow::Shift(at(2)),
                        Follow::Activation(activation),
                        Follow::Add(Vector { address: added.0.address(), stride: 0 }),
                    ]
                })
                .unwrap_or_default(),
        };
        let bytes = workspace_bytes(&c).unwrap();
        let memory = DeviceMemory::new(&gpu.stream, bytes.max(1)).unwrap();
        let workspace = Workspace { address: memory.address(), bytes };
        // SAFETY: the tensors and the workspace are there until the result is read.
        unsafe { convolve(&gpu.stream, &c, workspace) }.unwrap();
        let (_, before) = &operands[which];
        let mut want: Vec<f64> = before.iter().map(|x| rounded(dtype, *x)).collect();
        let mut sums = vec![0.0; len as usize];
        each(g, |all| {
            let value = |i: usize| operands[i].1[place(all[i], lie[i].0)];
            let others = [0, 1, 2].into_iter().filter(|i| *i != which).map(value);
            sums[place(all[which], lie[which].0)] += others.product::<f64>();
        });
        let [a, b, z, y, x] = sizes(g)[which];
        for i in 0..a * b * z * y * x {
            let index =
                [i / (b * z * y * x), i / (z * y * x) % b, i / (y * x) % z, i / x % y, i % x];
            let here = place(index, lie[which].0);
            let mut v = sums[here];
            if follow.is_some() {
                let of = |i: usize| vectors[i].1[index[1] as usize];
                v = rounded(dtype, v + of(0));
                v = rounded(dtype, v * of(1));
                v = rounded(dtype, v + of(2)).max(0.0);
                v += added.1[here];
            }
            want[here] = rounded(dtype, v);
        }
        (gpu.get(&operands[which].0), want)
    }

    fn check(&self, gpu: &Gpu, direction: Direction, follow: Option<Activation>) {
        let (got, want) = self.run(gpu, direction, follow);
        // the last bit, where the sum itself is not exact
        let tolerance = if self.dtype == DType::BF16 { 4e-3 } else { 0.0 };
        let what = format!("{direction:?} of {} {:?}", self.dtype, self.geometry);
        assert_close(&got, &want, tolerance, &what);
    }
}

/// One, two and three dimensions; steps, margins, distances, groups.
fn geometries() -> Vec<Geometry> {
    let one = Geometry { input: [1, 1, 11], kernel: [1, 1, 3], padding: [0, 0, 2], ..PLAIN };
    [
        PLAIN,
        Geometry { stride: [1, 2, 3], ..PLAIN },
        Geometry { dilation: [1, 2, 1], padding: [0, 2, 0], ..PLAIN },
        Geometry { channels: 10, filters: 20, groups: 2, stride: [1, 2, 1], ..PLAIN },
        Geometry { channels: 6, filters: 6, groups: 6, ..PLAIN },
        Geometry { channels: 4, filters: 8, groups: 4, stride: [1, 2, 2], ..PLAIN },
        one,
        Geometry { stride: [1, 1, 4], dilation: [1, 1, 2], ..one },
        Geometry { input: [3, 4, 5], kernel: [2, 3, 2], padding: [1, 1, 0], ..PLAIN },
        Geometry { kernel: [1, 1, 1], padding: [0; 3], filters: 70, ..PLAIN },
    ]
    .map(geometry)
    .into()
}

#[test]
fn all_directions_are_the_sums_of_their_definition() {
    let Some(gpu) = gpu() else { return };
    for geometry in geometries() {
        for direction in DIRECTIONS {
            for (order, gap) in [(BY_CHANNEL, 1), (CHANNELS_LAST, 1), (BY_CHANNEL, 2)] {
                let case = Case { dtype: DType::F32, geometry, order, gap };
                case.check(&gpu, direction, None);
            }
        }
    }
}

#[test]
fn all_dtypes_with_what_follows() {
    let Some(gpu) = gpu() else { return };
    for dtype in FLOATS {
        for g in [geometries()[1], geometries()[4]] {
            let case = Case { dtype, geometry: g, order: BY_CHANNEL, gap: 1 };
            case.check(&gpu, Direction::Output, Some(Activation::Relu));
            case.check(&gpu, Direction::Input, Some(Activation::Relu));
            DIRECTIONS.into_iter().for_each(|d| case.check(&gpu, d, None));
        }
    }
}

#[test]
fn long_sums_are_split_and_give_the_same_bits_again() {
    let Some(gpu) = gpu() else { return };
    let g = geometry(Geometry { batch: 5, input: [1, 12, 12], filters: 6, ..PLAIN });
    let case = Case { dtype: DType::F32, geometry: g, order: BY_CHANNEL, gap: 1 };
    case.check(&gpu, Direction::Weight, None);
    let again = || case.run(&gpu, Direction::Weight, None).0;
    assert_eq!(again(), again());
    let none = Operand { address: 0, strides: [1; 5] };
    let c = Convolution {
        dtype: DType::F32,
        direction: Direction::Weight,
        geometry: g,
        input: none,
        weight: none,
        output: none,
        bias: None,
        follow: Vec::new(),
    };
    assert!(workspace_bytes(&c).unwrap() > 0);
}

#[test]
fn a_weight_that_is_nan_reaches_what_it_meets_and_margins_of_zeros() {
    let Some(gpu) = gpu() else { return };
    let nan = |x: &[u8]| -> Vec<f64> { x.iter().map(|n| [1.0, f64::NAN][*n as usize]).collect() };
    for (channels, dtype) in [(1, DType::F32), (6, DType::F32), (6, DType::F16)] {
        let g = geometry(Geometry {
            batch: 1,
            channels,
            filters: channels,
            input: [1, 1, 5],
            kernel: [1, 1, 3],
            stride: [1, 1, 2],
            padding: [0, 0, 1],
            ..PLAIN
        });
        let (input, output) = (g.channels * 5, g.filters * 3);
        let mut weight = vec![1.0; (channels * channels * 3) as usize];
        weight[0] = f64::NAN;
        let weight = gpu.put(dtype, &weight);
        let of = |direction: Direction| {
            let ones = |n: i64| gpu.put(dtype, &vec![1.0; n as usize]);
            let (x, y) = (ones(input), ones(output));
            let c = Convolution {
                dtype,
                direction,
                geometry: g,
                input: Operand { address: x.address(), strides: [input, 5, 0, 0, 1] },
                weight: Operand { address: weight.address(), strides: [channels * 3, 3, 0, 0, 1] },
                output: Operand { address: y.address(), strides: [output, 3, 0, 0, 1] },
                bias: None,
                follow: Vec::new(),
            };
            // SAFETY: the tensors are there until the result is read.
            unsafe { convolve(&gpu.stream, &c, Workspace::default()) }.unwrap();
            let got = gpu.get(if direction == Direction::Input { &x } else { &y });
            got.into_iter().map(|v| if v.is_nan() { v } else { 1.0 }).collect::<Vec<f64>>()
        };
        let same = |got: Vec<f64>, want: &[u8]| {
            assert_close(&got[..want.len()], &nan(want), 0.0, &format!("{channels} {got:?}"));
        };
        // the first position of the kernel meets a margin
        same(of(Direction::Output), &[1, 1, 1]);
        same(of(Direction::Input), &[0, 1, 0, 1, 0]);
    }
}

#[test]
fn threads_have_registers_for_all_that_they_sum() {
    for (dtype, direction) in [
        (DType::F32, Direction::Output),
        (DType::F64, Direction::Input),
        (DType::BF16, Direction::Weight),
    ] {
        let none = Operand { address: 0, strides: [1; 5] };
        let c = Convolution {
            dtype,
            direction,
            geometry: geometry(Geometry { stride: [1, 2, 2], ..PLAIN }),
            input: none,
            weight: none,
            output: none,
            bias: None,
            follow: Vec::new(),
        };
        for cores in [true, false] {
            let text = text(&c, &Numbers::of(&c).unwrap(), cores).unwrap();
            assert_no_spills(&text, &format!("{dtype} {direction:?}"));
        }
    }
}

#[test]
fn distances_are_of_64_bits_only_where_they_have_to_be() {
    let of = |input: [i64; 5], g: Geometry| {
        let none = Operand { address: 0, strides: [1; 5] };
        let c = Convolution {
            dtype: DType::F32,
            direction: Direction::Output,
            geometry: geometry(g),
            input: Operand { address: 0, strides: input },
            weight: none,
            output: none,
            bias: None,
            follow: Vec::new(),
        };
        let numbers = Numbers::of(&c).unwrap();
        assert_no_spills(&text(&c, &numbers, true).unwrap(), "far");
        let structure = numbers.structure();
        (structure.near, structure.dimensions)
    };
    assert_eq!(of([126, 42, 0, 7, 1], PLAIN), (true, 2));
    assert_eq!(of([1 << 31, 42, 0, 7, 1], PLAIN), (false, 2));
    assert_eq!(of([126, 42, 0, 7, -(1 << 29)], PLAIN), (false, 2));
    let line = Geometry { input: [1, 1, 7], kernel: [1, 1, 2], padding: [0; 3], ..PLAIN };
    assert_eq!(of([21, 7, 0, 0, 1], line), (true, 1));
    let volume = Geometry { input: [2, 6, 7], ..PLAIN };
    assert_eq!(of([252, 84, 42, 7, 1], volume), (true, 3));
}

#[test]
fn nothing_to_sum_is_zero_and_no_results_are_no_launch() {
    let Some(gpu) = gpu() else { return };
    let none = Geometry { batch: 0, ..geometry(PLAIN) };
    let case = Case { dtype: DType::F32, geometry: none, order: BY_CHANNEL, gap: 1 };
    DIRECTIONS.into_iter().for_each(|d| case.check(&gpu, d, None));
    let no_channels = Geometry { channels: 0, ..geometry(PLAIN) };
    let case = Case { geometry: no_channels, ..case };
    DIRECTIONS.into_iter().for_each(|d| case.check(&gpu, d, None));
}

#[test]
fn sizes_that_do_not_go_together_are_refused() {
    let none = Operand { address: 0, strides: [1; 5] };
    let of = |geometry: Geometry, dtype: DType| {
        workspace_bytes(&Convolution {
            dtype,
            direction: Direction::Output,
            geometry,
            input: none,
            weight: none,
            output: none,
            bias: None,
            follow: Vec::new(),
        })
    };
    for g in [
        Geometry { groups: 2, ..PLAIN },
        Geometry { groups: 0, ..PLAIN },
        Geometry { stride: [1, 0, 1], ..PLAIN },
        Geometry { input: [1, 1, 1 << 40], ..PLAIN },
        Geometry { output: [1, 1 << 27, 1], stride: [1, 1 << 27, 1], ..PLAIN },
        Geometry { batch: -1, ..PLAIN },
    ] {
        assert_eq!(of(g, DType::F32), Err(ConvolutionError::Geometry { geometry: g.into() }));
    }
    assert_eq!(of(PLAIN, DType::I32), Err(ConvolutionError::DType { dtype: DType::I32 }));
}
