//! Archives made by hand, for tests.

/// An archive in the making.
pub(super) struct Zip {
    /// What the data of entries is aligned to.
    pub(super) align: usize,
    /// Whether lengths and sums follow the data, as PyTorch writes them.
    pub(super) descriptors: bool,
    /// Whether numbers are where those of large archives are.
    pub(super) large: bool,
    /// What follows the end.
    pub(super) comment: Vec<u8>,
    bytes: Vec<u8>,
    directory: Vec<u8>,
    entries: u64,
}

/// Four bytes for each field of a directory entry that a test changes.
const FLAGS: u16 = 0x800;

impl Zip {
    pub(super) fn new() -> Zip {
        Zip {
            align: 64,
            descriptors: true,
            large: false,
            comment: Vec::new(),
            bytes: Vec::new(),
            directory: Vec::new(),
            entries: 0,
        }
    }

    /// Adds an entry.
    pub(super) fn entry(mut self, name: &str, data: &[u8]) -> Zip {
        let header = self.bytes.len() as u64;
        let flags = FLAGS | if self.descriptors { 8 } else { 0 };
        let after = self.bytes.len() + 30 + name.len() + 4;
        let pad = after.next_multiple_of(self.align) - after;
        let length = data.len() as u32;
        self.put(&[0x0403_4b50]);
        self.bytes.extend(45u16.to_le_bytes());
        self.bytes.extend(flags.to_le_bytes());
        self.bytes.extend([0; 10]);
        let said = if self.descriptors { 0 } else { length };
        self.put(&[said, said]);
        self.bytes.extend((name.len() as u16).to_le_bytes());
        self.bytes.extend((pad as u16 + 4).to_le_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(*b"FB");
        self.bytes.extend((pad as u16).to_le_bytes());
        self.bytes.resize(self.bytes.len() + pad, b'Z');
        self.bytes.extend(data);
        if self.descriptors {
            self.put(&[0x0807_4b50, 0, length, length]);
        }
        let mut extra = Vec::new();
        let (mut said, mut place) = (length, header as u32);
        if self.large {
            extra.extend(1u16.to_le_bytes());
            extra.extend(24u16.to_le_bytes());
            extra.extend(
                [data.len() as u64, data.len() as u64, header].map(u64::to_le_bytes).concat(),
            );
            (said, place) = (u32::MAX, u32::MAX);
        }
        let directory = &mut self.directory;
        directory.extend(0x0201_4b50u32.to_le_bytes());
        directory.extend([45u16, 45, flags, 0, 0, 0].map(u16::to_le_bytes).concat());
        directory.extend([0, said, said].map(u32::to_le_bytes).concat());
        directory.extend(
            [name.len() as u16, extra.len() as u16, 0, 0, 0].map(u16::to_le_bytes).concat(),
        );
        directory.extend([0, place].map(u32::to_le_bytes).concat());
        directory.extend(name.as_bytes());
        directory.extend(extra);
        self.entries += 1;
        self
    }

    fn put(&mut self, numbers: &[u32]) {
        self.bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    }

    /// The archive.
    pub(super) fn done(self) -> Vec<u8> {
        let Zip { mut bytes, directory, entries, large, comment, .. } = self;
        let (start, length) = (bytes.len() as u64, directory.len() as u64);
        bytes.extend(directory);
        if large {
            let end = bytes.len() as u64;
            bytes.extend(0x0606_4b50u32.to_le_bytes());
            bytes.extend(44u64.to_le_bytes());
            bytes.extend([45u16, 45].map(u16::to_le_bytes).concat());
            bytes.extend([0u8; 8]);
            bytes.extend([entries, entries, length, start].map(u64::to_le_bytes).concat());
            bytes.extend(0x0706_4b50u32.to_le_bytes());
            bytes.extend([0u8; 4]);
            bytes.extend(end.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
        }
        let (count, length, start) = match large {
            true => (u16::MAX, u32::MAX, u32::MAX),
            false => (entries as u16, length as u32, start as u32),
        };
        bytes.extend(0x0605_4b50u32.to_le_bytes());
        bytes.extend([0, 0, count, count].map(u16::to_le_bytes).concat());
        bytes.extend([length, start].map(u32::to_le_bytes).concat());
        bytes.extend((comment.len() as u16).to_le_bytes());
        bytes.extend(comment);
        bytes
    }
}
