use super::*;
use crate::dispatch::record_function;
use crate::ops::aten;

fn here() -> Profiler {
    Profiler::start_with(ProfilerOptions { all_threads: false, shapes: true })
}

fn square(n: i64) -> Tensor {
    Tensor::from_slice(&vec![1f32; (n * n) as usize], &[n, n]).unwrap()
}

fn names(p: &Profile) -> Vec<(&str, usize)> {
    p.events().iter().map(|e| (&*e.name, e.depth)).collect()
}

#[test]
fn a_composite_contains_what_it_calls() {
    let (x, w) = (square(4), square(4));
    let p = here();
    aten::linear(&x, &w, None).unwrap();
    let p = p.stop();
    assert_eq!(
        names(&p),
        [("aten::linear", 0), ("aten::t", 1), ("aten::matmul", 1), ("aten::mm", 2)]
    );
    let e = p.events();
    assert!(e[2].total >= e[3].total && e[2].own <= e[2].total);
    assert_eq!(e[2].own, e[2].total - e[3].total);
    assert_eq!(e[0].own, e[0].total - e[1].total - e[2].total);
    // mm's result, 64 bytes in its size class
    assert_eq!(e[3].memory, e[0].memory);
    assert!(e[3].memory >= 64 && e[3].own_memory == e[3].memory);
    assert_eq!((e[0].own_memory, e[3].allocations), (0, 1));
    assert_eq!(e[3].inputs[0].sizes, [[4, 4]]);
    assert_eq!(e[3].inputs[0].kind, "f32");
    assert!(e[0].inputs[2].sizes.is_empty());
}

#[test]
fn siblings_and_threads_do_not_mix() {
    let make = |thread, id, depth, total| ProfileEvent {
        name: "x".into(),
        overload: "",
        scope: RecordScope::Function,
        thread,
        id,
        sequence_number: -1,
        depth,
        start: Duration::ZERO,
        total: Duration::from_nanos(total),
        own: Duration::from_nanos(total),
        memory: total as i64,
        own_memory: total as i64,
        allocations: 0,
        inputs: Vec::new(),
    };
    // two trees on thread 1, one on thread 2, in the order in which they ended
    let mut events = [
        make(1, 4, 2, 10),
        make(1, 3, 1, 30),
        make(2, 5, 1, 7),
        make(1, 6, 1, 20),
        make(2, 2, 0, 100),
        make(1, 1, 0, 60),
        make(1, 7, 0, 5),
    ];
    subtract_children(&mut events);
    let own: Vec<(u64, u128, i64)> =
        events.iter().map(|e| (e.id, e.own.as_nanos(), e.own_memory)).collect();
    assert_eq!(
        own,
        [(1, 10, 10), (3, 20, 20), (4, 10, 10), (6, 20, 20), (7, 5, 5), (2, 93, 93), (5, 7, 7)]
    );
}

#[test]
fn all_threads_are_covered() {
    let p = Profiler::start();
    let other = std::thread::Builder::new()
        .name("worker of the profiler's test".into())
        .spawn(|| {
            square(2).exp().unwrap();
            thread_id()
        })
        .unwrap();
    let other = other.join().unwrap();
    square(2).exp().unwrap();
    let p = p.stop();
    for thread in [other, thread_id()] {
        let of = |e: &&ProfileEvent| e.thread == thread && e.name == "aten::exp";
        assert_eq!(p.events().iter().filter(of).count(), 1);
    }
    assert!(p.threads().contains(&(other, "worker of the profiler's test".into())));
}

