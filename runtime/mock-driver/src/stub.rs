//! Shared objects that contain nothing: a name, and the name of a library that they need.
//!
//! `dlsym` looks through what a library needs as well, so that all symbols of the needed one are
//! found through the empty one. It is written byte by byte: no linker is needed where tests run.

/// A shared object (ELF, 64 bits, for the machine that this was compiled for) with the given SONAME
/// that needs the library of another.
pub(crate) fn library(soname: &str, needed: &str) -> Vec<u8> {
    const HEADER: u64 = 64;
    const SEGMENT: u64 = 56;
    const SYMBOL: u64 = 24;
    const DYNAMIC: u64 = 16;
    let symbols = HEADER + 3 * SEGMENT;
    let hash = symbols + SYMBOL;
    let strings = hash + 16;
    let mut text = vec![0_u8];
    let mut add = |name: &str| {
        let at = text.len() as u64;
        text.extend(name.as_bytes());
        text.push(0);
        at
    };
    let (soname, needed) = (add(soname), add(needed));
    text.resize(text.len().next_multiple_of(8), 0);
    let dynamic = strings + text.len() as u64;
    let entries: [(u64, u64); 8] = [
        // needed, SONAME, hash table, strings, symbols, bytes of strings, of a symbol, the end
        (1, needed),
        (14, soname),
        (4, hash),
        (5, strings),
        (6, symbols),
        (10, text.len() as u64),
        (11, SYMBOL),
        (0, 0),
    ];
    let dynamic_bytes = entries.len() as u64 * DYNAMIC;
    let end = dynamic + dynamic_bytes;

    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut file = Vec::with_capacity(end as usize);
    // 64 bits, little-endian, version 1
    file.extend([0x7F, b'E', b'L', b'F', 2, 1, 1, 0]);
    file.extend([0; 8]);
    // a shared object
    file.extend(3_u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    // no entry, segments behind this header, no sections
    for word in [0, HEADER, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [HEADER as u16, SEGMENT as u16, 3, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // kind, flags (read and write), where, bytes, alignment: the file, its dynamic section, a stack
    // that is not executable
    let segments: [(u32, u64, u64, u64); 3] =
        [(1, 0, end, 0x1000), (2, dynamic, dynamic_bytes, 8), (0x6474_E551, 0, 0, 16)];
    for (kind, start, bytes, alignment) in segments {
        file.extend(kind.to_le_bytes());
        file.extend(6_u32.to_le_bytes());
        for word in [start, start, start, bytes, bytes, alignment] {
            file.extend(word.to_le_bytes());
        }
    }
    // the symbol that is none
    file.extend([0; SYMBOL as usize]);
    // a hash table of one bucket and one symbol
    for word in [1_u32, 1, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(&text);
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

#[cfg(test)]
mod tests {
    #[test]
    fn offsets_are_where_the_header_says() {
        let file = super::library("libone.so", "libtwo.so.1");
        assert_eq!(&file[..4], b"\x7FELF");
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        // the second segment is the dynamic section, at the end
        let (start, bytes) = (word(64 + 56 + 8), word(64 + 56 + 32));
        assert_eq!((start + bytes) as usize, file.len());
        let strings = word(start as usize + 3 * 16 + 8);
        let soname = (strings + word(start as usize + 16 + 8)) as usize;
        assert_eq!(&file[soname..soname + 9], b"libone.so");
    }
}
