//! What a call's program depends on, as words: the signature that programs of eager calls are kept by.

use crate::are_deterministic_algorithms_enabled;
use crate::default_dtype::default_dtype;
use crate::dispatch::Value;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::collections::HashMap;
use straightline_catalog::Op;

/// So many words have room without an allocation: those of three operands of four dimensions, and of a few
/// numbers.
const ROOM: usize = 64;

type Words = SmallVec<[u64; ROOM]>;

/// A call but for what its tensors hold: the operator, its arguments, and the dtypes, sizes and strides of its
/// operands. Every list has its length before it, so that two calls with the same words are one.
pub(super) struct Signature {
    op: Op,
    words: Words,
}

/// What stands before an argument's words.
#[derive(Clone, Copy)]
enum Tag {
    None,
    Tensor,
    Bool,
    Int,
    Double,
    Complex,
    String,
    Device,
    DType,
    Layout,
    MemoryFormat,
    Ints,
    Doubles,
    Bools,
    Tensors,
}

impl Signature {
    /// The signature of a call whose operands, in order, are `there`: those that the arguments have, moved to
    /// the device. `None` if it has an argument that no graph has.
    pub(super) fn new(op: Op, args: &[Value], there: &[Tensor]) -> Option<Signature> {
        let mut to = Writer { words: Words::new(), operands: there.iter() };
        let deterministic = u64::from(are_deterministic_algorithms_enabled());
        to.words.extend([default_dtype() as u64, deterministic]);
        args.iter().try_for_each(|v| to.value(v))?;
        Some(Signature { op, words: to.words })
    }
}

struct Writer<'a> {
    words: Words,
    operands: std::slice::Iter<'a, Tensor>,
}

impl Writer<'_> {
    fn tagged(&mut self, tag: Tag, words: impl IntoIterator<Item = u64>) {
        self.words.push(tag as u64);
        self.words.extend(words);
    }

    fn list(&mut self, tag: Tag, words: impl ExactSizeIterator<Item = u64>) {
        self.tagged(tag, [words.len() as u64]);
        self.words.extend(words);
    }

    fn tensor(&mut self, given: &Tensor) -> Option<()> {
        let t = self.operands.next()?;
        let number = u64::from(given.is_wrapped_number());
        self.tagged(Tag::Tensor, [t.dtype() as u64, number, t.dim() as u64]);
        self.words.extend(t.sizes().iter().chain(t.strides()).map(|n| *n as u64));
        Some(())
    }

    fn value(&mut self, v: &Value) -> Option<()> {
        match v {
            Value::None => self.tagged(Tag::None, []),
            Value::Tensor(t) => self.tensor(t)?,
            Value::Bool(b) => self.tagged(Tag::Bool, [u64::from(*b)]),
            Value::Int(n) => self.tagged(Tag::Int, [*n as u64]),
            // by their bits: both zeros differ, and a NaN is itself
            Value::Double(x) => self.tagged(Tag::Double, [x.to_bits()]),
            Value::Complex(a, b) => self.tagged(Tag::Complex, [a.to_bits(), b.to_bits()]),
            Value::String(s) => self.list(Tag::String, s.bytes().map(u64::from)),
            Value::Device(d) => self.tagged(Tag::Device, [d.kind as u64, d.index as u64]),
            Value::DType(d) => self.tagged(Tag::DType, [*d as u64]),
            Value::Layout(l) => self.tagged(Tag::Layout, [*l as u64]),
            Value::MemoryFormat(m) => self.tagged(Tag::MemoryFormat, [*m as u64]),
            Value::IntList(l) => self.list(Tag::Ints, l.iter().map(|n| *n as u64)),
            Value::DoubleList(l) => self.list(Tag::Doubles, l.iter().map(|x| x.to_bits())),
            Value::BoolList(l) => self.list(Tag::Bools, l.iter().map(|b| u64::from(*b))),
            Value::TensorList(l) => {
                self.tagged(Tag::Tensors, [l.len() as u64]);
                l.iter().try_for_each(|t| self.tensor(t))?;
            }
            Value::OptionalTensorList(l) => {
                self.tagged(Tag::Tensors, [l.len() as u64]);
                for t in l {
                    match t {
                        Some(t) => self.tensor(t)?,
                        None => self.tagged(Tag::None, []),
                    }
                }
            }
            Value::Generator(_) | Value::ScalarList(_) | Value::Tuple(_) | Value::Object(_) => {
                return None;
            }
        }
        Some(())
    }
}

