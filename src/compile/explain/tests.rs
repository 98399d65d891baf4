//! Pages of all kinds of variants, and of names that try to be markup.

use super::*;
use crate::compile::{GuardMiss, TensorTree};
use crate::{CompileOptions, Compiled, DynamicSizes, Result, Tensor, compile, compile_with};

/// What is wrong with markup as XML: elements that are not closed, stray signs, unknown entities.
/// Style and script are looked at like all else.
fn fault(page: &str) -> Option<String> {
    let page = page.strip_prefix("<!DOCTYPE html>").unwrap_or(page);
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find(['<', '&']) {
        let near: String = rest[at..].chars().take(60).collect();
        if rest[at..].starts_with('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            if !known.iter().any(|entity| rest[at..].starts_with(entity)) {
                return Some(format!("a stray sign: {near}"));
            }
            rest = &rest[at + 1..];
            continue;
        }
        let inside = &rest[at + 1..];
        let Some(end) = inside.find('>') else { return Some(format!("no end: {near}")) };
        let (tag, behind) = (&inside[..end], &inside[end + 1..]);
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("closed and not open: {near}"));
            }
            continue;
        }
        if tag.contains('<') || tag.matches('"').count() % 2 == 1 {
            return Some(format!("a tag within a tag: {near}"));
        }
        let name = tag.split([' ', '/']).next().unwrap_or("");
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) {
            return Some(format!("no element: {near}"));
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.last().map(|name| format!("not closed: {name}"))
}

