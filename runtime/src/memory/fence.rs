//! A pair of fences, of which the one on the hot side costs nothing.
//!
//! Two threads that each store to a word of their own and then read the other's need a full fence
//! between the two steps, or both can miss each other. Where one side is hot and the other rare,
//! the rare one can pay for both: [`heavy_fence`] asks the system to run a full fence on every
//! thread of the process (`membarrier`), so [`light_fence`] has only to stop the compiler. A light
//! fence and a heavy one order like two sequentially consistent fences.

use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether [`light_fence`] is free here. Decided once.
#[inline]
pub fn asymmetric_fences() -> bool {
    system::available()
}

/// The cheap half of the pair. Orders against [`heavy_fence`] only if [`asymmetric_fences`] returns
/// true; callers must check that first.
#[inline(always)]
pub fn light_fence() {
    if cfg!(miri) {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// The expensive half: a full fence here, and on every other thread of the process at some point of
/// the call.
#[cold]
pub fn heavy_fence() {
    fence(Ordering::SeqCst);
    system::fence_all();
    fence(Ordering::SeqCst);
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::sync::OnceLock;

    const PRIVATE_EXPEDITED: libc::c_int = 8;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes no pointers and changes no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE
            .get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED))
    }

    pub(super) fn fence_all() {
        if available() {
            let done = membarrier(PRIVATE_EXPEDITED);
            // the kernel refuses only processes that have not registered; this one has
            assert!(done, "membarrier worked before and fails now");
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    /// Miri's light fence is a full one, so the pair works there.
    pub(super) fn available() -> bool {
        cfg!(miri)
    }

    pub(super) fn fence_all() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// The store-buffer test: without the fences both sides read 0 now and then.
    #[test]
    fn one_of_two_sides_sees_the_other() {
        if !asymmetric_fences() {
            return;
        }
        let rounds = if cfg!(miri) { 10 } else { 500 };
        let words: Vec<[AtomicU32; 2]> = (0..rounds).map(|_| Default::default()).collect();
        let turn = AtomicU32::new(0);
        let wait = |i: usize| {
            while turn.load(Relaxed) < i as u32 {
                std::thread::yield_now();
            }
        };
        let (light, heavy) = std::thread::scope(|scope| {
            let light = scope.spawn(|| {
                let mut seen = Vec::new();
                for (i, [a, b]) in words.iter().enumerate() {
                    wait(i);
                    a.store(1, Relaxed);
                    light_fence();
                    seen.push(b.load(Relaxed));
                }
                seen
            });
            let mut seen = Vec::new();
            for (i, [a, b]) in words.iter().enumerate() {
                turn.store(i as u32, Relaxed);
                b.store(1, Relaxed);
                heavy_fence();
                seen.push(a.load(Relaxed));
            }
            (light.join().unwrap(), seen)
        });
        assert!(light.iter().zip(&heavy).all(|(l, h)| l + h > 0));
    }
}
