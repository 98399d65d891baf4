//! Files that were changed at random: each is read or refused with a typed error, in memory that its
//! length bounds.
//!
//! `HOSTILE_FILES=1000000` makes that many, `HOSTILE_SEED=7` others.

use super::counting::most;
use super::folder;
use std::time::{Duration, Instant};
use straightline::files::Saved;
use straightline::{ErrorKind, Tensor};

/// A generator of numbers (SplitMix64) that depends on nothing but its seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// All files that PyTorch wrote, and one of safetensors.
fn seeds() -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "pt"));
    paths.sort();
    let mut seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let place = tempfile::tempdir().unwrap().keep();
    let path = place.join("w");
    let (w, b) = (Tensor::arange(6).unwrap(), straightline::tensor([true, false]).unwrap());
    straightline::save_safetensors(&path, [("w", &w), ("b", &b)]).unwrap();
    seeds.push(std::fs::read(path).unwrap());
    std::fs::remove_dir_all(place).unwrap();
    seeds
}

/// Where a file is changed: in the pickle and its surroundings at the beginning, in the directory at
/// the end, or anywhere.
fn place(dice: &mut Dice, length: usize) -> usize {
    match dice.below(4) {
        0 => dice.below(length),
        1 => length.saturating_sub(1 + dice.below(400)),
        _ => dice.below(length.min(1200)),
    }
}

/// Changes a file in one to six ways.
fn change(dice: &mut Dice, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    for _ in 0..=dice.below(6) {
        let at = place(dice, bytes.len());
        let length = 1 + dice.below(40);
        let end = (at + length).min(bytes.len());
        match dice.below(12) {
            0 => bytes.truncate(at),
            1 if dice.below(4) == 0 => drop(bytes.drain(at..end)),
            2 if dice.below(4) == 0 => {
                let part = bytes[at..end].to_vec();
                let to = place(dice, bytes.len());
                bytes.splice(to..to, part);
            }
            // over others, so that what is after stays where it is
            3 => {
                let part = bytes[at..end].to_vec();
                let to = place(dice, bytes.len());
                let to = to.min(bytes.len() - part.len());
                bytes[to..to + part.len()].copy_from_slice(&part);
            }
            4 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = place(dice, other.len());
                let part = &other[from..(from + length).min(other.len())];
                let to = at.min(bytes.len().saturating_sub(part.len()));
                let count = part.len().min(bytes.len() - to);
                bytes[to..to + count].copy_from_slice(&part[..count]);
            }
            5 => {
                let value = dice.of(&[0u32, 1, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX]);
                for (to, from) in bytes[at..].iter_mut().zip(value.to_le_bytes()) {
                    *to = from;
                }
            }
            6 | 7 => {
                // an instruction of pickles
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.of(b"()]}tabeuqhjRQ2010NKMJXGcs.\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8e\x8f\x90\x91\x93\x94\x95");
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = match dice.below(3) {
                        0 => *byte ^ (1 << dice.below(8)),
                        1 => dice.next() as u8,
                        _ => byte.wrapping_add(dice.of(&[1, 255])),
                    };
                }
            }
        }
        if bytes.is_empty() {
            bytes.push(b'P');
        }
    }
}

/// Reads a file and all that is in it; whether it could be.
fn read(bytes: Vec<u8>) -> bool {
    let saved = match Saved::parse(bytes) {
        Ok(saved) => saved,
        Err(error) => {
            let typed = matches!(
                error.kind(),
                ErrorKind::Archive(_) | ErrorKind::File { .. } | ErrorKind::ReadOnly { .. }
            );
            assert!(typed, "{error}");
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!(!saved.to_string().is_empty());
    let tensors = match saved.state_dict() {
        Ok(tensors) => tensors,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Value(_)), "{error}");
            return true;
        }
    };
    for t in tensors.values() {
        // an expanded tensor may be larger than memory
        if t.numel() < 10_000 {
            t.copied().unwrap().resolve_conj().unwrap();
        }
    }
    true
}

#[test]
fn changed_files_are_read_or_refused() {
    let seeds = seeds();
    let count = number("HOSTILE_FILES", 20_000);
    let seed = number("HOSTILE_SEED", 20260727);
    let (mut whole, mut largest, mut slowest) = (0, 0, Duration::ZERO);
    for i in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x1_0000_0000).wrapping_add(i));
        let mut bytes = seeds[dice.below(seeds.len())].clone();
        change(&mut dice, &mut bytes, &seeds);
        let length = bytes.len();
        let clock = Instant::now();
        let used = most(|| whole += u64::from(read(bytes)));
        slowest = slowest.max(clock.elapsed());
        largest = largest.max(used);
        // the copies of tensors that are smaller than 10 000 elements, and what is read
        let bound = (1 << 20) + 400 * length;
        assert!(used < bound, "file {i} of seed {seed}: {used} bytes for {length}");
    }
    println!("{count} files, {whole} of which were read; at most {largest} bytes, {slowest:?}");
    assert!(whole > count / 20, "the changes leave too little to read: {whole}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

#[test]
fn every_beginning_of_a_file_is_refused() {
    for whole in seeds() {
        let readable = Saved::parse(whole.clone()).is_ok();
        for length in 0..whole.len() {
            let made = Saved::parse(whole[..length].to_vec());
            assert!(made.is_err(), "{length} of {} bytes were read", whole.len());
        }
        assert_eq!(Saved::parse(whole).is_ok(), readable);
    }
}