/// How often a text has another one in it.
fn times(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The page of a function; it is well-formed, alone and as a part of another.
#[track_caller]
fn page<I: TensorTree, O: TensorTree>(f: &Compiled<I, O>) -> String {
    checked(&f.explain())
}

#[track_caller]
fn checked(of: &Explanation) -> String {
    let page = of.to_html();
    assert_eq!(fault(&page), None);
    let part = of.to_html_fragment();
    assert_eq!(fault(&part), None);
    assert!(page.contains(&part));
    // nothing is fetched, and nothing clashes with another fragment
    for absent in [" id=", " src=", " href=", "url(", "@import", "http:", "https:"] {
        assert!(!page.contains(absent), "{absent}");
    }
    page
}

fn timed() -> CompileOptions {
    CompileOptions { time_steps: true, ..CompileOptions::default() }
}

#[test]
fn the_check_finds_faults() {
    for wrong in ["<a>", "</a>", "<a></b>", "a & b", "a < b", "<a x=\"<\"></a>", "<A></A>"] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
    assert_eq!(fault("<a x=\"1\">&lt;<b/></a>"), None);
}

#[test]
fn a_function_that_was_not_called_has_a_page() {
    let f = compile(Tensor::exp);
    assert!(page(&f).contains("Nothing has been compiled"));
}

#[test]
fn steps_are_measured_if_asked() -> Result<()> {
    let x = Tensor::ones([4, 8])?;
    let f = |x: &Tensor| x.mm(&x.t()?)?.exp()?.softmax(-1);
    let plain = compile(f);
    plain.call(&x)?;
    assert!(page(&plain).contains("Time was not measured"));
    let why = plain.explain();
    assert!(why.variants[0].steps.iter().all(|s| s.time.is_none()));
    assert!(!why.to_string().contains("took"), "{why}");
    let measured = compile_with(timed(), f);
    for _ in 0..3 {
        measured.call(&x)?;
    }
    let why = measured.explain();
    let variant = &why.variants[0];
    assert_eq!(variant.runs, 3);
    assert!(variant.steps.iter().all(|s| s.time.is_some()));
    assert!(why.to_string().contains("; took "), "{why}");
    assert!(page(&measured).contains("medians of 3 calls"));
    Ok(())
}

#[test]
fn the_graph_knows_steps_and_types() -> Result<()> {
    let w = Tensor::ones([8, 3])?;
    let f = compile(move |x: &Tensor| x.mm(&w)?.add(1)?.relu()?.t()?.sum());
    f.call(&Tensor::ones([4, 8])?)?;
    let why = f.explain();
    let variant = &why.variants[0];
    let nodes = &variant.graph.nodes;
    let of = |op: &str| nodes.iter().find(|n| n.op == op).unwrap_or_else(|| panic!("{nodes:#?}"));
    let product = of("aten::mm");
    assert_eq!(product.shapes, ["f32[4, 3]"]);
    let step = product.step.expect("a step computes the product");
    assert!(!variant.steps[step].generated);
    assert!(!product.reason.is_empty() && product.text.contains("aten::mm("));
    let location = product.location.as_deref();
    assert!(location.is_some_and(|at| at.contains("tests.rs")), "{location:?}");
    for (at, node) in nodes.iter().enumerate() {
        assert!(node.inputs.iter().all(|of| of.node < at));
        assert!(node.inputs.iter().all(|of| of.result < nodes[of.node].names.len()));
        assert!(node.step.is_none_or(|step| step < variant.steps.len()));
    }
    assert_eq!(nodes.last().map(|n| n.role), Some(NodeRole::Output));
    assert!(variant.captured.contains("aten::mm") && variant.captured.contains("tests.rs"));
    // what is folded into the product is part of its step
    let with_bias = compile(|(x, w, b): &(Tensor, Tensor, Tensor)| x.linear(w, Some(b)));
    with_bias.call((&Tensor::ones([2, 3, 8])?, &Tensor::ones([5, 8])?, &Tensor::ones([5])?))?;
    let why = with_bias.explain();
    let graph = &why.variants[0].graph;
    let product = graph.nodes.iter().find(|n| n.op == "aten::mm").expect("a product");
    assert_eq!(product.step, Some(0), "{graph:#?}");
    Ok(())
}

#[test]
fn variants_of_all_kinds_have_pages() -> Result<()> {
    // sizes that share code
    let sizes = compile_with(timed(), |x: &Tensor| x.softmax(-1));
    for n in 20..24 {
        sizes.call(&Tensor::ones([4, n])?)?;
    }
    let shown = page(&sizes);
    assert!(shown.contains("runs the code of variant"), "{shown}");
    assert!(shown.contains("since no other variant served the call"));
    let why = sizes.explain();
    let shared = why.variants.iter().find(|v| v.code_of.is_some()).expect("shared code");
    assert!(shared.graph.nodes.is_empty() && !shared.steps.is_empty());
    assert_eq!(shared.runs, 1);
    // code of its own for each
    let never = CompileOptions { dynamic: DynamicSizes::Never, ..CompileOptions::default() };
    let own = compile_with(never, |x: &Tensor| x.exp()?.neg());
    for n in 1..8 {
        own.call(&Tensor::ones([n])?)?;
    }
    assert_eq!(times(&page(&own), "<div class=\"sl-variant\">"), 7);
    // parts
    let parts = compile(|x: &Tensor| x.masked_select(&x.gt(0)?)?.exp()?.sum());
    parts.call(&Tensor::ones([5])?)?;
    let shown = page(&parts);
    assert!(shown.contains("the part before aten::masked_select"), "{shown}");
    // eagerly
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let eager = compile_with(options, |x: &Tensor| match x.sum()?.item::<f32>()? > 0.0 {
        true => x.exp(),
        false => x.neg(),
    });
    eager.call(&Tensor::ones([5])?)?;
    eager.call(&Tensor::ones([5])?)?;
    let shown = page(&eager);
    assert!(shown.contains("runs eagerly"), "{shown}");
    // nothing to run
    let same = compile(|x: &Tensor| Ok(x.clone()));
    same.call(&Tensor::ones([5])?)?;
    assert!(page(&same).contains("There is nothing to run"));
    Ok(())
}

#[test]
fn a_training_shows_both_passes() -> Result<()> {
    let w = Tensor::ones([8, 8])?.requires_grad_(true)?;
    let f = compile_with(timed(), move |x: &Tensor| x.mm(&w)?.tanh()?.mm(&w)?.exp()?.sum());
    let x = Tensor::ones([4, 8])?;
    for _ in 0..2 {
        f.call(&x)?.backward()?;
    }
    let why = f.explain();
    let variant = &why.variants[0];
    assert_eq!((variant.runs, variant.backward_runs), (2, 2));
    assert!(variant.backward.iter().all(|s| s.time.is_some()));
    assert!(!variant.backward_graph.nodes.is_empty() && !variant.saved.is_empty());
    let shown = page(&f);
    for text in ["Saved for the backward pass", "Steps of the backward pass"] {
        assert!(shown.contains(text), "{text}");
    }
    assert_eq!(times(&shown, "<svg "), 2);
    Ok(())
}

const HOSTILE: &str = "</title></style><script>alert('1')</script>\"' onload=\"x\" &amp; ]]>";

fn hostile_node(at: usize, role: NodeRole) -> NodeExplanation {
    NodeExplanation {
        role,
        names: vec![format!("%{HOSTILE}")],
        op: HOSTILE.into(),
        shapes: vec![HOSTILE.into()],
        inputs: (0..at).map(|node| Operand { node, result: 0 }).collect(),
        step: (role == NodeRole::Call).then_some(at % 3),
        reason: HOSTILE.into(),
        text: HOSTILE.into(),
        location: Some(HOSTILE.into()),
    }
}

#[test]
fn names_are_no_markup() {
    let hostile = || HOSTILE.to_string();
    let roles = [
        NodeRole::Input,
        NodeRole::Parameter,
        NodeRole::Constant,
        NodeRole::Call,
        NodeRole::Output,
    ];
    let nodes = roles.iter().enumerate().map(|(at, role)| hostile_node(at, *role)).collect();
    let step = StepExplanation {
        name: hostile(),
        generated: true,
        ops: vec![hostile(); 9],
        work: Work { read: 1, written: 2, operations: 3 },
        time: Some(Duration::from_micros(3)),
    };
    let saved = SavedExplanation { name: hostile(), shape: hostile(), bytes: 1, why: hostile() };
    let misses = vec![GuardMiss { variant: 0, reason: hostile() }];
    let of = Explanation {
        name: hostile(),
        variants: vec![VariantExplanation {
            guards: hostile(),
            inputs: vec![hostile()],
            steps: vec![step.clone(), StepExplanation { generated: false, ..step.clone() }],
            report: hostile(),
            saved: vec![saved.clone()],
            recomputed: vec![saved],
            backward: vec![step],
            misfits: vec![hostile()],
            captured: hostile(),
            graph: GraphExplanation { nodes },
            rewrites: vec![(HOSTILE, 1)],
            timings: vec![(HOSTILE, Duration::from_micros(1))],
            runs: 1,
            ..VariantExplanation::default()
        }],
        events: vec![
            CompileEvent::Compiled {
                variant: 0,
                code_of: None,
                misses: misses.clone(),
                took: Duration::ZERO,
            },
            CompileEvent::VariantLimit { limit: 1, misses },
            CompileEvent::EagerFallback { reason: hostile() },
            CompileEvent::Intercepted { by: hostile() },
            CompileEvent::Outdated { variant: 0, operator: hostile() },
        ],
    };
    let page = checked(&of);
    assert_eq!(times(&page, "<script"), 1);
    assert!(times(&page, "&lt;script&gt;") > 20);
    assert!(!page.contains("onload=\"x\""));
}

/// The values of an attribute in the elements that begin with this.
fn attribute<'a>(page: &'a str, begin: &str, name: &str) -> Vec<Option<&'a str>> {
    let name = format!("{name}=\"");
    let value = |tag: &'a str| {
        let (_, rest) = tag.split_once(&name)?;
        rest.split('"').next()
    };
    page.split(begin).skip(1).filter_map(|rest| rest.split('>').next()).map(value).collect()
}

