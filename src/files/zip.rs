//! The directory of a zip archive: where each entry's bytes are.
//!
//! Everything that the file says is compared with the file before it is used. What is read is the
//! directory at the end and the header before each entry, so an archive of many gigabytes costs a
//! few pages. Entries are used in place: one that is compressed is known as that, and cannot be read.

use super::error::FileReason;
use std::collections::BTreeMap;
use std::ops::Range;

/// The record at the end of every archive.
const END: u32 = 0x0605_4b50;
const END_BYTES: usize = 22;
/// Where the end of a large archive is, and that end.
const LOCATOR: u32 = 0x0706_4b50;
const LOCATOR_BYTES: usize = 20;
const LARGE_END: u32 = 0x0606_4b50;
const LARGE_END_BYTES: usize = 56;
/// An entry in the directory, and the header before its bytes.
const CENTRAL: u32 = 0x0201_4b50;
const CENTRAL_BYTES: usize = 46;
const LOCAL: u32 = 0x0403_4b50;
const LOCAL_BYTES: usize = 30;
/// The extra field that has the numbers which do not fit elsewhere.
const LARGE_FIELD: u16 = 1;
/// Flags of an entry whose bytes are not its content: encrypted, patched, strongly encrypted,
/// encrypted together with the directory.
const CHANGED: u16 = 1 | 1 << 5 | 1 << 6 | 1 << 13;

/// What is wrong, and with which entry.
pub(super) type Refused = (Option<String>, FileReason);

/// The entries of an archive by their full names.
pub(super) type Directory = BTreeMap<String, Place>;

/// An entry.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where its bytes are in the file.
    pub(super) range: Range<usize>,
    /// How they are compressed: 0 if they are not.
    pub(super) method: u16,
}

/// Numbers at places of a file.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// A part of it, which has to end before `end`.
    fn part(
        &self,
        what: &'static str,
        at: u64,
        bytes: u64,
        end: usize,
    ) -> Result<&'a [u8], FileReason> {
        let found = at
            .checked_add(bytes)
            .filter(|until| *until <= end as u64)
            .and_then(|until| self.0.get(usize::try_from(at).ok()?..usize::try_from(until).ok()?));
        found.ok_or(FileReason::Truncated { what, at, bytes, end: end as u64 })
    }

    /// A record of a fixed length that begins with its signature.
    fn record(
        &self,
        what: &'static str,
        signature: u32,
        at: u64,
        bytes: usize,
        end: usize,
    ) -> Result<Fields<'a>, FileReason> {
        let found = Fields(self.part(what, at, bytes as u64, end)?);
        match found.u32(0) == signature {
            true => Ok(found),
            false => Err(FileReason::NoRecord { what, at }),
        }
    }
}

/// A record whose length is known: fields outside of it are 0.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.number(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.number(at))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.number(at))
    }
}

/// What the end of an archive says.
struct End {
    /// How many entries the directory has.
    entries: u64,
    /// Where the directory is; it ends before the records at the end.
    directory: Range<usize>,
}

/// Whether bytes begin as those of a zip archive do.
pub(super) fn is_zip(file: &[u8]) -> bool {
    let first = Fields(file).u32(0);
    first == LOCAL || first == END
}

/// Reads the directory.
pub(super) fn directory(file: &[u8]) -> Result<Directory, Refused> {
    let bytes = Bytes(file);
    let end = find_end(&bytes).map_err(|reason| (None, reason))?;
    // a bound for what is allocated below
    let least = end.entries.saturating_mul(CENTRAL_BYTES as u64);
    let has = end.directory.len() as u64;
    if least > has {
        let (at, end) = (end.directory.start as u64, end.directory.end as u64);
        let what = "the directory";
        return Err((None, FileReason::Truncated { what, at, bytes: least, end }));
    }
    let mut found = Directory::new();
    let mut extents: Vec<(Range<usize>, &str)> = Vec::new();
    let mut at = end.directory.start;
    for _ in 0..end.entries {
        let central = Central::read(&bytes, at, end.directory.end).map_err(|r| (None, r))?;
        at = central.until;
        let name = match std::str::from_utf8(central.name) {
            Ok(name) => name,
            Err(_) => {
                let shown = String::from_utf8_lossy(central.name).into_owned();
                return Err((Some(shown), FileReason::Name { why: "it is not UTF-8" }));
            }
        };
        let of_entry = |reason| (Some(name.to_owned()), reason);
        let extent = central.check(&bytes, name, end.directory.start).map_err(of_entry)?;
        extents.push((extent.header..extent.data.end, name));
        if name.ends_with('/') {
            // a folder
            continue;
        }
        let place = Place { range: extent.data, method: central.method };
        if found.insert(name.to_owned(), place).is_some() {
            return Err(of_entry(FileReason::Duplicate));
        }
    }
    if at != end.directory.end {
        let (one, other) = ((at - end.directory.start) as u64, has);
        let what = "the length of the directory";
        return Err((None, FileReason::Contradiction { what, one, other }));
    }
    extents.sort_by_key(|(range, _)| (range.start, range.end));
    for pair in extents.windows(2) {
        if let [(before, other), (after, name)] = pair
            && before.end > after.start
        {
            let other = (*other).to_owned();
            return Err((Some((*name).to_owned()), FileReason::Overlap { other }));
        }
    }
    Ok(found)
}

