use super::super::list::THREAD_CLASS_BYTES;
use super::super::stats::Counts;
use super::super::{give_cell, set_cache_limit, stats, take_cell};
use super::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that look at the process-wide large cache take turns.
fn serial() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill(block: &Block, byte: u8) {
    // SAFETY: the block owns this many bytes.
    unsafe { block.as_ptr().write_bytes(byte, block.len()) };
}

fn all_equal(block: &Block, byte: u8) -> bool {
    // SAFETY: the block owns this many bytes, all written before.
    (0..block.len()).all(|i| unsafe { block.as_ptr().add(i).read() } == byte)
}

#[test]
fn blocks_are_aligned_disjoint_and_writable() {
    let _turn = serial();
    let sizes = [1, 3, 63, 64, 65, 1000, 1024, 1025, 4097, 65536, 65537, 300_000];
    let blocks: Vec<Block> = sizes.iter().map(|&n| allocate(n).unwrap()).collect();
    for (i, b) in blocks.iter().enumerate() {
        assert_eq!(b.as_ptr() as usize % ALIGNMENT, 0);
        fill(b, i as u8);
    }
    for (i, b) in blocks.iter().enumerate() {
        assert_eq!(b.len(), sizes[i]);
        assert!(all_equal(b, i as u8));
    }
}

#[test]
fn no_bytes_need_no_memory() {
    let b = allocate(0).unwrap();
    assert!(b.is_empty());
    assert_eq!(b.as_ptr() as usize % ALIGNMENT, 0);
}

#[test]
fn a_freed_block_is_the_next_one_of_its_class() {
    let _turn = serial();
    // sizes no other test uses
    for bytes in [777, 50_001, 7_777_777] {
        let first = allocate(bytes).unwrap();
        let ptr = first.as_ptr();
        drop(first);
        assert_eq!(allocate(bytes - 1).unwrap().as_ptr(), ptr, "{bytes}");
    }
}

#[test]
fn what_cannot_exist_is_an_error() {
    for bytes in [usize::MAX, isize::MAX as usize, (1 << 47) + 1] {
        assert_eq!(allocate(bytes).unwrap_err(), OutOfMemory { bytes });
    }
}

#[test]
fn blocks_cross_threads() {
    let _turn = serial();
    let blocks: Vec<Block> = (1..200).map(|i| allocate(i * 37).unwrap()).collect();
    for b in &blocks {
        fill(b, 7);
    }
    std::thread::spawn(move || {
        assert!(blocks.iter().all(|b| all_equal(b, 7)));
        drop(blocks);
        let again = allocate(37).unwrap();
        fill(&again, 1);
        assert!(all_equal(&again, 1));
    })
    .join()
    .unwrap();
}

#[test]
fn a_thread_keeps_a_bounded_number() {
    let _turn = serial();
    std::thread::spawn(|| {
        let blocks: Vec<Block> = (0..100).map(|_| allocate(60_000).unwrap()).collect();
        drop(blocks);
        let kept = here().unwrap().blocks[small_class(60_000)].len() as usize;
        assert!(kept >= 1 && kept * 60_000 <= THREAD_CLASS_BYTES);
    })
    .join()
    .unwrap();
}

#[test]
fn large_blocks_are_kept_within_the_limit() {
    let _turn = serial();
    empty_cache();
    set_cache_limit(10 << 20);
    let blocks: Vec<Block> = (0..5).map(|_| allocate(4 << 20).unwrap()).collect();
    drop(blocks);
    assert_eq!(super::large::cached_bytes(), 8 << 20);
    drop(allocate(11 << 20).unwrap());
    assert_eq!(super::large::cached_bytes(), 8 << 20);
    set_cache_limit(4 << 20);
    assert_eq!(super::large::cached_bytes(), 4 << 20);
    empty_cache();
    assert_eq!(super::large::cached_bytes(), 0);
    set_cache_limit(1 << 30);
}

#[test]
fn counters_follow_blocks() {
    // other tests allocate meanwhile, so only this thread's own slot is exact
    let count = || {
        let mut counts = Counts::default();
        here().unwrap().add_to(&mut counts);
        counts
    };
    let before = count();
    let b = allocate(100).unwrap();
    let with_block = count();
    assert_eq!(with_block.blocks, before.blocks + 1);
    assert_eq!(with_block.allocated_bytes, before.allocated_bytes + 128);
    assert_eq!(with_block.allocations, before.allocations + 1);
    assert!(stats().blocks >= 1 && stats().allocated_bytes >= 128);
    drop(b);
    let after = count();
    assert_eq!(after.blocks, before.blocks);
    assert_eq!(after.allocated_bytes, before.allocated_bytes);
    assert!(after.cached_bytes >= 128);
    let large = allocate(1 << 20).unwrap();
    assert_eq!(count().blocks, before.blocks + 1);
    assert!(count().allocated_bytes >= before.allocated_bytes + (1 << 20));
    drop(large);
    assert_eq!(count().allocated_bytes, before.allocated_bytes);
}

#[test]
fn a_block_can_be_taken_apart() {
    let (ptr, bytes) = allocate(200).unwrap().into_raw();
    // SAFETY: the parts of the line above.
    let block = unsafe { Block::from_raw(ptr, bytes) };
    assert_eq!((block.as_ptr(), block.len()), (ptr.as_ptr(), 200));
}

#[test]
fn cells_are_recycled_and_cross_threads() {
    let first = take_cell::<192>().unwrap();
    // SAFETY: just taken, unused.
    unsafe { give_cell::<192>(first) };
    let again = take_cell::<192>().unwrap();
    assert_eq!(first, again);
    let address = again.as_ptr() as usize;
    std::thread::spawn(move || {
        let cell = NonNull::new(address as *mut u8).unwrap();
        // SAFETY: taken above with this size; the other thread has forgotten it.
        unsafe { give_cell::<192>(cell) };
        assert_eq!(take_cell::<192>().unwrap(), cell);
    })
    .join()
    .unwrap();
}
