//! `bench --picture FILE`: the rows that `bench --json` or `benches/peers/run` wrote, as a picture of
//! speed-ups.

use super::measured::{Measured, Results, best_peer, from_file};
use super::report::duration;
use crate::error::Result;
use std::fmt::Write;
use std::path::Path;

/// One bar.
#[derive(Debug, PartialEq)]
struct Bar {
    workload: String,
    eager_us: f64,
    compiled_us: f64,
    /// The quickest peer, if there were peers: its name and its time.
    peer: Option<(String, f64)>,
}

impl Bar {
    fn speed_up(&self) -> f64 {
        self.eager_us / self.compiled_us
    }

    /// How many times faster the quickest peer is than our eager calls.
    fn peer_up(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, us)| self.eager_us / us)
    }
}

/// Reads a file of JSON lines and draws what was measured both eagerly and compiled.
pub(super) fn svg(path: &Path) -> Result<String> {
    from_file(path, |results| {
        let (bars, threads) = bars(results)?;
        Ok(draw(&bars, threads))
    })
}

/// Of more bars than this, those that have a title are drawn.
const MOST: usize = 20;

/// The bars of the rows, the greatest speed-up first, and the number of threads. Of several
/// instruction sets those of the first are drawn.
fn bars(results: &Results) -> Result<(Vec<Bar>, usize), String> {
    let Some(first) = results.rows.iter().find(|r| r.is_ours()) else {
        return Err("no workload was measured both eagerly and compiled".to_owned());
    };
    let rows: Vec<&Measured> = results.rows.iter().filter(|r| r.isa == first.isa).collect();
    let threads = first.threads;
    if let Some(row) = rows.iter().find(|r| r.threads != threads) {
        return Err(format!(
            "rows with {threads} and with {} threads do not belong in one picture",
            row.threads
        ));
    }
    let bar = |eager: &Measured| {
        let of: Vec<&Measured> =
            rows.iter().copied().filter(|r| r.workload == eager.workload).collect();
        let compiled = of.iter().find(|r| r.is_ours() && r.mode == "compiled")?;
        Some(Bar {
            eager_us: eager.us()?,
            compiled_us: compiled.us()?,
            workload: eager.workload.clone(),
            peer: best_peer(&of).and_then(|p| Some((p.who().to_owned(), p.us()?))),
        })
    };
    let eager = rows.iter().filter(|r| r.is_ours() && r.mode == "eager");
    let mut bars: Vec<Bar> = eager.filter_map(|r| bar(r)).collect();
    if bars.is_empty() {
        return Err("no workload was measured both eagerly and compiled".to_owned());
    }
    if bars.len() > MOST {
        bars.retain(|b| title(&b.workload) != b.workload);
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

const WIDTH: f64 = 900.0;
/// The bars lie between these two.
const LEFT: f64 = 290.0;
const RIGHT: f64 = 570.0;
const TOP: f64 = 64.0;
const STEP: f64 = 26.0;
const BAR: f64 = 16.0;

/// Colours are set by classes, so that a dark theme can change them.
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2328}\
.head{font-size:16px;font-weight:600}.soft{fill:#59636e}.end{text-anchor:end}\
.middle{text-anchor:middle}.faster{fill:#1a7f64}.slower{fill:#bc4c00}\
.grid{stroke:#d1d9e0}.one{stroke:#59636e}.peer{stroke:#0969da;stroke-width:3}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.soft{fill:#9198a1}\
.faster{fill:#3fb68b}.slower{fill:#f0883e}.grid{stroke:#3d444d}.one{stroke:#9198a1}\
.peer{stroke:#58a6ff}}";

/// Bars from the line of equal times, on a logarithmic scale: to the right for workloads that
/// compiling makes faster, to the left for those that it makes slower. A mark says where a bar of
/// the quickest peer would end.
fn draw(bars: &[Bar], threads: usize) -> String {
    let ups = || bars.iter().map(Bar::speed_up).chain(bars.iter().filter_map(Bar::peer_up));
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
    for times in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
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
        let (mut end, mut peer) = (to, String::new());
        if let (Some((name, us)), Some(times)) = (&bar.peer, bar.peer_up()) {
            let at = x(times);
            end = end.max(at);
            peer = format!("; {} {}", escaped(name), duration(*us));
            put(format!(
                "<line class=\"peer\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y - 2.0,
                y + BAR + 2.0
            ));
        }
        put(format!(
            "<text x=\"{:.1}\" y=\"{text:.1}\">{times:.digits$}x <tspan class=\"soft\">{} to {}{peer}</tspan></text>",
            end + 8.0,
            duration(bar.eager_us),
            duration(bar.compiled_us)
        ));
    }
    let peers = if bars.iter().any(|b| b.peer.is_some()) {
        " A blue mark is the quickest peer."
    } else {
        ""
    };
    put(format!(
        "<text class=\"soft\" x=\"16\" y=\"{:.1}\">Median time of a call, {threads} thread{plural}, \
         logarithmic scale. A bar to the left of 1x is a slowdown.{peers}</text>",
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
    use crate::bench::measured::parse;

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
        let (bars, threads) = bars(&parse(&text).unwrap()).unwrap();
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
            peer: None,
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
    fn the_quickest_peer_is_a_mark() {
        let peer = |framework: &str, mode: &str, us: &str| {
            row(mode, "a", 1, us).replace("straightline", framework)
        };
        let text = row("eager", "a", 1, "8.0")
            + &row("compiled", "a", 1, "2.0")
            + &peer("torch", "eager", "5.0")
            + &peer("jax", "jit", "4.0")
            + &peer("burn", "eager", "null");
        let (bars, threads) = bars(&parse(&text).unwrap()).unwrap();
        assert_eq!(bars[0].peer, Some(("JAX".to_owned(), 4.0)));
        let svg = draw(&bars, threads);
        // half as far as the bar, which is four times faster
        let half = (LEFT + RIGHT) / 2.0;
        assert!(svg.contains(&format!("<line class=\"peer\" x1=\"{half:.1}\"")), "{svg}");
        assert!(svg.contains("8.00 µs to 2.00 µs; JAX 4.00 µs") && svg.contains("blue mark"));
    }

    #[test]
    fn of_a_long_suite_what_has_a_title_is_drawn() {
        let both = |name: &str| row("eager", name, 1, "2.0") + &row("compiled", name, 1, "1.0");
        let many: String = (0..MOST).map(|i| both(&format!("x{i}"))).collect();
        let count = |text: &str| bars(&parse(text).unwrap()).unwrap().0.len();
        assert_eq!(count(&many), MOST);
        assert_eq!(count(&(many + &both("w1.add"))), 1);
    }

    #[test]
    fn wrong_rows_are_refused() {
        let refused = |text: &str| bars(&parse(text).unwrap()).unwrap_err();
        assert!(refused("").contains("no workload"));
        assert!(refused(&row("eager", "a", 1, "1.0")).contains("no workload"));
        let text = row("eager", "a", 1, "1.0") + &row("compiled", "a", 2, "1.0");
        assert!(refused(&text).contains("1 and with 2 threads"));
    }

    /// The picture in the README must match its numbers: draw it again after changing either.
    #[test]
    fn the_picture_in_docs_is_drawn_from_the_numbers_beside_it() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let drawn = svg(&docs.join("benchmarks.jsonl")).unwrap();
        let kept = std::fs::read_to_string(docs.join("benchmarks.svg")).unwrap();
        assert_eq!(drawn, kept, "bench --picture docs/benchmarks.jsonl > docs/benchmarks.svg");
    }
}
