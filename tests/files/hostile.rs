//! Files that were changed at random: each is read or refused with a typed error, in memory that its
//! length bounds.
//!
//! `HOSTILE_FILES=1000000` makes that many, `HOSTILE_SEED=7` others.

use super::counting::most;
use super::folder;
use super::made::Zip;
use std::collections::BTreeMap;
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

/// What an archive holds, in the order of its directory; nothing of another file.
fn entries(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = |at: usize, count: usize| {
        file[at..at + count].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    let mut found = Vec::new();
    let Some(end) = file.len().checked_sub(22).filter(|end| number(*end, 4) == 0x0605_4b50) else {
        return found;
    };
    let mut at = number(end + 16, 4);
    for _ in 0..number(end + 10, 2) {
        let (name, local) = (number(at + 28, 2), number(at + 42, 4));
        let start = local + 30 + number(local + 26, 2) + number(local + 28, 2);
        let data = file[start..start + number(at + 20, 4)].to_vec();
        found.push((String::from_utf8(file[at + 46..at + 46 + name].to_vec()).unwrap(), data));
        at += 46 + name + number(at + 30, 2) + number(at + 32, 2);
    }
    found
}

/// The archive, or the same one with a pickle that is changed, longer or shorter.
fn changed(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    let mut parts = entries(&bytes);
    if parts.is_empty() || dice.below(2) == 0 {
        // the beginning, where the pickle is, and the directory at the end
        let place = |dice: &mut Dice, length: usize| match dice.below(3) {
            0 => length.saturating_sub(1 + dice.below(1200)),
            _ => dice.below(length),
        };
        change(dice, &mut bytes, seeds, place, false);
        return bytes;
    }
    for (name, data) in &mut parts {
        if name.ends_with("/data.pkl") {
            change(dice, data, seeds, |dice, length| dice.below(length), true);
        }
    }
    let mut zip = Zip::new();
    zip.large = dice.below(2) == 0;
    zip.descriptors = dice.below(2) == 0;
    parts.iter().fold(zip, |zip, (name, data)| zip.entry(name, data)).done()
}

/// Instructions of pickles.
const INSTRUCTIONS: &[u8] =
    b"()]}tabeuqhjRQ2010NKMJXGcs.\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8e\x8f\x90\x91\x93\x94\x95";

/// Changes bytes in one to three ways, and their length if it may change.
fn change(
    dice: &mut Dice,
    bytes: &mut Vec<u8>,
    seeds: &[Vec<u8>],
    place: impl Fn(&mut Dice, usize) -> usize,
    moves: bool,
) {
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = place(dice, bytes.len());
        let end = (at + 1 + dice.below(40)).min(bytes.len());
        match dice.below(if moves { 14 } else { 10 }) {
            0 if dice.below(8) == 0 => bytes.truncate(at),
            // over others, so that what is after stays where it is
            1 => {
                let part = bytes[at..end].to_vec();
                let to = place(dice, bytes.len()).min(bytes.len() - part.len());
                bytes[to..to + part.len()].copy_from_slice(&part);
            }
            2 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                let part = &other[from..(from + end - at).min(other.len())];
                bytes[at..at + part.len()].copy_from_slice(part);
            }
            3 => {
                let value = dice.of(&[0u32, 1, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX]);
                for (to, from) in bytes[at..].iter_mut().zip(value.to_le_bytes()) {
                    *to = from;
                }
            }
            4 | 5 => bytes[at] = dice.of(INSTRUCTIONS),
            10 => drop(bytes.drain(at..end)),
            11 => {
                let part = bytes[at..end].to_vec();
                let to = place(dice, bytes.len());
                bytes.splice(to..to, part);
            }
            12 => bytes.insert(at, dice.of(INSTRUCTIONS)),
            13 => {
                let times = dice.below(200);
                let part = bytes[at..end].repeat(times);
                bytes.splice(at..at, part);
            }
            _ => {
                bytes[at] = match dice.below(3) {
                    0 => bytes[at] ^ (1 << dice.below(8)),
                    1 => dice.next() as u8,
                    _ => bytes[at].wrapping_add(dice.of(&[1, 255])),
                };
            }
        }
    }
}

/// Reads a file and all that is in it: why it cannot be read, or nothing.
fn read(bytes: Vec<u8>) -> Option<String> {
    let saved = match Saved::parse(bytes) {
        Ok(saved) => saved,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Some(match error.kind() {
                ErrorKind::Archive(found) => {
                    let reason = format!("{:?}", found.reason);
                    reason.split([' ', '(']).next().unwrap_or_default().to_owned()
                }
                ErrorKind::File { .. } => "File".to_owned(),
                _ => panic!("{error}"),
            });
        }
    };
    assert!(!saved.to_string().is_empty());
    let tensors = match saved.state_dict() {
        Ok(tensors) => tensors,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Value(_)), "{error}");
            return None;
        }
    };
    for t in tensors.values() {
        // an expanded tensor may be larger than memory
        if t.numel() < 10_000 {
            t.copied().unwrap().resolve_conj().unwrap();
        }
    }
    None
}

#[test]
fn changed_files_are_read_or_refused() {
    let seeds = seeds();
    let count = number("HOSTILE_FILES", 20_000);
    let seed = number("HOSTILE_SEED", 20_260_727);
    let (mut whole, mut largest, mut slowest) = (0, 0, Duration::ZERO);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for i in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x1_0000_0000).wrapping_add(i));
        let bytes = changed(&mut dice, &seeds);
        let length = bytes.len();
        let clock = Instant::now();
        let mut found = None;
        let used = most(|| found = read(bytes));
        slowest = slowest.max(clock.elapsed());
        largest = largest.max(used);
        // what is read is linear in the file, and copies of tensors have less than 10 000 elements
        let bound = (1 << 18) + 200 * length;
        assert!(used < bound, "file {i} of seed {seed}: {used} bytes for {length}");
        match found {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => whole += 1,
        }
    }
    println!("{count} files, {whole} of which were read; at most {largest} bytes, {slowest:?}");
    println!("{reasons:?}");
    assert!(whole > count / 20, "the changes leave too little to read: {whole}");
    assert!(reasons.len() > 20 || count < 10_000, "the changes are much the same: {reasons:?}");
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