/// The record at the end, which a comment may follow, and the one of a large archive.
fn find_end(bytes: &Bytes<'_>) -> Result<End, FileReason> {
    let file = bytes.0;
    let first = file.len().saturating_sub(END_BYTES + usize::from(u16::MAX));
    let places = (first..(file.len() + 1).saturating_sub(END_BYTES)).rev();
    let mut found = None;
    for at in places {
        let Some(record) = file.get(at..) else { continue };
        let fields = Fields(record);
        if fields.u32(0) == END && record.len() == END_BYTES + usize::from(fields.u16(20)) {
            found = Some((at, fields));
            break;
        }
    }
    let Some((at, fields)) = found else {
        let bytes = file.len() as u64;
        return Err(match is_zip(file) {
            true => FileReason::CutOff { bytes },
            false => FileReason::NotAnArchive { bytes },
        });
    };
    let mut end = Numbers {
        disk: fields.u16(4).into(),
        first_disk: fields.u16(6).into(),
        entries_here: fields.u16(8).into(),
        entries: fields.u16(10).into(),
        bytes: fields.u32(12).into(),
        start: fields.u32(16).into(),
    };
    let mut before = at;
    let locator = (at.checked_sub(LOCATOR_BYTES))
        .and_then(|at| bytes.record("the locator", LOCATOR, at as u64, LOCATOR_BYTES, before).ok());
    if let Some(locator) = locator {
        let disks = u64::from(locator.u32(16));
        if locator.u32(4) != 0 || disks > 1 {
            return Err(FileReason::SeveralDisks { disks });
        }
        let (what, at) = ("the end record of a large archive", locator.u64(8));
        let large = bytes.record(what, LARGE_END, at, LARGE_END_BYTES, before - LOCATOR_BYTES)?;
        let large = Numbers {
            disk: large.u32(16).into(),
            first_disk: large.u32(20).into(),
            entries_here: large.u64(24),
            entries: large.u64(32),
            bytes: large.u64(40),
            start: large.u64(48),
        };
        end.agrees(&large)?;
        end = large;
        // it ends in the file, as has been checked
        before = at as usize;
    }
    if end.disk != 0 || end.first_disk != 0 || end.entries_here != end.entries {
        let disks = end.disk.max(end.first_disk).saturating_add(1).max(2);
        return Err(FileReason::SeveralDisks { disks });
    }
    bytes.part("the directory", end.start, end.bytes, before)?;
    let start = end.start as usize;
    Ok(End { entries: end.entries, directory: start..start + end.bytes as usize })
}

/// The numbers of an end record.
struct Numbers {
    disk: u64,
    first_disk: u64,
    entries_here: u64,
    entries: u64,
    bytes: u64,
    start: u64,
}

impl Numbers {
    /// Whether the numbers that fit into the small record are those of the large one.
    fn agrees(&self, large: &Numbers) -> Result<(), FileReason> {
        let (short, long) = (u64::from(u16::MAX), u64::from(u32::MAX));
        for (what, small, large, none) in [
            ("the number of entries", self.entries, large.entries, short),
            ("the length of the directory", self.bytes, large.bytes, long),
            ("the place of the directory", self.start, large.start, long),
        ] {
            if small != large && small != none {
                return Err(FileReason::Contradiction { what, one: small, other: large });
            }
        }
        Ok(())
    }
}

/// An entry of the directory.
struct Central<'a> {
    flags: u16,
    method: u16,
    name: &'a [u8],
    packed: u64,
    bytes: u64,
    header: u64,
    disk: u32,
    /// Where the next one begins.
    until: usize,
}

/// Where an entry's header and data are.
struct Extent {
    header: usize,
    data: Range<usize>,
}

