//! Where the current thread's stack lies.

use std::ops::Range;

/// The addresses of the current thread's stack, which grows downwards; `None` where the system does
/// not say. A system call or two: to be asked once for each thread.
pub fn bounds() -> Option<Range<usize>> {
    system::bounds().filter(|stack| !stack.is_empty())
}

/// About where the stack ends now.
#[inline(always)]
pub fn here() -> usize {
    let mark = std::mem::MaybeUninit::<u8>::uninit();
    (&raw const mark).addr()
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::mem::MaybeUninit;
    use std::ops::Range;
    use std::ptr;

    pub(super) fn bounds() -> Option<Range<usize>> {
        let mut attributes = MaybeUninit::uninit();
        let (mut lowest, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the attributes are of this thread, written by the first call where it succeeds,
        // read by the second and given back by the third; the pointers are to locals.
        unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let got =
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            if got != 0 {
                return None;
            }
        }
        Some(lowest.addr()..lowest.addr().checked_add(size)?)
    }
}

#[cfg(all(target_vendor = "apple", not(miri)))]
mod system {
    use std::ops::Range;

    pub(super) fn bounds() -> Option<Range<usize>> {
        // SAFETY: the two calls only read what the system knows of this thread.
        let (highest, size) = unsafe {
            let me = libc::pthread_self();
            (libc::pthread_get_stackaddr_np(me).addr(), libc::pthread_get_stacksize_np(me))
        };
        Some(highest.checked_sub(size)?..highest)
    }
}

#[cfg(any(miri, not(any(target_os = "linux", target_vendor = "apple"))))]
mod system {
    use std::ops::Range;

    pub(super) fn bounds() -> Option<Range<usize>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_lies_in_the_stack() {
        let check = || {
            let Some(stack) = bounds() else { return };
            assert!(stack.contains(&here()), "{stack:?} {}", here());
        };
        check();
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let size = || bounds().map_or(0, |stack| stack.len());
        let (size, _) = small.spawn(move || (size(), check())).unwrap().join().unwrap();
        assert!(size < 1 << 20, "{size}");
    }
}
