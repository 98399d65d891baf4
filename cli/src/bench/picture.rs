//! `bench --picture FILE`: the rows that `bench --json` wrote, as a picture of speed-ups.

use super::report::duration;
use crate::error::{CliError, Result};
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

/// What the picture takes of a row; the others of its fields are not looked at.
#[derive(Deserialize)]
struct Point {
    framework: String,
    mode: String,
    workload: String,
    threads: usize,
    median_us: Option<f64>,
}

/// One bar.
#[derive(Debug, PartialEq)]
struct Bar {
    workload: String,
    eager_us: f64,
    compiled_us: f64,
}

impl Bar {
    fn speed_up(&self) -> f64 {
        self.eager_us / self.compiled_us
    }
}

/// Reads a file of JSON lines and draws what was measured both eagerly and compiled.
pub(super) fn from_file(path: &Path) -> Result<String> {
    let wrong = |message: String| CliError::File { path: path.display().to_string(), message };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let (bars, threads) = bars(&text).map_err(wrong)?;
    Ok(draw(&bars, threads))
}

/// The bars of the lines, the greatest speed-up first, and the number of threads.
fn bars(text: &str) -> Result<(Vec<Bar>, usize), String> {
    let mut points = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.is_empty()) {
        let point: Point =
            serde_json::from_str(line).map_err(|e| format!("line {}: {e}", i + 1))?;
        if point.framework == "straightline" {
            points.push(point);
        }
    }
    let threads = points.first().map_or(1, |p| p.threads);
    if let Some(p) = points.iter().find(|p| p.threads != threads) {
        return Err(format!(
            "rows with {threads} and with {} threads do not belong in one picture",
            p.threads
        ));
    }
    let compiled = |name: &str| {
        let of = |p: &&Point| p.mode == "compiled" && p.workload == name;
        points.iter().find(of).and_then(|p| p.median_us)
    };
    let mut bars: Vec<Bar> = (points.iter().filter(|p| p.mode == "eager"))
        .filter_map(|p| {
            Some(Bar {
                eager_us: p.median_us.filter(|us| *us > 0.0)?,
                compiled_us: compiled(&p.workload).filter(|us| *us > 0.0)?,
                workload: p.workload.clone(),
            })
        })
        .collect();
    if bars.is_empty() {
        return Err("no workload was measured both eagerly and compiled".to_owned());
    }
    bars.sort_by(|a, b| b.speed_up().total_cmp(&a.speed_up()));
    Ok((bars, threads))
}

/// A description of a workload for readers who do not know its name; the name if there is none.
fn title(workload: &str) -> &str {
    match workload {
        "w1.add" => "one add of one element",
        "w2.chain100_16" => "100 pointwise operators, 16 elements",
        "w3.pointwise_16384" => "GELU, sigmoid, tanh on 16,384",
        "w3.pointwise_262144" => "GELU, sigmoid, tanh on 262,144",
        "w4.softmax_1024x1024" => "softmax, 1024 x 1024",
        "w4.rmsnorm_512x768" => "RMS norm, 512 x 768",
        "w5.mlp_8x256" => "MLP, batch 8, width 256",
        "w6.minigpt_b1" => "small GPT, 16 tokens",
        "w8.sdpa_128" => "attention, 12 heads, 128 tokens",
        "w9.resnet18" => "ResNet-18, one image",
        "w12.minilm_b1_l8" => "MiniLM, 8 tokens",
        "w12.minilm_b1_l32" => "MiniLM, 32 tokens",
        "w12.minilm_b1_l128" => "MiniLM, 128 tokens",
        name => name,
    }
}

const WIDTH: f64 = 860.0;
/// The bars lie between these two.
const LEFT: f64 = 290.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 64.0;
const STEP: f64 = 26.0;
const BAR: f64 = 16.0;

