use super::{AllocationError, Block, CachingAllocator, Source, StreamId};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// A device of some memory, whose streams' work ends when it is told to, or waited for.
struct Device {
    left: Cell<u64>,
    segments: RefCell<BTreeMap<u64, u64>>,
    next: Cell<u64>,
    clock: Cell<u64>,
    ended: Cell<u64>,
}

impl Device {
    fn new(bytes: u64) -> Device {
        Device {
            left: Cell::new(bytes),
            segments: RefCell::default(),
            next: Cell::new(0x1000_0000),
            clock: Cell::new(0),
            ended: Cell::new(u64::MAX),
        }
    }
}

impl Source for Device {
    type Event = u64;
    type Error = String;

    fn allocate(&self, bytes: u64) -> Result<Option<u64>, String> {
        if bytes > self.left.get() {
            return Ok(None);
        }
        self.left.set(self.left.get() - bytes);
        let address = self.next.replace(self.next.get() + bytes + 512);
        self.segments.borrow_mut().insert(address, bytes);
        Ok(Some(address))
    }

    fn free(&self, address: u64) {
        let bytes = self.segments.borrow_mut().remove(&address).expect("a segment");
        self.left.set(self.left.get() + bytes);
    }

    fn record(&self, _: StreamId) -> Result<u64, String> {
        self.clock.set(self.clock.get() + 1);
        Ok(self.clock.get())
    }

    fn is_done(&self, event: &u64) -> bool {
        *event <= self.ended.get()
    }

    fn wait(&self, event: &u64) {
        self.ended.set(self.ended.get().max(*event));
    }
}

const ONE: StreamId = StreamId(1);
const TWO: StreamId = StreamId(2);

#[test]
fn a_block_serves_its_stream_again_and_no_other() {
    let a = CachingAllocator::new(Device::new(64 * MIB));
    let block = a.allocate(1000, ONE).unwrap();
    let address = block.address();
    a.free(block);
    let other = a.allocate(1000, TWO).unwrap();
    assert_ne!(other.address(), address);
    let same = a.allocate(1000, ONE).unwrap();
    assert_eq!(same.address(), address);
    assert_eq!(a.statistics().segment.now, 2);
    a.free(other);
    a.free(same);
}

#[test]
fn blocks_are_split_and_joined() {
    let a = CachingAllocator::new(Device::new(64 * MIB));
    let blocks: Vec<Block> = (0..4).map(|_| a.allocate(512, ONE).unwrap()).collect();
    assert!(blocks.windows(2).all(|w| w[1].address() == w[0].address() + 512));
    assert_eq!(a.snapshot()[0].blocks.len(), 5);
    let mut blocks = blocks;
    // in an order in which each kind of neighbour is joined
    for at in [1, 2, 0, 0] {
        let block = blocks.remove(at.min(blocks.len() - 1));
        a.free(block);
    }
    let snapshot = a.snapshot();
    assert_eq!((snapshot.len(), snapshot[0].blocks.len(), snapshot[0].bytes), (1, 1, 2 * MIB));
    a.empty_cache();
    assert_eq!(a.source().segments.borrow().len(), 0);
    assert_eq!(a.statistics().reserved.now, 0);
}

#[test]
fn what_another_stream_uses_waits_for_it() {
    let a = CachingAllocator::new(Device::new(64 * MIB));
    a.source().ended.set(0);
    let block = a.allocate(1000, ONE).unwrap();
    let address = block.address();
    a.record_stream(&block, TWO);
    a.free(block);
    assert_eq!(a.statistics().allocated.now, 0);
    assert_eq!(a.statistics().active.now, 1024);
    let other = a.allocate(1000, ONE).unwrap();
    assert_ne!(other.address(), address);
    // the work ends
    a.source().ended.set(1);
    let again = a.allocate(1000, ONE).unwrap();
    assert_eq!(again.address(), address);
    a.free(other);
    a.free(again);
}