#[test]
fn the_table_has_a_row_for_each_operator() {
    let x = square(8);
    let p = here();
    {
        let _range = record_function("my range");
        x.mm(&x).unwrap();
        x.mm(&x).unwrap();
        square(2).mm(&square(2)).unwrap();
    }
    let p = p.stop();
    let table = p.table();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].trim_start().starts_with("Name"));
    let columns: Vec<&str> = lines[1].split("  ").filter(|c| !c.is_empty()).collect();
    assert_eq!(
        columns.iter().map(|c| c.trim()).collect::<Vec<_>>(),
        [
            "Name",
            "Self CPU %",
            "Self CPU",
            "CPU total %",
            "CPU total",
            "CPU time avg",
            "CPU Mem",
            "Self CPU Mem",
            "# of Calls"
        ]
    );
    let row = |name: &str| lines.iter().find(|l| l.contains(name)).unwrap();
    assert!(row("aten::mm").trim_end().ends_with(" 3"));
    assert!(row("my range").trim_end().ends_with(" 1"));
    assert!(lines.last().unwrap().starts_with("Self CPU time total: "));
    // all rows are equally long
    assert!(lines[..lines.len() - 1].iter().all(|l| l.len() == lines[0].len()));
    let by_shape = p.key_averages_by_shape();
    let mm: Vec<(usize, &str)> = by_shape
        .iter()
        .filter(|r| r.name == "aten::mm")
        .map(|r| (r.calls, r.shapes.as_deref().unwrap()))
        .collect();
    assert!(mm.contains(&(2, "[[8, 8], [8, 8]]")) && mm.contains(&(1, "[[2, 2], [2, 2]]")));
    let by_calls = p.table_by(SortBy::Calls, 1);
    assert_eq!(by_calls.lines().count(), 6);
    assert!(by_calls.contains("aten::mm"));
    // shares of own time add up to the whole
    let all: Duration = p.key_averages().iter().map(|r| r.own).sum();
    let top: Duration = p.events().iter().filter(|e| e.depth == 0).map(|e| e.total).sum();
    assert_eq!(all, top);
}

#[test]
fn the_chrome_trace_has_the_fields_of_the_format() {
    let x = square(2);
    let p = here();
    {
        let _range = record_function("a \"quoted\" range");
        x.add(&x).unwrap();
    }
    let p = p.stop();
    let file = tempfile::NamedTempFile::new().unwrap();
    p.write_chrome_trace(file.path()).unwrap();
    let trace: serde_json::Value =
        serde_json::from_reader(std::fs::File::open(file.path()).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let metadata: Vec<&str> =
        events.iter().filter(|e| e["ph"] == "M").map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(metadata, ["process_name", "thread_name", "thread_sort_index"]);
    let spans: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
    assert_eq!(spans.len(), 2);
    for s in &spans {
        assert!(s["ts"].as_f64().unwrap() >= 0.0 && s["dur"].as_f64().unwrap() >= 0.0);
        assert_eq!(s["pid"], std::process::id());
        assert_eq!(s["tid"], thread_id());
    }
    assert_eq!(spans[0]["name"], "a \"quoted\" range");
    assert_eq!(spans[0]["cat"], "user_annotation");
    assert_eq!(spans[1]["name"], "aten::add");
    assert_eq!(spans[1]["cat"], "cpu_op");
    assert_eq!(spans[1]["args"]["Overload"], "Tensor");
    let dims = serde_json::json!([[2, 2], [2, 2], []]);
    assert_eq!(spans[1]["args"]["Input Dims"], dims);
    // a span lies within the one around it
    let end = |s: &serde_json::Value| s["ts"].as_f64().unwrap() + s["dur"].as_f64().unwrap();
    assert!(spans[0]["ts"].as_f64() <= spans[1]["ts"].as_f64());
    // nanoseconds as fractions of microseconds add up to one of them
    assert!(end(spans[1]) <= end(spans[0]) + 0.01);
}

#[test]
fn compiled_functions_show_their_stages_and_their_calls() {
    let f = crate::compile(|x: &Tensor| x.exp()?.sum());
    let x = square(4);
    let first = here();
    f.call(&x).unwrap();
    let first = first.stop();
    let ranges: Vec<(&str, usize)> =
        names(&first).into_iter().filter(|n| !n.0.starts_with("aten::")).collect();
    assert_eq!(
        ranges,
        [
            ("compile variant 0", 0),
            ("capture", 1),
            ("rewrite", 1),
            ("schedule", 1),
            ("codegen", 1),
            ("compiled variant 0", 0),
        ]
    );
    let second = here();
    f.call(&x).unwrap();
    assert_eq!(names(&second.stop()), [("compiled variant 0", 0)]);
}
