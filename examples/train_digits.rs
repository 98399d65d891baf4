//! Trains a small convolutional network on digits that it draws itself.
//!
//! ```text
//! cargo run --release --example train_digits
//! ```
//!
//! Every digit is a few strokes, which are moved, turned, slanted, scaled and drawn with a pen of
//! some width onto noisy paper of 20 x 20 pixels. The number of a drawing decides all of that, so a
//! drawing is the same in every run, whichever thread draws it.

use clap::Parser;
use std::time::Instant;
use straightline::autograd::no_grad;
use straightline::data::{DataLoader, Dataset, LoaderOptions, Progress};
use straightline::nn::{
    BatchNorm2d, Conv2d, Flatten, Layer, Linear, MaxPool2d, Module, Relu, Sequential,
};
use straightline::optim::{AdamW, LrScheduler, OneCycleLr, Optimizer};
use straightline::{ConvOptions, Generator, Result, Tensor, manual_seed};

#[derive(Clone, Debug, Parser)]
#[command(about = "Train a small convolutional network on drawn digits")]
pub(crate) struct Arguments {
    /// Drawings to learn from.
    #[arg(long, default_value_t = 6000)]
    drawings: usize,
    /// How often each of them is seen.
    #[arg(long, default_value_t = 4)]
    epochs: u64,
    /// Another seed, other first weights and another order.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A moment instead of a minute: few drawings, and an accuracy that says little.
    #[arg(long)]
    quick: bool,
}

#[allow(dead_code, reason = "a test runs the example without it")]
fn main() -> Result<()> {
    let began = Instant::now();
    let found = run(&Arguments::parse())?;
    println!(
        "loss {:.4} at first, {:.4} at last; {:.2} % of {} other drawings are read rightly ({:.0} s)",
        found.first_loss,
        found.last_loss,
        100.0 * found.accuracy,
        found.judged,
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// What came of a training.
#[derive(Debug)]
pub(crate) struct Found {
    /// The mean loss of the first epoch's first batches, and of the last epoch.
    pub(crate) first_loss: f64,
    pub(crate) last_loss: f64,
    /// The part of the drawings it has not learned from that it reads rightly.
    pub(crate) accuracy: f64,
    pub(crate) judged: usize,
}

/// Trains a network, and judges it.
pub(crate) fn run(arguments: &Arguments) -> Result<Found> {
    let (count, epochs, judged) = match arguments.quick {
        true => (320, 2, 100),
        false => (arguments.drawings.max(BATCH), arguments.epochs.max(1), 2000),
    };
    manual_seed(arguments.seed);
    let mut net = network()?;
    let options = LoaderOptions::default().batch_size(BATCH).shuffle(arguments.seed).workers(1);
    let drawings = DataLoader::new(Drawings { first: 0, count }, options.drop_last(true))?;
    let optimizer = AdamW::new(net.parameters(), 1e-2)?;
    let steps = epochs * drawings.len() as u64;
    let scheduler = LrScheduler::new(OneCycleLr::new(1e-2, steps), &optimizer)?;

    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let progress = Progress::new(&format!("epoch {}", epoch + 1), drawings.len());
        for batch in drawings.epoch(epoch)? {
            let (images, labels) = batch?;
            let loss = net.forward(&images)?.cross_entropy(&labels)?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            scheduler.step(&optimizer)?;
            losses.push(f64::from(loss.item::<f32>()?));
            progress.step(mean(&losses[losses.len().saturating_sub(20)..]));
        }
        progress.finish();
    }

    net.eval();
    let others = Drawings { first: 1 << 32, count: judged };
    Ok(Found {
        first_loss: mean(&losses[..losses.len().min(5)]),
        last_loss: mean(&losses[losses.len() - drawings.len().min(losses.len())..]),
        accuracy: accuracy(&net, others)?,
        judged,
    })
}

const BATCH: usize = 32;

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Images `[batch, 1, 20, 20]` to scores of the ten digits.
fn network() -> Result<Sequential> {
    let conv = |inputs: i64, outputs: i64| {
        // the normalisation after it has a bias
        Conv2d::new_with(inputs, outputs, 3, ConvOptions::default().padding(1), false)
    };
    Ok(Sequential::new()
        .add(conv(1, 8)?)
        .add(BatchNorm2d::new(8)?)
        .add(Relu)
        .add(MaxPool2d::new(2))
        .add(conv(8, 16)?)
        .add(BatchNorm2d::new(16)?)
        .add(Relu)
        .add(MaxPool2d::new(2))
        .add(Flatten::new())
        .add(Linear::new(16 * 5 * 5, 10)?))
}

/// The part of the drawings whose highest score is their digit's.
fn accuracy(net: &Sequential, drawings: Drawings) -> Result<f64> {
    let count = drawings.count;
    let mut right = 0;
    for batch in DataLoader::new(drawings, 100)?.epoch(0)? {
        let (images, labels) = batch?;
        let scores = no_grad(|| net.forward(&images))?;
        let read = scores.argmax(1)?;
        right += read.eq(&labels)?.sum()?.item::<i64>()?;
    }
    Ok(right as f64 / count as f64)
}

/// Drawings by number, from `first` on.
pub(crate) struct Drawings {
    pub(crate) first: u64,
    pub(crate) count: usize,
}

const SIZE: usize = 20;

impl Dataset for Drawings {
    type Item = (Tensor, i64);

    fn len(&self) -> usize {
        self.count
    }

    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        let number = self.first + index as u64;
        let digit = (number % 10) as usize;
        // each pixel's noise, and how the digit is drawn
        let random = Tensor::with(&Generator::new(number)).rand([SIZE * SIZE + 8])?;
        let random = random.to_vec::<f32>()?;
        let (noise, hand) = random.split_at(SIZE * SIZE);
        let image = Hand::new(hand).draw(DIGITS[digit], noise);
        Ok((Tensor::from_slice(&image, [1, SIZE as i64, SIZE as i64])?, digit as i64))
    }
}

