//! The lock-free protocols against the memory model: every interleaving, every value that a weak
//! load may return.
//!
//! The files under test are the crate's own, included with loom's atomics in place of std's
//! (`src/sync.rs` is the seam).

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }

    /// Looking again is another way of coming later.
    pub(crate) const SPINS: usize = 0;

    macro_rules! global {
        (static $name:ident: $of:ty = $value:expr;) => {
            loom::lazy_static! { static ref $name: $of = $value; }
        };
    }

    macro_rules! per_thread {
        ($(static $name:ident: $of:ty = $value:expr;)*) => {
            $(loom::thread_local! { static $name: $of = $value; })*
        };
    }

    pub(crate) use {global, per_thread};

    /// A light fence and a heavy one order like two sequentially consistent ones, and that is how
    /// they are modelled.
    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy_fence() {
        fence(Ordering::SeqCst);
    }
}

#[allow(dead_code)]
#[path = "../src/tensor/borrow.rs"]
mod borrow;
#[allow(dead_code)]
#[path = "../src/tensor/held.rs"]
mod held;
#[allow(dead_code)]
#[path = "../src/tensor/reserved.rs"]
mod reserved;
#[allow(dead_code)]
#[path = "../src/dispatch/slots.rs"]
mod slots;
#[allow(dead_code)]
#[path = "../src/tensor/waiting.rs"]
mod waiting;

use loom::sync::Arc;
use loom::thread;

/// Runs the model within the time a test may take: threads switch at most this often against their
/// will, or as often as `LOOM_MAX_PREEMPTIONS` says (twice takes `three_writers` half a minute).
fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(f);
}

mod storage {
    use super::borrow::{Borrow, ThreadToken};
    use super::*;
    use loom::cell::UnsafeCell;

    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;

    /// A storage of one number. loom's cell fails the model when a read and a write are not
    /// ordered.
    struct Storage {
        borrow: Borrow,
        data: UnsafeCell<u32>,
    }

    // SAFETY: the data are only touched under a guard, which is what is tested.
    unsafe impl Sync for Storage {}
    // SAFETY: as above.
    unsafe impl Send for Storage {}

    impl Storage {
        fn at_home(home: u32) -> Arc<Storage> {
            Arc::new(Storage {
                borrow: Borrow::new(ThreadToken::new(home)),
                data: UnsafeCell::new(0),
            })
        }

        fn read(&self, me: u32) -> bool {
            match self.borrow.try_read(ThreadToken::new(me)) {
                Some(_guard) => {
                    // SAFETY: the guard.
                    self.data.with(|p| unsafe { *p });
                    true
                }
                None => false,
            }
        }

        fn write(&self, me: u32) -> bool {
            match self.borrow.try_write(ThreadToken::new(me)) {
                Some(_guard) => {
                    // SAFETY: the guard.
                    self.data.with_mut(|p| unsafe { *p += 1 });
                    true
                }
                None => false,
            }
        }
    }

    #[test]
    fn home_reader_against_foreign_writer() {
        model(4, || {
            let s = Storage::at_home(A);
            let there = s.clone();
            let writer = thread::spawn(move || {
                there.write(B);
                there.write(B)
            });
            s.read(A);
            s.read(A);
            writer.join().unwrap();
            assert!(s.read(A) && s.write(A), "everybody has left");
        });
    }

