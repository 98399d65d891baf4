//! What a person sees of a training: a bar, and a curve.

use crate::error::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// A progress bar on standard error: steps, time left, and the last loss. Where standard error is
/// no terminal nothing is printed.
///
/// ```
/// use straightline::data::Progress;
/// let progress = Progress::new("epoch 1", 3);
/// for loss in [0.9, 0.7, 0.6] {
///     progress.step(loss);
/// }
/// progress.finish();
/// ```
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of so many steps, with a text in front.
    pub fn new(label: &str, steps: usize) -> Progress {
        let bar = ProgressBar::new(steps as u64);
        let template = "{prefix} {wide_bar} {pos}/{len} {elapsed}<{eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(label.to_owned());
        Progress(bar)
    }

    /// One step further, with its loss.
    pub fn step(&self, loss: f64) {
        self.step_with(loss, "");
    }

    /// One step further, with its loss and what else there is to say of it, such as a speed.
    ///
    /// ```
    /// use straightline::data::Progress;
    /// let progress = Progress::new("training", 2);
    /// progress.step_with(0.9, "1200 tokens/s");
    /// progress.step_with(0.7, "1250 tokens/s");
    /// ```
    pub fn step_with(&self, loss: f64, more: &str) {
        let gap = if more.is_empty() { "" } else { "  " };
        self.0.set_message(format!("loss {loss:.4}{gap}{more}"));
        self.0.inc(1);
    }

    /// Begins at this step, as a training does that goes on.
    pub fn begin_at(&self, step: usize) {
        self.0.set_position(step as u64);
        self.0.reset_eta();
    }

    /// A line above the bar.
    pub fn line(&self, text: &str) {
        self.0.println(text);
    }

    /// Leaves the bar as it is.
    pub fn finish(&self) {
        self.0.abandon();
    }
}

/// Curves of numbers over steps, such as losses, as an SVG image.
///
/// ```
/// use straightline::data::Curves;
/// let mut curves = Curves::new("loss");
/// for step in 0..10u32 {
///     curves.push("training", f64::from(step), 1.0 / f64::from(step + 1));
/// }
/// let svg = curves.svg();
/// assert!(svg.starts_with("<svg") && svg.contains("training"));
/// ```
#[derive(Clone, Debug)]
pub struct Curves {
    title: String,
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

const SIZE: (f64, f64) = (720.0, 400.0);
/// Left, right, top, bottom.
const MARGINS: (f64, f64, f64, f64) = (64.0, 16.0, 36.0, 36.0);
/// Colours that people who see few of them can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

impl Curves {
    /// No curves yet, under this title.
    pub fn new(title: &str) -> Curves {
        Curves { title: title.to_owned(), series: BTreeMap::new() }
    }

    /// One more point of a curve. Numbers that are not finite leave a gap.
    pub fn push(&mut self, curve: &str, step: f64, value: f64) {
        self.series.entry(curve.to_owned()).or_default().push((step, value));
    }

    /// The image.
    pub fn svg(&self) -> String {
        let points = || self.series.values().flatten().filter(|(_, y)| y.is_finite());
        let x = Axis::over(points().map(|p| p.0), MARGINS.0, SIZE.0 - MARGINS.1);
        let y = Axis::over(points().map(|p| p.1), SIZE.1 - MARGINS.3, MARGINS.2);
        let mut out = String::new();
        let (width, height) = SIZE;
        // a String takes everything that is written to it
        let _ = self.write(&mut out, width, height, &x, &y);
        out
    }

    fn write(&self, out: &mut String, w: f64, h: f64, x: &Axis, y: &Axis) -> std::fmt::Result {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(out, "<rect width=\"{w}\" height=\"{h}\" fill=\"white\"/>")?;
        let title = escaped(&self.title);
        writeln!(out, "<text x=\"{}\" y=\"20\" font-size=\"14\">{title}</text>", MARGINS.0)?;
        let (left, right) = (MARGINS.0, w - MARGINS.1);
        for tick in y.ticks() {
            let at = y.place(tick);
            writeln!(out, "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/>")?;
            let (tx, ty, text) = (left - 6.0, at + 4.0, number(tick));
            writeln!(out, "<text x=\"{tx}\" y=\"{ty:.1}\" text-anchor=\"end\">{text}</text>")?;
        }
        for tick in x.ticks() {
            let (at, ty, text) = (x.place(tick), h - MARGINS.3 + 18.0, number(tick));
            writeln!(out, "<text x=\"{at:.1}\" y=\"{ty}\" text-anchor=\"middle\">{text}</text>")?;
        }
        for (i, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let mut path = String::new();
            let mut pen = 'M';
            for (px, py) in points {
                if py.is_finite() && px.is_finite() {
                    write!(path, "{pen}{:.1} {:.1}", x.place(*px), y.place(*py))?;
                    pen = 'L';
                } else {
                    pen = 'M';
                }
            }
            writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            )?;
            let (tx, ty, name) = (right - 8.0, MARGINS.2 + 14.0 + 16.0 * i as f64, escaped(name));
            writeln!(
                out,
                "<text x=\"{tx}\" y=\"{ty}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>"
            )?;
        }
        writeln!(out, "</svg>")
    }

    /// Writes the image to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.svg()).map_err(|e| Error::file(path, e))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number as people write it, without the traces of binary fractions.
fn number(x: f64) -> String {
    if x != 0.0 && (x.abs() >= 1e6 || x.abs() < 1e-4) {
        return format!("{x:.1e}");
    }
    let text = format!("{x:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Numbers from `low` to `high` at places from `begin` to `end`.
struct Axis {
    low: f64,
    high: f64,
    begin: f64,
    end: f64,
}

impl Axis {
    fn over(numbers: impl Iterator<Item = f64>, begin: f64, end: f64) -> Axis {
        let limits = numbers.filter(|n| n.is_finite()).fold(None, |limits, n| match limits {
            None => Some((n, n)),
            Some((low, high)) => Some((n.min(low), n.max(high))),
        });
        let (low, high) = limits.unwrap_or((0.0, 1.0));
        // one number is in the middle
        let room = if low == high { low.abs().max(1.0) / 2.0 } else { 0.0 };
        Axis { low: low - room, high: high + room, begin, end }
    }

    fn place(&self, n: f64) -> f64 {
        self.begin + (n - self.low) / (self.high - self.low) * (self.end - self.begin)
    }

    /// Some six numbers that are 1, 2 or 5 times a power of ten apart.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
        let step = step.into_iter().find(|s| *s >= rough).unwrap_or(rough);
        if !(step.is_finite() && step > 0.0) {
            return Vec::new();
        }
        let first = (self.low / step).ceil();
        (0..12).map(|i| (first + f64::from(i)) * step).take_while(|t| *t <= self.high).collect()
    }
}