#[test]
fn boxes_have_the_colours_of_their_steps() -> Result<()> {
    let w = Tensor::ones([16, 16])?;
    let f = compile(move |x: &Tensor| {
        let mut x = x.clone();
        for _ in 0..4 {
            x = x.layer_norm(&[16])?.mm(&w)?.softmax(-1)?;
        }
        Ok(x)
    });
    f.call(&Tensor::ones([4, 16])?)?;
    let why = f.explain();
    let variant = &why.variants[0];
    let page = checked(&why);
    let steps = attribute(&page, "<g ", "data-step");
    let nodes = attribute(&page, "<g ", "data-node");
    let hues = attribute(&page, "<g ", "style");
    assert_eq!(nodes.iter().flatten().count(), variant.graph.nodes.len());
    let mut seen = std::collections::BTreeMap::new();
    for ((step, node), hue) in steps.iter().zip(&nodes).zip(&hues) {
        let node: usize = match node {
            Some(node) => node.parse().expect("a number"),
            None => continue,
        };
        let wanted = variant.graph.nodes[node].step;
        assert_eq!(step.map(|s| s.parse().expect("a number")), wanted);
        assert_eq!(hue.is_some(), wanted.is_some());
        if let (Some(step), Some(hue)) = (wanted, hue) {
            assert_eq!(*seen.entry(step).or_insert(*hue), *hue, "step {step}");
            let degrees: usize = hue.trim_start_matches("--sl-h:").parse().expect("a hue");
            assert_eq!(degrees >= 150, variant.steps[step].generated, "step {step}: {hue}");
        }
    }
    assert_eq!(seen.len(), variant.steps.len());
    Ok(())
}

#[test]
fn a_large_graph_has_a_page_of_bounded_size() {
    let node = |at: usize| NodeExplanation {
        role: NodeRole::Call,
        names: vec![format!("%{at}")],
        op: "aten::native_layer_norm".into(),
        shapes: vec!["f32[16, 128, 1024]".into()],
        // a far one, a near one, the one before
        inputs: [at.saturating_sub(90), at.saturating_sub(4), at.saturating_sub(1)]
            .into_iter()
            .filter(|node| *node < at)
            .map(|node| Operand { node, result: 0 })
            .collect(),
        step: Some(at / 5),
        reason: "stored: a result, an operand of a runtime kernel, or folded further".into(),
        text: format!("%{at}: f32[16,128,1024] = aten::native_layer_norm(%{at}, [1024])"),
        location: Some("src/models/encoder.rs:120:17".into()),
    };
    let step = StepExplanation {
        name: "add_rsqrt_mul_add_8more".into(),
        generated: true,
        ops: vec!["aten::native_layer_norm".into(); 5],
        work: Work::default(),
        time: Some(Duration::from_micros(12)),
    };
    let of = Explanation {
        variants: vec![VariantExplanation {
            graph: GraphExplanation { nodes: (0..500).map(node).collect() },
            steps: vec![step; 100],
            runs: 10,
            ..VariantExplanation::default()
        }],
        ..Explanation::default()
    };
    let page = checked(&of);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert_eq!(attribute(&page, "<g ", "data-node").iter().flatten().count(), 500);
}