/// Colours are set by classes, so that a dark theme can change them.
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2328}\
.head{font-size:16px;font-weight:600}.soft{fill:#59636e}.end{text-anchor:end}\
.middle{text-anchor:middle}.faster{fill:#1a7f64}.slower{fill:#bc4c00}\
.grid{stroke:#d1d9e0}.one{stroke:#59636e}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.soft{fill:#9198a1}\
.faster{fill:#3fb68b}.slower{fill:#f0883e}.grid{stroke:#3d444d}.one{stroke:#9198a1}}";

/// Bars from the line of equal times, on a logarithmic scale: to the right for workloads that
/// compiling makes faster, to the left for those that it makes slower.
fn draw(bars: &[Bar], threads: usize) -> String {
    let ups = || bars.iter().map(Bar::speed_up);
    let low = ups().fold(1.0, f64::min).ln();
    let high = ups().fold(2.0, f64::max).ln();
    let x = |times: f64| LEFT + (times.ln() - low) / (high - low) * (RIGHT - LEFT);
    let bottom = TOP + bars.len() as f64 * STEP;
    let height = bottom + 44.0;
    let plural = if threads == 1 { "" } else { "s" };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"t\">\n<title id=\"t\">How many times faster compiled functions run than \
         eager ones</title>\n<style>{STYLE}</style>\n\
         <text class=\"head\" x=\"16\" y=\"28\">How many times faster a compiled function runs than \
         eager calls</text>\n"
    );
    let mut put = |line: String| {
        // writing to a string does not fail
        let _ = writeln!(svg, "{line}");
    };
    for times in [0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        let at = x(times);
        if !(LEFT - 1.0..=RIGHT + 1.0).contains(&at) {
            continue;
        }
        let class = if times == 1.0 { "one" } else { "grid" };
        put(format!(
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
            TOP - 6.0
        ));
        put(format!(
            "<text class=\"soft middle\" x=\"{at:.1}\" y=\"{:.1}\">{times}x</text>",
            TOP - 12.0
        ));
    }
    for (i, bar) in bars.iter().enumerate() {
        let (times, y) = (bar.speed_up(), TOP + i as f64 * STEP + (STEP - BAR) / 2.0);
        let (from, to) = (x(times.min(1.0)), x(times.max(1.0)));
        let text = y + BAR / 2.0 + 4.5;
        let class = if times < 1.0 { "slower" } else { "faster" };
        put(format!(
            "<text class=\"end\" x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
            LEFT - 12.0,
            escaped(title(&bar.workload))
        ));
        put(format!(
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            (to - from).max(1.0)
        ));
        let digits = usize::from(times < 10.0);
        put(format!(
            "<text x=\"{:.1}\" y=\"{text:.1}\">{times:.digits$}x <tspan class=\"soft\">{} to {}</tspan></text>",
            to + 8.0,
            duration(bar.eager_us),
            duration(bar.compiled_us)
        ));
    }
    put(format!(
        "<text class=\"soft\" x=\"16\" y=\"{:.1}\">Median time of a call, {threads} thread{plural}, \
         logarithmic scale. A bar to the left of 1x is a slowdown.</text>",
        bottom + 28.0
    ));
    put("</svg>".to_owned());
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mode: &str, workload: &str, threads: usize, median: &str) -> String {
        format!(
            "{{\"framework\":\"straightline\",\"mode\":\"{mode}\",\"workload\":\"{workload}\",\
             \"threads\":{threads},\"median_us\":{median},\"note\":\"more\"}}\n"
        )
    }

    #[test]
    fn the_greatest_speed_up_is_the_first_bar_and_what_was_not_measured_is_none() {
        let text = row("eager", "slow", 1, "1.0")
            + &row("compiled", "slow", 1, "4.0")
            + &row("eager", "fast", 1, "8.0")
            + &row("compiled", "fast", 1, "2.0")
            + &row("eager", "half", 1, "8.0")
            + &row("compiled", "half", 1, "null");
        let (bars, threads) = bars(&text).unwrap();
        let names: Vec<&str> = bars.iter().map(|b| b.workload.as_str()).collect();
        assert_eq!((names, threads), (vec!["fast", "slow"], 1));
        let svg = draw(&bars, threads);
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"slower\"").count(), 1, "{svg}");
        assert!(svg.contains(">4.0x <tspan class=\"soft\">8.00 µs to 2.00 µs<"));
    }

    #[test]
    fn the_bars_begin_at_the_line_of_equal_times() {
        let bar = |workload: &str, eager_us, compiled_us| Bar {
            workload: workload.to_owned(),
            eager_us,
            compiled_us,
        };
        let svg = draw(&[bar("a", 10.0, 1.0), bar("b<c", 1.0, 10.0)], 2);
        // a tenth and ten times are as far from the middle
        let middle = (LEFT + RIGHT) / 2.0;
        assert!(svg.contains(&format!("<line class=\"one\" x1=\"{middle:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("<rect class=\"faster\" x=\"{middle:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("<rect class=\"slower\" x=\"{LEFT:.1}\"")), "{svg}");
        assert!(svg.contains("b&lt;c") && svg.contains("2 threads"), "{svg}");
    }

    #[test]
    fn wrong_files_are_refused_with_the_line() {
        assert!(bars("").unwrap_err().contains("no workload"));
        let text = row("eager", "a", 1, "1.0") + "{";
        assert!(bars(&text).unwrap_err().starts_with("line 2: "));
        let text = row("eager", "a", 1, "1.0") + &row("compiled", "a", 2, "1.0");
        assert!(bars(&text).unwrap_err().contains("1 and with 2 threads"));
    }

    /// The picture in the README must match its numbers: draw it again after changing either.
    #[test]
    fn the_picture_in_docs_is_drawn_from_the_numbers_beside_it() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let drawn = from_file(&docs.join("benchmarks.jsonl")).unwrap();
        let kept = std::fs::read_to_string(docs.join("benchmarks.svg")).unwrap();
        assert_eq!(drawn, kept, "bench --picture docs/benchmarks.jsonl > docs/benchmarks.svg");
    }
}
