//! The explanation as text.

use super::{Explanation, StepExplanation};
use std::fmt;

impl StepExplanation {
    fn line(&self, f: &mut fmt::Formatter<'_>, number: usize) -> fmt::Result {
        let kind = if self.generated { "kernel" } else { "extern" };
        let (name, ops, work) = (&self.name, self.ops.join(" "), self.work);
        write!(f, "  {number}: {kind} {name} <- {ops} ({work}")?;
        match self.time {
            None => writeln!(f, ")"),
            Some(time) => writeln!(f, "; took {:.1} us)", time.as_secs_f64() * 1e6),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for v in &self.variants {
            if let Some(other) = v.code_of {
                // steps and fusion are those of the other one but for numbers
                let (number, inputs) = (v.number, v.inputs.join(", "));
                writeln!(f, "variant {number} runs the code of variant {other} for {inputs}")?;
                continue;
            }
            writeln!(f, "variant {}", v.number)?;
            writeln!(f, " guards")?;
            write!(f, "{}", v.guards)?;
            if v.eager {
                writeln!(f, " runs eagerly")?;
                continue;
            }
            writeln!(
                f,
                " steps: {} generated, {} extern; {} bytes of code, {} bytes of temporaries",
                v.kernels(),
                v.steps.len() - v.kernels(),
                v.code_bytes,
                v.arena_bytes
            )?;
            if v.table > 0 {
                writeln!(f, "  the code reads {} numbers from a table", v.table)?;
            }
            for why in &v.misfits {
                writeln!(f, "  not the code of an earlier variant: {why}")?;
            }
            for (i, s) in v.steps.iter().enumerate() {
                s.line(f, i)?;
            }
            if let Some(op) = v.then {
                writeln!(f, "  then {op}, and a variant of the rest for the sizes of its results")?;
            }
            if !v.backward.is_empty() {
                writeln!(f, " saved for the backward pass")?;
                for s in &v.saved {
                    writeln!(f, "  {} {} {} bytes: {}", s.name, s.shape, s.bytes, s.why)?;
                }
                writeln!(f, " computed again there")?;
                for s in &v.recomputed {
                    writeln!(f, "  {} {} {} bytes: {}", s.name, s.shape, s.bytes, s.why)?;
                }
                writeln!(f, " steps of the backward pass")?;
                for (i, s) in v.backward.iter().enumerate() {
                    s.line(f, i)?;
                }
            }
            writeln!(f, " fusion")?;
            for d in &v.decisions {
                match d.step {
                    Some(step) => writeln!(f, "  {} -> step {step}: {}", d.node, d.reason)?,
                    None => writeln!(f, "  {}: {}", d.node, d.reason)?,
                }
            }
            writeln!(f, " passes")?;
            for (name, took) in &v.timings {
                writeln!(f, "  {name}: {:.3} ms", took.as_secs_f64() * 1e3)?;
            }
            writeln!(f, " e-graph")?;
            for line in v.report.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        writeln!(f, "events")?;
        for e in &self.events {
            writeln!(f, "  {e}")?;
        }
        Ok(())
    }
}
