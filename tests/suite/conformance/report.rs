//! Which cases are skipped and why, and what came of the others.

use super::case::{Case, text};
use super::double::Outcome;
use super::run::{Mode, run_case, run_double};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use straightline::dispatch::operator;
use straightline::{Device, DeviceType};

/// Cases that are known to differ: lines of modes, of what (an operator, or the id of one case
/// without the name of its set), reason and perhaps a part of the error with which the case then
/// ends, separated by tabs.
pub(crate) struct Skips(String);

impl Skips {
    pub(crate) fn new(text: impl Into<String>) -> Skips {
        Skips(text.into())
    }

    /// Why this case is not run in this mode; or, given the error that it ended with, why that one
    /// is expected.
    pub(crate) fn reason(&self, case: &Case, mode: Mode, error: Option<&str>) -> Option<&str> {
        let names: &[&str] = match mode {
            Mode::Eager => &["eager", "all"],
            Mode::Meta => &["meta", "all"],
            Mode::Compiled => &["compiled", "all"],
            // calls, whichever device they are on
            Mode::Cuda => &["cuda", "eager", "all"],
            Mode::CudaCompiled => &["cuda", "compiled", "all"],
        };
        self.0.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).find_map(|l| {
            let mut parts = l.splitn(4, '\t');
            let (modes, what, reason) = (parts.next()?, parts.next()?, parts.next()?);
            let expected = match (parts.next(), error) {
                (None, None) => true,
                (Some(text), Some(error)) => error.contains(text),
                _ => false,
            };
            // whichever set of vectors it is of: `public/`, `held_out/`
            let of_set = case.id.split_once('/').is_some_and(|(_, id)| id == what);
            let modes = modes.split(',').any(|m| names.contains(&m));
            (modes && expected && (of_set || case.op == what)).then_some(reason)
        })
    }
}

/// What came of the cases of one operator.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// Case and reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// Case and what differs.
    pub(crate) failures: Vec<(String, String)>,
    /// By nominal dtype: whether a case passed, and whether one failed.
    pub(crate) dtypes: BTreeMap<String, (bool, bool)>,
}

/// What is done around a case of an operator, which is run once.
pub(crate) type Around<'a> = Box<dyn FnMut(&str, &mut dyn FnMut()) + 'a>;

/// What came of a run, operator by operator.
#[derive(Default)]
pub(crate) struct Report<'a> {
    /// Around each case, for the tool.
    pub(crate) around: Option<Around<'a>>,
    pub(crate) operators: BTreeMap<String, Tally>,
    /// Calls without recorded gradients are left out.
    pub(crate) only_grads: bool,
    /// Second derivatives of those instead of first ones.
    pub(crate) double: bool,
    /// Of so many cases, one is run; of none, all are.
    pub(crate) every: usize,
}

impl Report<'_> {
    /// Runs the cases of a file whose operator's name contains `only`.
    pub(crate) fn run_file(
        &mut self,
        path: &Path,
        mode: Mode,
        only: &str,
        skips: &Skips,
    ) -> std::io::Result<()> {
        let file = BufReader::new(GzDecoder::new(std::fs::File::open(path)?));
        for (i, line) in file.lines().enumerate() {
            let line = line?;
            if self.every > 1 && i % self.every != 0 {
                continue;
            }
            // the name comes first on each line
            let op = line.split('"').nth(3).unwrap_or("").to_string();
            if op.contains(only) && (!self.only_grads || line.contains("\"grads\":")) {
                self.run_line(op, &line, mode, skips);
            }
        }
        Ok(())
    }

    fn run_line(&mut self, op: String, line: &str, mode: Mode, skips: &Skips) {
        let missing = operator(&op).err();
        let tally = self.operators.entry(op).or_default();
        let case = match Case::parse(line) {
            Ok(case) => match mode {
                Mode::Cuda | Mode::CudaCompiled => {
                    match case.moved(Device::new(DeviceType::Cuda)) {
                        Ok(case) => case,
                        Err(e) => {
                            tally.failures.push((start(line), format!("can not be moved: {e}")));
                            return;
                        }
                    }
                }
                _ => case,
            },
            Err(why) => {
                tally.failures.push((start(line), format!("can not be read: {why}")));
                return;
            }
        };
        if let Some(reason) = skips.reason(&case, mode, None).map(str::to_string) {
            tally.skipped.push((case.id, reason));
        } else if case.json["grads"].is_object() && mode == Mode::Meta {
            let reason = "gradients have values";
            tally.skipped.push((case.id, reason.to_string()));
        } else if let Some(e) = missing {
            tally.failures.push((case.id, e.to_string()));
        } else {
            let outcome = match self.double {
                false => match &mut self.around {
                    None => run_case(&case, mode),
                    Some(around) => {
                        let mut outcome = Err("it was not run".to_string());
                        around(&case.op, &mut || outcome = run_case(&case, mode));
                        outcome
                    }
                },
                true => match run_double(&case, mode) {
                    Ok(Outcome::Agrees) => Ok(()),
                    Ok(Outcome::Nothing(why)) => {
                        tally.skipped.push((case.id, why));
                        return;
                    }
                    Err(e) => Err(e),
                },
            };
            let expected = |e: &String| skips.reason(&case, mode, Some(e)).map(str::to_string);
            if let Some(reason) = outcome.as_ref().err().and_then(expected) {
                tally.skipped.push((case.id, reason));
                return;
            }
            let dtype = text(&case.json, "dtype").to_string();
            let seen = tally.dtypes.entry(dtype).or_default();
            seen.0 |= outcome.is_ok();
            seen.1 |= outcome.is_err();
            match outcome {
                Ok(()) => tally.passed += 1,
                Err(e) => tally.failures.push((text(&case.json, "id").to_string(), e)),
            }
        }
    }

    /// Passed, failed, skipped.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        self.operators.values().fold((0, 0, 0), |(p, f, s), t| {
            (p + t.passed, f + t.failures.len(), s + t.skipped.len())
        })
    }
}

fn start(line: &str) -> String {
    line.chars().take(80).collect()
}
