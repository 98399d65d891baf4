//! The explanation as a page that needs nothing else: style and script are in it.

use super::drawing::PlanView;
use super::markup::Markup;
use super::steps::{bar, bytes, plan, saved, time};
use super::{Explanation, VariantExplanation};
use crate::compile::options::CompileEvent;
use std::fmt::Display;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The style of a page that has nothing else.
const ALONE: &str = "body { margin: 0; } body > .sl-explain { min-height: 100vh; }";
/// With more variants than this, those behind the first are folded.
const OPEN: usize = 3;

impl Explanation {
    /// The explanation as one page of HTML: guards, the graph drawn with each operator in the colour of
    /// its step, steps with what is predicted and measured of them, decisions, rewrites, what a
    /// training saves, events. It fetches nothing, and can be read without its script.
    ///
    /// Times are there if [`CompileOptions::time_steps`](crate::CompileOptions::time_steps) had them
    /// measured.
    ///
    /// ```
    /// use straightline::{CompileOptions, Tensor, compile_with};
    /// let options = CompileOptions { time_steps: true, ..CompileOptions::default() };
    /// let f = compile_with(options, |x: &Tensor| x.exp()?.add(1)?.log());
    /// for _ in 0..10 {
    ///     f.call(&Tensor::from_vec([0f32], 1)?)?;
    /// }
    /// let page = f.explain().to_html();
    /// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("aten::exp"));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn to_html(&self) -> String {
        let mut m = Markup::default();
        m.constant("<!DOCTYPE html>\n");
        m.element("html", &[("lang", &"en")], |m| {
            m.element("head", &[], |m| {
                m.empty("meta", &[("charset", &"utf-8")]);
                let viewport = "width=device-width, initial-scale=1";
                m.empty("meta", &[("name", &"viewport"), ("content", &viewport)]);
                m.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
                m.leaf("title", &[], format!("How {} was compiled", self.named()));
                m.element("style", &[], |m| m.constant(ALONE));
            });
            m.element("body", &[], |m| self.fragment(m));
        });
        m.finish()
    }

    /// The same as an element that can stand in another page, such as a cell of a notebook: its style
    /// concerns what is in it only, and nothing in it has an id.
    ///
    /// ```
    /// use straightline::{Tensor, compile};
    /// let f = compile(|x: &Tensor| x.relu());
    /// f.call(&Tensor::from_vec([0f32], 1)?)?;
    /// assert!(f.explain().to_html_fragment().starts_with("<div class=\"sl-explain\">"));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn to_html_fragment(&self) -> String {
        let mut m = Markup::default();
        self.fragment(&mut m);
        m.finish()
    }

    fn named(&self) -> &str {
        if self.name.is_empty() { "a function" } else { &self.name }
    }

    fn fragment(&self, m: &mut Markup) {
        m.element("div", &[("class", &"sl-explain")], |m| {
            m.element("style", &[], |m| m.constant(STYLE));
            m.element("h1", &[], |m| {
                m.text("How ");
                m.leaf("code", &[], self.named());
                m.text(" was compiled");
            });
            self.summary(m);
            if self.variants.is_empty() {
                m.leaf("p", &[], "Nothing has been compiled: the function was not called yet.");
            }
            for v in &self.variants {
                self.variant(m, v);
            }
            self.events(m);
            m.element("script", &[], |m| m.constant(SCRIPT));
        });
    }

    fn summary(&self, m: &mut Markup) {
        let own = self.variants.iter().filter(|v| v.code_of.is_none() && !v.eager).count();
        let compiled = |e: &&CompileEvent| matches!(e, CompileEvent::Compiled { .. });
        let recompiled = |e: &&CompileEvent| matches!(e, CompileEvent::Compiled { misses, .. } if !misses.is_empty());
        let recompiles = self.events.iter().filter(recompiled).count();
        let others = self.events.iter().filter(|e| !compiled(e)).count();
        facts(
            m,
            &[
                ("variants", &self.variants.len()),
                ("with code of their own", &own),
                ("recompiles", &recompiles),
                ("other events", &others),
            ],
        );
    }

    fn variant(&self, m: &mut Markup, v: &VariantExplanation) {
        let kind = match (v.eager, v.code_of, v.then) {
            (true, ..) => ", runs eagerly".to_string(),
            (_, Some(other), _) => format!(", runs the code of variant {other}"),
            (_, _, Some(op)) => format!(", the part before {op}"),
            _ => String::new(),
        };
        let inputs = if v.inputs.is_empty() { "no inputs".into() } else { v.inputs.join(", ") };
        let title = format!("Variant {}{kind}: {inputs}", v.number);
        let is_open = self.variants.len() <= OPEN || v.number == 0;
        m.element("div", &[("class", &"sl-variant")], |m| {
            m.details(is_open, title, |m| {
                self.why(m, v);
                guards(m, v);
                if v.eager {
                    let text = "This variant has no code: the function itself runs, operator by \
                                operator. The events say why.";
                    m.leaf("p", &[], text);
                } else if let Some(other) = v.code_of {
                    shared(m, v, other);
                } else {
                    own_code(m, v);
                }
            });
        });
    }

    /// Why a variant was made.
    fn why(&self, m: &mut Markup, v: &VariantExplanation) {
        for event in &self.events {
            let CompileEvent::Compiled { variant, misses, took, .. } = event else { continue };
            if *variant != v.number {
                continue;
            }
            let total = format!("Captured and compiled in {}", time(*took));
            if misses.is_empty() {
                let text = if v.number == 0 { ", the first." } else { "." };
                m.leaf("p", &[], format!("{total}{text}"));
            } else {
                m.leaf("p", &[], format!("{total}, since no other variant served the call:"));
                list(m, misses);
            }
        }
        if !v.misfits.is_empty() {
            m.leaf("p", &[], "The code that there was did not serve:");
            list(m, &v.misfits);
        }
    }

    fn events(&self, m: &mut Markup) {
        m.leaf("h2", &[], "Events");
        if self.events.is_empty() {
            m.leaf("p", &[("class", &"sl-muted")], "None.");
        }
        m.element("ol", &[("class", &"sl-events")], |m| {
            for event in &self.events {
                let kind = match event {
                    CompileEvent::Compiled { .. } => "sl-compiled",
                    _ => "sl-warning",
                };
                m.element("li", &[("class", &kind)], |m| event_text(m, event));
            }
        });
    }
}