/// What is kept by signature. All is dropped where there is too much of it.
pub(super) struct Kept<T> {
    all: HashMap<Op, HashMap<Box<[u64]>, T>>,
    count: usize,
    most: usize,
}

impl<T: Clone> Kept<T> {
    pub(super) fn new(most: usize) -> Kept<T> {
        Kept { all: HashMap::new(), count: 0, most }
    }

    pub(super) fn get(&self, s: &Signature) -> Option<T> {
        self.all.get(&s.op)?.get(&s.words[..]).cloned()
    }

    pub(super) fn insert(&mut self, s: Signature, value: T) {
        if self.count >= self.most {
            self.all.clear();
            self.count = 0;
        }
        let before = self.all.entry(s.op).or_default().insert(s.words.into_boxed_slice(), value);
        self.count += usize::from(before.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use std::time::Instant;
    use straightline_catalog::DType;

    fn tensor(sizes: &[i64]) -> Result<Tensor> {
        Tensor::allocate_contiguous(DType::F32, straightline_catalog::Device::CPU, sizes)
    }

    fn words(args: &[Value]) -> Option<Words> {
        let there: Vec<Tensor> = args.iter().flat_map(Value::tensors).cloned().collect();
        Signature::new(Op::add_Tensor, args, &there).map(|s| s.words)
    }

    #[test]
    fn calls_that_differ_have_different_words() -> Result<()> {
        let x = tensor(&[2, 3])?;
        let t = |x: &Tensor| Value::Tensor(x.clone());
        let calls = [
            vec![t(&x)],
            vec![t(&x.transpose(0, 1)?)],
            vec![t(&tensor(&[6])?)],
            vec![t(&x), t(&x)],
            vec![Value::TensorList(vec![x.clone(), x.clone()])],
            vec![Value::TensorList(vec![x.clone()]), t(&x)],
            vec![Value::OptionalTensorList(vec![None, Some(x.clone())])],
            vec![Value::Double(0.0)],
            vec![Value::Double(-0.0)],
            vec![Value::Int(0)],
            vec![Value::Bool(false)],
            vec![Value::None],
            vec![Value::IntList(vec![1, 2])],
            vec![Value::IntList(vec![1]), Value::Int(2)],
            vec![Value::String("ab".into())],
        ];
        let all: Vec<_> = calls.iter().map(|c| words(c)).collect();
        for (i, a) in all.iter().enumerate() {
            assert!(a.is_some());
            for b in &all[..i] {
                assert_ne!(a, b);
            }
        }
        assert_eq!(words(&[Value::Double(f64::NAN)]), words(&[Value::Double(f64::NAN)]));
        assert!(words(&[Value::ScalarList(Vec::new())]).is_none());
        Ok(())
    }

    #[test]
    fn what_is_kept_is_bounded_and_found_again() -> Result<()> {
        let mut kept = Kept::new(3);
        let signature = |n: i64| Signature::new(Op::add_Tensor, &[Value::Int(n)], &[]);
        for n in 0..4 {
            kept.insert(signature(n).expect("a number"), n);
            assert_eq!(kept.get(&signature(n).expect("a number")), Some(n));
        }
        assert_eq!(kept.get(&signature(0).expect("a number")), None);
        Ok(())
    }

    /// Host time of finding a program: `cargo test --lib signature -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn a_hit_beside_formatted_text() -> Result<()> {
        let x = tensor(&[8, 16, 32, 32])?;
        let args = [Value::Tensor(x.clone()), Value::Tensor(x.clone()), Value::Int(1)];
        let there = [x.clone(), x];
        let (mut kept, mut texts) = (Kept::new(64), HashMap::new());
        let text = || {
            let shapes: Vec<_> = there
                .iter()
                .map(|t| (t.dtype(), t.sizes(), t.strides(), t.is_wrapped_number()))
                .collect();
            format!("{} {:?} {shapes:?} {}", Op::add_Tensor, &args[2], default_dtype())
        };
        let signature = || Signature::new(Op::add_Tensor, &args, &there).expect("a call");
        kept.insert(signature(), 1u64);
        texts.insert(text(), 1u64);
        const CALLS: u32 = 100_000;
        let time = |f: &dyn Fn() -> Option<u64>| {
            let begin = Instant::now();
            let found: u64 = (0..CALLS).filter_map(|_| std::hint::black_box(f())).sum();
            assert_eq!(found, u64::from(CALLS));
            begin.elapsed() / CALLS
        };
        let by_text = time(&|| texts.get(&text()).copied());
        let by_words = time(&|| kept.get(&signature()));
        println!("host time of a hit: {by_text:?} by text, {by_words:?} by words");
        Ok(())
    }
}