impl<'a> Central<'a> {
    fn read(bytes: &Bytes<'a>, at: usize, end: usize) -> Result<Central<'a>, FileReason> {
        let what = "an entry of the directory";
        let at = at as u64;
        let fields = bytes.record(what, CENTRAL, at, CENTRAL_BYTES, end)?;
        let lengths = [28, 30, 32].map(|place| u64::from(fields.u16(place)));
        let [name, extra, comment] = lengths;
        let rest = at + CENTRAL_BYTES as u64;
        let all = bytes.part(what, rest, name + extra + comment, end)?;
        let (name_bytes, others) = all.split_at(name as usize);
        let mut central = Central {
            flags: fields.u16(8),
            method: fields.u16(10),
            name: name_bytes,
            packed: fields.u32(20).into(),
            bytes: fields.u32(24).into(),
            header: fields.u32(42).into(),
            disk: fields.u16(34).into(),
            until: (rest + name + extra + comment) as usize,
        };
        central.large(&others[..extra as usize], rest + name)?;
        Ok(central)
    }

    /// Takes what does not fit into the entry from its extra field.
    fn large(&mut self, mut extra: &[u8], mut at: u64) -> Result<(), FileReason> {
        let long = u64::from(u32::MAX);
        let mut wanted = self.bytes == long || self.packed == long || self.header == long;
        wanted |= self.disk == u32::from(u16::MAX);
        if !wanted {
            return Ok(());
        }
        while extra.len() >= 4 {
            let (tag, length) = (Fields(extra).u16(0), usize::from(Fields(extra).u16(2)));
            let Some(field) = extra.get(4..4 + length) else { break };
            if tag == LARGE_FIELD {
                return self.numbers(Fields(field), at + 4);
            }
            extra = &extra[4 + length..];
            at += 4 + length as u64;
        }
        Err(FileReason::NoRecord { what: "the field with the sizes of a large entry", at })
    }

    fn numbers(&mut self, field: Fields<'_>, at: u64) -> Result<(), FileReason> {
        let long = u64::from(u32::MAX);
        let mut place = 0;
        for number in [&mut self.bytes, &mut self.packed, &mut self.header] {
            if *number == long {
                *number = field.u64(place);
                place += 8;
            }
        }
        if self.disk == u32::from(u16::MAX) {
            self.disk = field.u32(place);
            place += 4;
        }
        if place > field.0.len() {
            let (what, bytes) = ("the field with the sizes of a large entry", place as u64);
            let end = at + field.0.len() as u64;
            return Err(FileReason::Truncated { what, at, bytes, end });
        }
        Ok(())
    }

    /// Checks the entry against the file: data and header end before `end`.
    fn check(&self, bytes: &Bytes<'_>, name: &str, end: usize) -> Result<Extent, FileReason> {
        check_name(name)?;
        if self.flags & CHANGED != 0 {
            return Err(FileReason::Encrypted { flags: self.flags });
        }
        if self.method == 0 && self.packed != self.bytes {
            let (what, one, other) = ("its length", self.packed, self.bytes);
            return Err(FileReason::Contradiction { what, one, other });
        }
        if self.disk != 0 {
            return Err(FileReason::SeveralDisks { disks: u64::from(self.disk) + 1 });
        }
        let what = "the header before its data";
        let local = bytes.record(what, LOCAL, self.header, LOCAL_BYTES, end)?;
        let (length, extra) = (u64::from(local.u16(26)), u64::from(local.u16(28)));
        let after = self.header + LOCAL_BYTES as u64;
        let called = bytes.part(what, after, length, end)?;
        if called != self.name {
            let local = String::from_utf8_lossy(called).into_owned();
            return Err(FileReason::NameDiffers { local });
        }
        if local.u16(8) != self.method {
            let (what, one, other) = ("its method", self.method.into(), local.u16(8).into());
            return Err(FileReason::Contradiction { what, one, other });
        }
        // sizes are those of the directory: the header has none where a descriptor follows the data
        let start = after + length + extra;
        bytes.part("its data", start, self.packed, end)?;
        let data = start as usize..(start + self.packed) as usize;
        Ok(Extent { header: self.header as usize, data })
    }
}

/// Whether the name of an entry stays in the archive.
fn check_name(name: &str) -> Result<(), FileReason> {
    let refused = |why| Err(FileReason::Name { why });
    if name.is_empty() {
        return refused("it is empty");
    }
    if name.contains(['\\', '\0']) {
        return refused("it has a backslash or a zero byte");
    }
    if name.starts_with('/') {
        return refused("it is absolute");
    }
    if name.split('/').any(|part| part == ".." || part == ".") {
        return refused("it leads out of the archive");
    }
    Ok(())
}