    #[test]
    fn home_reader_against_two_foreign_writers() {
        model(3, || {
            let s = Storage::at_home(A);
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || b.write(B));
            let c = thread::spawn(move || c.write(C));
            s.read(A);
            b.join().unwrap();
            c.join().unwrap();
            assert!(s.write(C));
        });
    }

    #[test]
    fn home_writer_against_foreign_reader() {
        model(4, || {
            let s = Storage::at_home(A);
            let there = s.clone();
            let reader = thread::spawn(move || {
                there.read(B);
                there.read(B)
            });
            s.write(A);
            s.read(A);
            reader.join().unwrap();
            assert!(s.write(A));
        });
    }

    #[test]
    fn nested_home_readers_against_foreign_reader_and_writer() {
        model(2, || {
            let s = Storage::at_home(A);
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || b.write(B));
            let c = thread::spawn(move || c.read(C));
            if let Some(_outer) = s.borrow.try_read(ThreadToken::new(A)) {
                assert!(!s.write(A), "read at home");
                s.read(A);
            }
            b.join().unwrap();
            c.join().unwrap();
            assert!(s.write(A));
        });
    }

    /// A shape changes at home while another thread comes to read: one of them sees the other.
    #[test]
    fn a_change_against_a_stranger() {
        model(4, || {
            let s = Storage::at_home(A);
            let changed = Arc::new(loom::sync::atomic::AtomicU32::new(0));
            let (there, flag) = (s.clone(), changed.clone());
            let stranger = thread::spawn(move || {
                let guard = there.borrow.try_read(ThreadToken::new(B));
                guard.is_some() && flag.load(sync::Ordering::Relaxed) == 0
            });
            let hold = s.borrow.try_write(ThreadToken::new(A));
            changed.store(1, sync::Ordering::Relaxed);
            let alone = hold.is_some() && s.borrow.is_private_to(ThreadToken::new(A));
            drop(hold);
            let unaware = stranger.join().unwrap();
            assert!(!(alone && unaware), "a kernel read the old shape");
        });
    }

    #[test]
    fn without_a_home() {
        model(3, || {
            let s = Arc::new(Storage {
                borrow: Borrow::new(ThreadToken::HOMELESS),
                data: UnsafeCell::new(0),
            });
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || b.write(B));
            let c = thread::spawn(move || c.read(C));
            s.read(A);
            b.join().unwrap();
            c.join().unwrap();
            assert!(s.write(A));
        });
    }
}

/// Threads that wait: loom fails a model in which one is never woken.
mod queue {
    use super::borrow::{Access, Borrow, Reserved, ThreadToken};
    use super::waiting::{Held, Refusal, acquire};
    use super::*;
    use loom::cell::UnsafeCell;
    use std::time::Duration;

    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;

    struct Storage {
        borrow: Borrow,
        data: UnsafeCell<u32>,
    }

    // SAFETY: the data are only touched under a guard, which is what is tested.
    unsafe impl Sync for Storage {}
    // SAFETY: as above.
    unsafe impl Send for Storage {}

    impl Storage {
        fn at_home(home: u32) -> Arc<Storage> {
            Arc::new(Storage {
                borrow: Borrow::new(ThreadToken::new(home)),
                data: UnsafeCell::new(0),
            })
        }

        fn get(&self) -> u32 {
            // SAFETY: the caller's guard.
            self.data.with(|p| unsafe { *p })
        }

        fn add(&self) {
            // SAFETY: the caller's guard.
            self.data.with_mut(|p| unsafe { *p += 1 });
        }
    }