/// What happened, with guards that did not hold as a list.
fn event_text(m: &mut Markup, event: &CompileEvent) {
    let misses = match event {
        CompileEvent::Compiled { misses, .. } | CompileEvent::VariantLimit { misses, .. } => misses,
        _ => return m.text(event),
    };
    let mut alone = event.clone();
    if let CompileEvent::Compiled { misses, .. } | CompileEvent::VariantLimit { misses, .. } =
        &mut alone
    {
        misses.clear();
    }
    m.text(alone);
    if !misses.is_empty() {
        list(m, misses);
    }
}

fn list<T: Display>(m: &mut Markup, of: &[T]) {
    m.element("ul", &[], |m| of.iter().for_each(|text| m.leaf("li", &[], text)));
}

/// Numbers with what they are.
fn facts(m: &mut Markup, of: &[(&'static str, &dyn Display)]) {
    m.element("dl", &[("class", &"sl-facts")], |m| {
        for (name, value) in of {
            m.element("div", &[], |m| {
                m.leaf("dt", &[], name);
                m.leaf("dd", &[], value);
            });
        }
    });
}

fn guards(m: &mut Markup, v: &VariantExplanation) {
    let lines: Vec<&str> = v.guards.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let title = format!("Guards: what a call must be like for this variant ({})", lines.len());
    m.details(lines.len() <= 12, title, |m| {
        m.element("ul", &[("class", &"sl-guards")], |m| {
            lines.iter().for_each(|line| m.element("li", &[], |m| m.leaf("code", &[], line)));
        });
    });
}

/// A variant with the code of another one.
fn shared(m: &mut Markup, v: &VariantExplanation, other: usize) {
    let text = format!(
        "Steps, decisions and graph are those of variant {other} but for sizes and strides, which the \
         code reads from a table of {} numbers.",
        v.table
    );
    m.leaf("p", &[], text);
    m.details(false, format!("Steps ({})", v.steps.len()), |m| plan(m, PlanView::forward(v)));
}

fn own_code(m: &mut Markup, v: &VariantExplanation) {
    let (kernels, code, arena) =
        (v.kernels(), bytes(v.code_bytes as u64), bytes(v.arena_bytes as u64));
    let externs = v.steps.len() - kernels;
    let mut shown: Vec<(&'static str, &dyn Display)> = vec![
        ("generated kernels", &kernels),
        ("extern calls", &externs),
        ("machine code", &code),
        ("temporaries", &arena),
    ];
    if v.table > 0 {
        shown.push(("numbers from a table", &v.table));
    }
    facts(m, &shown);
    if let Some(op) = v.then {
        m.element("p", &[], |m| {
            m.text("This is the front of a function in parts: ");
            m.leaf("code", &[], op);
            m.text(
                " follows, whose results have sizes that depend on data. The rest is a variant of \
                 its own for each set of sizes.",
            );
        });
    }
    m.leaf("h3", &[], if v.backward.is_empty() { "Steps" } else { "Steps of the forward pass" });
    plan(m, PlanView::forward(v));
    if !v.backward.is_empty() {
        m.leaf("h3", &[], "Saved for the backward pass");
        saved(m, &v.saved);
        m.leaf("h3", &[], "Computed again in the backward pass");
        saved(m, &v.recomputed);
        m.leaf("h3", &[], "Steps of the backward pass");
        plan(m, PlanView::backward(v));
    }
    passes(m, v);
    rewrites(m, v);
    m.details(false, "The function as it was captured", |m| {
        m.element("pre", &[("class", &"sl-box"), ("tabindex", &0)], |m| m.text(&v.captured));
    });
}

fn passes(m: &mut Markup, v: &VariantExplanation) {
    m.leaf("h3", &[], "Passes");
    let largest = v.timings.iter().map(|t| t.1).max().unwrap_or_default();
    m.element("div", &[("class", &"sl-bars")], |m| {
        for (name, took) in &v.timings {
            m.leaf("span", &[], name);
            m.leaf("span", &[("class", &"sl-n")], time(*took));
            bar(m, took.as_secs_f64(), largest.as_secs_f64());
        }
    });
}

fn rewrites(m: &mut Markup, v: &VariantExplanation) {
    m.leaf("h3", &[], "Rewrites");
    // what is said of the rules is the table
    let lines = v.report.lines().take_while(|l| !l.contains(" x "));
    m.leaf("pre", &[("class", &"sl-box")], lines.collect::<Vec<_>>().join("\n"));
    if v.rewrites.is_empty() {
        m.leaf("p", &[("class", &"sl-muted")], "No rule changed anything.");
        return;
    }
    let largest = v.rewrites.iter().map(|r| r.1).max().unwrap_or_default();
    m.element("div", &[("class", &"sl-bars")], |m| {
        for (rule, times) in &v.rewrites {
            m.leaf("span", &[], rule);
            m.leaf("span", &[("class", &"sl-n")], format!("{times}\u{d7}"));
            bar(m, *times as f64, largest as f64);
        }
    });
}