#[test]
fn before_it_fails_the_cache_is_given_back_and_work_is_waited_for() {
    let a = CachingAllocator::new(Device::new(40 * MIB));
    a.source().ended.set(0);
    let cached = a.allocate(15 * MIB, ONE).unwrap();
    a.free(cached);
    // too large for what is cached, and for what is left beside it
    let large = a.allocate(30 * MIB, ONE).unwrap();
    assert_eq!(a.statistics().retries, 1);
    a.record_stream(&large, TWO);
    a.free(large);
    let after_work = a.allocate(38 * MIB, ONE).unwrap();
    let e = a.allocate(3 * MIB, ONE).unwrap_err();
    let AllocationError::OutOfMemory { requested, allocated, held, .. } = &e else {
        panic!("{e}");
    };
    assert_eq!((*requested, *allocated), (3 * MIB, 38 * MIB));
    assert_eq!(held.0, [(38 * MIB, 1)]);
    assert!(e.to_string().contains("1 of 39845888 bytes"), "{e}");
    a.free(after_work);
    let next = a.allocate(3 * MIB, ONE).unwrap();
    a.free(next);
}

#[test]
fn sizes_beyond_all_memory_are_refused() {
    let a = CachingAllocator::new(Device::new(MIB));
    for bytes in [u64::MAX, u64::MAX - 600, 1 << 60] {
        let e = a.allocate(bytes, ONE).unwrap_err();
        assert!(matches!(e, AllocationError::OutOfMemory { .. }));
    }
    assert_eq!(a.statistics().out_of_memory, 3);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64, u64),
    Free(usize),
    Record(usize, u64),
    Empty,
    Ends,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0u64..4096, 0u64..3 * MIB, 0u64..24 * MIB];
    let step = prop_oneof![
        6 => (bytes, 0u64..3).prop_map(|(b, s)| Step::Allocate(b, s)),
        5 => any::<usize>().prop_map(Step::Free),
        2 => (any::<usize>(), 0u64..3).prop_map(|(i, s)| Step::Record(i, s)),
        1 => Just(Step::Empty),
        1 => Just(Step::Ends),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// Blocks in use never overlap, segments are covered by their blocks, the figures are those of the
    /// blocks, and all memory comes back.
    #[test]
    fn memory_is_nobodys_or_one_blocks(steps in steps()) {
        let a = CachingAllocator::new(Device::new(96 * MIB));
        a.source().ended.set(0);
        let mut live: Vec<Block> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(bytes, stream) => {
                    if let Ok(block) = a.allocate(bytes, StreamId(stream)) {
                        prop_assert_eq!(block.address() % 512, 0);
                        prop_assert_eq!((block.bytes(), block.stream()), (bytes, StreamId(stream)));
                        live.push(block);
                    }
                }
                Step::Free(i) if !live.is_empty() => {
                    let i = i % live.len();
                    a.free(live.swap_remove(i));
                }
                Step::Record(i, stream) if !live.is_empty() => {
                    a.record_stream(&live[i % live.len()], StreamId(stream));
                }
                Step::Empty => a.empty_cache(),
                Step::Ends => a.source().ended.set(a.source().clock.get()),
                _ => {}
            }
            let mut in_use: Vec<(u64, u64)> = live.iter().map(|b| (b.address(), b.bytes())).collect();
            in_use.sort_unstable();
            prop_assert!(in_use.windows(2).all(|w| w[0].0 + w[0].1.max(1) <= w[1].0));
            let (mut used, mut reserved, mut blocks) = (0, 0, 0);
            for segment in a.snapshot() {
                let taken = a.source().segments.borrow().get(&segment.address).copied();
                prop_assert_eq!(taken, Some(segment.bytes));
                let mut at = segment.address;
                for block in &segment.blocks {
                    prop_assert_eq!(block.address, at);
                    at += block.bytes;
                    if block.requested.is_some() {
                        used += block.bytes;
                        blocks += 1;
                    }
                }
                reserved += segment.bytes;
            }
            let s = a.statistics();
            prop_assert_eq!((s.allocated.now, s.reserved.now, s.allocation.now), (used, reserved, blocks));
            prop_assert_eq!(live.len() as u64, blocks);
        }
        live.into_iter().for_each(|b| a.free(b));
        a.source().ended.set(u64::MAX);
        a.empty_cache();
        prop_assert_eq!(a.source().segments.borrow().len(), 0);
    }
}