    /// Takes the storages as a call does: at once, or from the queue.
    fn take<'a>(wants: &[(&'a Arc<Storage>, Access)], me: u32) -> Result<Held<'a>, Refusal> {
        let me = ThreadToken::new(me);
        let wants: Vec<(&Borrow, Access)> = wants.iter().map(|(s, a)| (&s.borrow, *a)).collect();
        if let Some(held) = super::waiting::try_all(&wants, me) {
            return Ok(held);
        }
        // loom's clocks do not run
        acquire(&wants, me, Some(Duration::from_secs(1000))).map_err(|(refusal, _)| refusal)
    }

    fn write(s: &Arc<Storage>, me: u32) {
        let _held = take(&[(s, Access::Write)], me).unwrap();
        s.add();
    }

    fn read(s: &Arc<Storage>, me: u32) -> u32 {
        let _held = take(&[(s, Access::Read)], me).unwrap();
        s.get()
    }

    #[test]
    fn no_write_is_lost() {
        model(3, || {
            let s = Storage::at_home(A);
            let there = s.clone();
            let b = thread::spawn(move || {
                write(&there, B);
                write(&there, B);
            });
            write(&s, A);
            write(&s, A);
            b.join().unwrap();
            assert_eq!(read(&s, A), 4);
        });
    }

    #[test]
    fn no_write_is_lost_between_two_steps_of_a_call() {
        model(2, || {
            let s = Storage::at_home(A);
            let other = s.clone();
            let b = thread::spawn(move || write(&other, B));
            let held = take(&[(&s, Access::Write)], A).unwrap();
            let writing = held.writes.into_iter().next().unwrap();
            let whole = Reserved::new(writing).unwrap();
            let before = read(&s, A);
            write(&s, A);
            assert_eq!(read(&s, A), before + 1);
            drop(whole);
            b.join().unwrap();
            assert_eq!(read(&s, A), 2);
        });
    }

    #[test]
    fn three_writers() {
        model(1, || {
            let s = Storage::at_home(A);
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || write(&b, B));
            let c = thread::spawn(move || write(&c, C));
            write(&s, A);
            b.join().unwrap();
            c.join().unwrap();
            assert_eq!(read(&s, A), 3);
        });
    }

    /// The reader at home calls nobody: the writer looks.
    #[test]
    fn a_writer_waits_for_a_reader_at_home() {
        model(2, || {
            let s = Storage::at_home(A);
            let there = s.clone();
            let b = thread::spawn(move || write(&there, B));
            read(&s, A);
            read(&s, A);
            b.join().unwrap();
            assert_eq!(read(&s, A), 1);
        });
    }

    #[test]
    fn readers_everywhere_and_a_writer() {
        model(1, || {
            let s = Storage::at_home(A);
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || write(&b, B));
            let c = thread::spawn(move || read(&c, C));
            read(&s, A);
            b.join().unwrap();
            assert!(c.join().unwrap() <= 1);
            assert_eq!(read(&s, A), 1);
        });
    }

    /// Readers that keep meeting do not keep a writer out: who comes later stands behind.
    #[test]
    fn a_reader_stands_behind_a_writer_that_waits() {
        model(1, || {
            let s = Storage::at_home(C);
            let hold = s.borrow.try_read(ThreadToken::new(A)).unwrap();
            let (b, c) = (s.clone(), s.clone());
            let b = thread::spawn(move || write(&b, B));
            while !s.borrow.is_closed() {
                thread::yield_now();
            }
            // again on this thread: it would wait for itself
            assert_eq!(read(&s, A), 0);
            let c = thread::spawn(move || read(&c, C));
            drop(hold);
            b.join().unwrap();
            assert_eq!(c.join().unwrap(), 1);
        });
    }

    #[test]
    fn two_storages_in_opposite_order() {
        model(3, || {
            let (s, t) = (Storage::at_home(A), Storage::at_home(B));
            let (s2, t2) = (s.clone(), t.clone());
            let b = thread::spawn(move || {
                let _held = take(&[(&t2, Access::Write), (&s2, Access::Write)], B).unwrap();
                s2.add();
                t2.add();
            });
            {
                let _held = take(&[(&s, Access::Write), (&t, Access::Read)], A).unwrap();
                s.add();
                t.get();
            }
            b.join().unwrap();
            assert_eq!((read(&s, A), read(&t, A)), (2, 1));
        });
    }

    /// Who holds one storage and waits for another may close a circle, and is told.
    #[test]
    fn a_circle_is_refused() {
        model(3, || {
            let (s, t) = (Storage::at_home(A), Storage::at_home(A));
            let (s2, t2) = (s.clone(), t.clone());
            let nested = |one: &Arc<Storage>, two: &Arc<Storage>, me| {
                let _outer = take(&[(one, Access::Read)], me).unwrap();
                match take(&[(two, Access::Write)], me) {
                    Ok(_held) => two.add(),
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::Circle);
                        return 0;
                    }
                }
                1
            };
            let b = thread::spawn(move || nested(&t2, &s2, B));
            let done = nested(&s, &t, A);
            let done = done + b.join().unwrap();
            assert!(done >= 1, "one at least goes on");
            assert_eq!(read(&s, A) + read(&t, A), done);
        });
    }

    /// A reads behind a writer that waits for C, which waits for A: A goes first.
    #[test]
    fn courtesy_ends_where_it_would_last_for_ever() {
        model(1, || {
            let (s, x) = (Storage::at_home(C), Storage::at_home(A));
            let outer = take(&[(&x, Access::Write)], A).unwrap();
            let (s2, s3, x2) = (s.clone(), s.clone(), x.clone());
            let b = thread::spawn(move || write(&s2, B));
            let c = thread::spawn(move || {
                let _outer = take(&[(&s3, Access::Read)], C).unwrap();
                read(&x2, C);
            });
            thread::yield_now();
            read(&s, A);
            drop(outer);
            b.join().unwrap();
            c.join().unwrap();
            assert_eq!(read(&s, A), 1);
        });
    }

    #[test]
    fn a_thread_does_not_wait_for_itself() {
        model(2, || {
            let s = Storage::at_home(A);
            let refused = |access, me| take(&[(&s, access)], me).unwrap_err();
            let reading = take(&[(&s, Access::Read)], A).unwrap();
            assert_eq!(refused(Access::Write, A), Refusal::Own);
            drop(reading);
            // on the locked road
            let reading = take(&[(&s, Access::Read)], B).unwrap();
            assert_eq!(refused(Access::Write, B), Refusal::Own);
            drop(reading);
            let writing = take(&[(&s, Access::Write)], B).unwrap();
            assert_eq!(refused(Access::Read, B), Refusal::Own);
            assert_eq!(refused(Access::Write, B), Refusal::Own);
            drop(writing);
            write(&s, A);
        });
    }
}