type Point = (f32, f32);

/// How a digit is drawn.
struct Hand {
    /// The rows of a matrix, and what is added.
    x: (f32, f32, f32),
    y: (f32, f32, f32),
    /// Half the width of a stroke, in pixels.
    pen: f32,
    /// The most that noise adds or takes away.
    grain: f32,
}

impl Hand {
    /// From eight numbers between 0 and 1.
    fn new(random: &[f32]) -> Hand {
        let between = |i: usize, low: f32, high: f32| {
            low + (high - low) * random.get(i).copied().unwrap_or(0.5)
        };
        let (sin, cos) = between(0, -0.25, 0.25).sin_cos();
        let slant = between(1, -0.25, 0.25);
        let (width, height) = (between(2, 8.0, 12.0), between(3, 11.0, 15.0));
        let middle = SIZE as f32 / 2.0;
        Hand {
            x: (cos * width, (slant * cos - sin) * height, middle + between(4, -2.5, 2.5)),
            y: (sin * width, (slant * sin + cos) * height, middle + between(5, -2.0, 2.0)),
            pen: between(6, 0.5, 1.3),
            grain: between(7, 0.1, 0.5),
        }
    }

    /// The point of the paper where a point of the digit goes, which is between 0 and 1.
    fn place(&self, (x, y): Point) -> Point {
        let (x, y) = (x - 0.5, y - 0.5);
        (self.x.0 * x + self.x.1 * y + self.x.2, self.y.0 * x + self.y.1 * y + self.y.2)
    }

    fn draw(&self, strokes: &[&[Point]], noise: &[f32]) -> Vec<f32> {
        let lines: Vec<(Point, Point)> = strokes
            .iter()
            .flat_map(|s| s.windows(2).map(|w| (self.place(w[0]), self.place(w[1]))))
            .collect();
        let ink = |pixel: usize| {
            let at = ((pixel % SIZE) as f32 + 0.5, (pixel / SIZE) as f32 + 0.5);
            let far = lines.iter().map(|l| distance(at, *l)).fold(f32::INFINITY, f32::min);
            (self.pen + 0.5 - far).clamp(0.0, 1.0)
        };
        let grainy = |(pixel, n): (usize, &f32)| ink(pixel) + self.grain * (n - 0.5);
        noise.iter().enumerate().map(grainy).collect()
    }
}

/// From a point to the nearest one of a line between two others.
fn distance(p: Point, (a, b): (Point, Point)) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let along = (p.0 - a.0) * dx + (p.1 - a.1) * dy;
    let t = (along / (dx * dx + dy * dy).max(1e-6)).clamp(0.0, 1.0);
    (p.0 - a.0 - t * dx).hypot(p.1 - a.1 - t * dy)
}

/// The strokes of each digit, from (0, 0) top left to (1, 1) bottom right.
const DIGITS: [&[&[Point]]; 10] = [
    &[&[
        (0.5, 0.0),
        (0.85, 0.15),
        (1.0, 0.5),
        (0.85, 0.85),
        (0.5, 1.0),
        (0.15, 0.85),
        (0.0, 0.5),
        (0.15, 0.15),
        (0.5, 0.0),
    ]],
    &[&[(0.25, 0.2), (0.55, 0.0), (0.55, 1.0)]],
    &[&[
        (0.05, 0.25),
        (0.2, 0.05),
        (0.5, 0.0),
        (0.85, 0.1),
        (0.9, 0.35),
        (0.6, 0.6),
        (0.0, 1.0),
        (1.0, 1.0),
    ]],
    &[&[
        (0.05, 0.1),
        (0.5, 0.0),
        (0.9, 0.12),
        (0.9, 0.35),
        (0.4, 0.47),
        (0.95, 0.6),
        (0.95, 0.88),
        (0.5, 1.0),
        (0.0, 0.88),
    ]],
    &[&[(0.75, 1.0), (0.75, 0.0), (0.0, 0.65), (1.0, 0.65)]],
    &[&[
        (0.95, 0.0),
        (0.15, 0.0),
        (0.1, 0.45),
        (0.55, 0.38),
        (0.95, 0.55),
        (0.95, 0.82),
        (0.55, 1.0),
        (0.0, 0.9),
    ]],
    &[&[
        (0.85, 0.05),
        (0.4, 0.2),
        (0.08, 0.55),
        (0.1, 0.85),
        (0.5, 1.0),
        (0.9, 0.85),
        (0.9, 0.62),
        (0.5, 0.48),
        (0.1, 0.65),
    ]],
    &[&[(0.0, 0.0), (1.0, 0.0), (0.4, 1.0)]],
    &[&[
        (0.5, 0.46),
        (0.1, 0.3),
        (0.15, 0.08),
        (0.5, 0.0),
        (0.85, 0.08),
        (0.9, 0.3),
        (0.5, 0.46),
        (0.05, 0.65),
        (0.1, 0.92),
        (0.5, 1.0),
        (0.9, 0.92),
        (0.95, 0.65),
        (0.5, 0.46),
    ]],
    &[&[
        (0.9, 0.35),
        (0.5, 0.52),
        (0.1, 0.38),
        (0.1, 0.15),
        (0.5, 0.0),
        (0.9, 0.15),
        (0.92, 0.45),
        (0.6, 0.8),
        (0.15, 0.95),
    ]],
];
