//! A profile as Chrome trace events: the file that `chrome://tracing` and Perfetto open.

use super::{Profile, ProfileEvent};
use crate::dispatch::RecordScope;
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

impl Profile {
    /// The trace as JSON: one complete (`X`) event for each span, and the threads' names.
    pub fn chrome_trace(&self) -> String {
        self.trace_value().to_string()
    }

    /// Writes [`Profile::chrome_trace`] to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_chrome_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let write = || {
            let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
            serde_json::to_writer(&mut file, &self.trace_value())?;
            file.flush()
        };
        write().map_err(|e: std::io::Error| Error::file(path, e))
    }

    fn trace_value(&self) -> Value {
        let pid = std::process::id();
        let mut events = vec![named("process_name", pid, 0, "straightline")];
        for (thread, name) in &self.threads {
            events.push(named("thread_name", pid, *thread, name));
            // viewers order by this; ours count from the thread that called first
            events.push(json!({
                "ph": "M", "name": "thread_sort_index", "pid": pid, "tid": thread,
                "args": { "sort_index": thread },
            }));
        }
        events.extend(self.events.iter().map(|e| span(e, pid)));
        json!({
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            "traceEvents": events,
        })
    }
}

fn named(what: &str, pid: u32, tid: u64, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } })
}

/// Microseconds, as the format counts.
fn micros(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

fn span(e: &ProfileEvent, pid: u32) -> Value {
    let mut args = Map::new();
    let mut add = |key: &str, value: Value| {
        args.insert(key.to_string(), value);
    };
    add("Record function id", json!(e.id));
    add("Self duration (us)", json!(micros(e.own)));
    add("Memory (bytes)", json!(e.memory));
    if !e.overload.is_empty() {
        add("Overload", json!(e.overload));
    }
    if e.sequence_number >= 0 {
        add("Sequence number", json!(e.sequence_number));
    }
    if !e.inputs.is_empty() {
        let dims = e.inputs.iter().map(|i| match &i.sizes[..] {
            [one] => json!(one),
            list => json!(list),
        });
        add("Input Dims", dims.collect());
        add("Input type", e.inputs.iter().map(|i| json!(i.kind)).collect());
    }
    let category = match e.scope {
        RecordScope::UserScope => "user_annotation",
        _ => "cpu_op",
    };
    json!({
        "ph": "X",
        "cat": category,
        "name": e.name,
        "pid": pid,
        "tid": e.thread,
        "ts": micros(e.start),
        "dur": micros(e.total),
        "args": args,
    })
}