mod table {
    use super::slots::{Occupant, Slots, Standing};
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Kernel(&'static str, Standing);

    impl Occupant for Kernel {
        fn standing(&self) -> Standing {
            self.1
        }
    }

    static MISSING: Kernel = Kernel("missing", Standing::Nothing);
    static SKIP: Kernel = Kernel("fallthrough", Standing::Fallthrough);
    static LOW: Kernel = Kernel("low", Standing::Kernel);
    static HIGH: Kernel = Kernel("high", Standing::Kernel);
    static NEWER: Kernel = Kernel("newer", Standing::Kernel);

    /// Two keys of one backend; bit 1 is the higher one.
    type Table = Slots<Kernel, 2, 2>;

    /// A state of the operator: who serves the two keys. The mask hides a fallthrough at the
    /// higher.
    fn publish(table: &Table, low: &'static Kernel, high: &'static Kernel, uniform: bool) {
        let mask = if high.1 == Standing::Fallthrough { 0b01 } else { 0b11 };
        // the other backend's mask decides whether the common one is enough
        let other = if uniform { mask } else { mask ^ 0b10 };
        table.publish(&[low, high], &[mask, other]);
    }

    /// What a call does that has both keys.
    fn call(table: &Table) -> &'static Kernel {
        let look = |t: &Table| {
            let keys = 0b11 & t.mask(|| 0);
            (keys, t.occupant((keys >> 1) as usize))
        };
        let (_, first) = look(table);
        if first.1 == Standing::Kernel {
            return first;
        }
        table.settle(look).1
    }

    /// Publishes states one after another while another thread calls twice.
    fn check(states: &[(&'static Kernel, &'static Kernel, bool)], legal: &[&'static Kernel]) {
        let (states, legal) = (states.to_vec(), legal.to_vec());
        loom::model(move || {
            let table = Arc::new(Table::new(&MISSING, 0b11));
            let (low, high, uniform) = states[0];
            publish(&table, low, high, uniform);
            let (there, later) = (table.clone(), states[1..].to_vec());
            let registrar = thread::spawn(move || {
                for (low, high, uniform) in &later {
                    publish(&there, low, high, *uniform);
                }
            });
            for _ in 0..2 {
                let got = call(&table);
                assert!(legal.contains(&got), "{got:?}");
            }
            registrar.join().unwrap();
            let (low, high, _) = states[states.len() - 1];
            let last = if high.1 == Standing::Fallthrough { low } else { high };
            assert_eq!(call(&table), last);
        });
    }

    #[test]
    fn a_kernel_appears_where_calls_fell_through() {
        check(&[(&LOW, &SKIP, true), (&LOW, &HIGH, true)], &[&LOW, &HIGH]);
    }

    #[test]
    fn a_kernel_becomes_a_fallthrough() {
        check(&[(&LOW, &HIGH, true), (&LOW, &SKIP, true)], &[&LOW, &HIGH]);
    }

    #[test]
    fn the_mask_comes_to_depend_on_the_backend_and_back() {
        check(&[(&LOW, &SKIP, true), (&LOW, &HIGH, false), (&LOW, &SKIP, true)], &[&LOW, &HIGH]);
    }

    #[test]
    fn calls_move_up_before_the_lower_kernel_goes() {
        check(&[(&LOW, &SKIP, true), (&LOW, &HIGH, true), (&MISSING, &HIGH, true)], &[&LOW, &HIGH]);
    }

    #[test]
    fn a_kernel_is_replaced_under_a_fallthrough() {
        check(
            &[(&LOW, &SKIP, false), (&NEWER, &SKIP, false), (&NEWER, &HIGH, false)],
            &[&LOW, &NEWER, &HIGH],
        );
    }
}
