use straightline_ptx_interpreter::{Fault, FaultKind, MemoryError, RaceKind};

use crate::device::{Args, Device, Dim, ORDERS, args, x};

const FAULTS: &str = include_str!("../kernels/faults.ptx");

struct Case {
    kernel: &'static str,
    block: Dim,
    shared: u32,
}

/// Runs a kernel with its parameter at a harmless value, which has to work, and at a faulty one.
#[track_caller]
fn provoke(
    case: &Case,
    harmless: &dyn Fn(&mut Device) -> Args,
    faulty: &dyn Fn(&mut Device) -> Args,
) -> Fault {
    let mut fault = None;
    for order in ORDERS {
        let mut device = Device::new(FAULTS);
        device.options.warp_order = order;
        let good = harmless(&mut device);
        if let Err(fault) = device.attempt(case.kernel, x(1), case.block, case.shared, &good) {
            panic!("without the mistake: {fault}");
        }
        let bad = faulty(&mut device);
        let found = device.attempt(case.kernel, x(1), case.block, case.shared, &bad).unwrap_err();
        assert!(found.line > 0 && !found.instruction.is_empty());
        fault = Some(found);
    }
    fault.unwrap()
}

fn of(kernel: &'static str, threads: u32) -> Case {
    Case { kernel, block: x(threads), shared: 0 }
}

/// The parameters `out` and a number.
fn out_and(number: u32) -> impl Fn(&mut Device) -> Args {
    move |device| args().with(device.allocate::<u32>(256)).with(number)
}

#[test]
fn a_store_past_the_end() {
    let params = |by: u32| {
        move |device: &mut Device| args().with(device.allocate::<f32>(64)).with(64u32).with(by)
    };
    let fault = provoke(&of("past_the_end", 64), &params(0), &params(3));
    let FaultKind::Memory(MemoryError::OutOfBounds {
        address,
        bytes: 4,
        nearest: Some((base, 256)),
    }) = fault.kind
    else {
        panic!("{fault}")
    };
    assert_eq!(address - base, 256 + 4 * u64::from(fault.thread[0] - 61));
    let said = fault.to_string();
    assert!(said.starts_with("kernel past_the_end, block (0, 0, 0), thread ("), "{said}");
    assert!(said.contains("past the allocation of 256 bytes"), "{said}");
    assert!(fault.instruction.starts_with("st.global.f32 ["), "{said}");
}

#[test]
fn a_load_before_the_start_and_after_free() {
    let params = |by: u32| {
        move |device: &mut Device| {
            let (out, from) = (device.allocate::<f32>(32), device.allocate::<f32>(32));
            args().with(out).with(from).with(by)
        }
    };
    let fault = provoke(&of("read_past", 32), &params(0), &params(-1i32 as u32));
    assert_eq!(fault.thread, [0, 0, 0]);
    assert!(
        fault.to_string().contains("it begins 4 bytes before the allocation of 128 bytes"),
        "{fault}"
    );
    let freed = |device: &mut Device| {
        let (out, from) = (device.allocate::<f32>(32), device.allocate::<f32>(32));
        device.memory.free(from).unwrap();
        args().with(out).with(from).with(0u32)
    };
    let fault = provoke(&of("read_past", 32), &params(0), &freed);
    assert!(matches!(fault.kind, FaultKind::Memory(MemoryError::UseAfterFree { .. })), "{fault}");
    let null = |device: &mut Device| args().with(device.allocate::<f32>(32)).with(0u64).with(0u32);
    let fault = provoke(&of("read_past", 32), &params(0), &null);
    assert!(fault.to_string().contains("a null pointer"), "{fault}");
}

#[test]
fn a_vector_that_is_not_aligned() {
    let params = |by: u32| {
        move |device: &mut Device| {
            let (out, from) = (device.allocate::<f32>(128), device.allocate::<f32>(132));
            args().with(out).with(from).with(by)
        }
    };
    let fault = provoke(&of("misaligned", 32), &params(0), &params(4));
    let FaultKind::Misaligned { address, bytes: 16 } = fault.kind else { panic!("{fault}") };
    assert_eq!(address % 16, 4);
}

#[test]
fn past_shared_memory() {
    let case = Case { kernel: "shared_overrun", block: x(64), shared: 256 };
    let fault = provoke(&case, &out_and(0), &out_and(1));
    assert_eq!(fault.kind, FaultKind::SharedOutOfBounds { offset: 256, bytes: 4, size: 256 });
    assert_eq!(fault.thread, [63, 0, 0]);
}

#[test]
fn a_read_without_a_barrier() {
    for order in ORDERS {
        let mut device = Device::new(FAULTS);
        device.options.warp_order = order;
        let run = |device: &mut Device, number| {
            let args = out_and(number)(device);
            device.attempt("neighbours", x(1), x(128), 0, &args)
        };
        run(&mut device, 1).unwrap();
        let fault = run(&mut device, 0).unwrap_err();
        let FaultKind::SharedRace { other_thread, other_line, .. } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((other_thread[0] + 64) % 128, fault.thread[0]);
        assert!(other_line > 0 && other_line != fault.line);
        // without the check, nothing is found
        device.options.check_races = false;
        run(&mut device, 0).unwrap();
    }
}

#[test]
fn a_write_over_what_others_read() {
    let fault = provoke(&of("reused", 64), &out_and(1), &out_and(0));
    assert!(
        matches!(
            fault.kind,
            FaultKind::SharedRace { race: RaceKind::WriteAfterRead | RaceKind::ReadAfterWrite, .. }
        ),
        "{fault}"
    );
}

#[test]
fn threads_that_write_different_values() {
    let fault = provoke(&of("one_writes", 64), &out_and(0), &out_and(1));
    let FaultKind::SharedRace { race: RaceKind::WriteAfterWrite, offset: 0, .. } = fault.kind
    else {
        panic!("{fault}")
    };
    assert!(
        fault.to_string().contains("a write of another value over what was written by thread ("),
        "{fault}"
    );
}

#[test]
fn lanes_that_rely_on_lockstep() {
    let fault = provoke(&of("within_a_warp", 32), &out_and(1), &out_and(0));
    assert!(
        matches!(fault.kind, FaultKind::SharedRace { race: RaceKind::ReadAfterWrite, .. }),
        "{fault}"
    );
}

#[test]
fn a_barrier_that_some_threads_miss() {
    // within a warp, and whole warps
    for limit in [40, 32] {
        let fault = provoke(&of("divergent_barrier", 64), &out_and(64), &out_and(limit));
        let FaultKind::DivergentBarrier { other_thread, other_line: 0 } = fault.kind else {
            panic!("{fault}")
        };
        assert!(other_thread[0] >= limit && fault.thread[0] < limit);
        assert!(fault.to_string().contains("has exited"), "{fault}");
    }
}

#[test]
fn threads_of_a_warp_at_two_barriers() {
    let fault = provoke(&of("two_barriers", 64), &out_and(64), &out_and(10));
    let FaultKind::DivergentBarrier { other_line, .. } = fault.kind else { panic!("{fault}") };
    assert!(other_line > 0 && other_line != fault.line);
}

#[test]
fn a_shuffle_that_not_all_reach() {
    let fault = provoke(&of("divergent_shuffle", 32), &out_and(32), &out_and(20));
    assert_eq!(fault.kind, FaultKind::DivergentShuffle { mask: u32::MAX, active: 0xf_ffff });
    // a warp with fewer threads than the mask names
    let fault = provoke(&of("divergent_shuffle", 40), &out_and(0), &out_and(40));
    assert_eq!(fault.kind, FaultKind::DivergentShuffle { mask: u32::MAX, active: 0xff });
}

#[test]
fn a_value_from_an_inactive_lane() {
    let fault = provoke(&of("inactive_lane", 32), &out_and(3), &out_and(16));
    assert_eq!(fault.kind, FaultKind::InactiveLane { lane: 16, active: 0xffff });
}

#[test]
fn a_loop_without_end() {
    let flag = |value: u32| {
        move |device: &mut Device| {
            device.options.max_instructions = 1_000_000;
            args().with(device.upload(&[value]))
        }
    };
    let fault = provoke(&of("endless", 32), &flag(1), &flag(0));
    assert_eq!(fault.kind, FaultKind::TooManyInstructions { most: 1_000_000 });
}

#[test]
fn a_copy_that_is_not_waited_for() {
    let params = |wait: u32| {
        move |device: &mut Device| {
            let from = device.upload(&(0..128).collect::<Vec<u32>>());
            args().with(device.allocate::<u32>(32)).with(from).with(wait)
        }
    };
    let fault = provoke(&of("async_copy", 32), &params(1), &params(0));
    let FaultKind::PendingCopy { copy_line, .. } = fault.kind else { panic!("{fault}") };
    assert!(copy_line > 0 && copy_line < fault.line);
    // without the check the copy has still not arrived
    let mut device = Device::new(FAULTS);
    device.options.check_races = false;
    let from = device.upload(&(0..128).collect::<Vec<u32>>());
    let out = device.allocate::<u32>(32);
    device.run("async_copy", x(1), x(32), &args().with(out).with(from).with(0u32));
    assert_eq!(device.download::<u32>(out, 32), [0xa5a5_a5a5; 32]);
}

#[test]
fn past_local_memory() {
    let fault = provoke(&of("local_overrun", 32), &out_and(0), &out_and(1));
    assert!(matches!(fault.kind, FaultKind::LocalOutOfBounds { bytes: 4, .. }), "{fault}");
}

#[test]
fn traps_and_deep_recursion() {
    let fault = provoke(&of("stopped", 32), &out_and(0), &out_and(1));
    assert_eq!((fault.kind, fault.thread), (FaultKind::Trap, [3, 0, 0]));
    let fault = provoke(&of("deep", 1), &out_and(10), &out_and(100_000));
    assert_eq!(fault.kind, FaultKind::StackOverflow);
}

#[test]
fn an_instruction_that_is_not_known() {
    let fault = provoke(&of("exotic", 32), &out_and(0), &out_and(1));
    let instruction = "wgmma.fence.sync.aligned".to_owned();
    assert_eq!(fault.kind, FaultKind::Unsupported { instruction });
}

#[test]
fn an_assertion() {
    let fault = provoke(&of("asserted", 32), &out_and(32), &out_and(5));
    let said = "assertion `thread < most` failed in asserted, faults.cu:77";
    assert_eq!((fault.kind.to_string().as_str(), fault.thread), (said, [5, 0, 0]));
}

#[test]
fn a_write_that_a_reader_may_see() {
    provoke(&of("overwritten", 64), &out_and(1), &out_and(0));
    let mut device = Device::new(FAULTS);
    let args = out_and(0)(&mut device);
    let fault = device.attempt("overwritten", x(1), x(64), 0, &args).unwrap_err();
    let FaultKind::SharedRace { race: RaceKind::WriteAfterRead, other_thread, .. } = fault.kind
    else {
        panic!("{fault}")
    };
    assert_eq!(fault.thread[0], other_thread[0] + 32);
}

#[test]
fn a_barrier_after_some_threads_are_gone() {
    let fault = provoke(&of("early_exit", 64), &out_and(64), &out_and(50));
    let other_thread = [50, 0, 0];
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { other_thread, other_line: 0 });
    let fault = provoke(&of("guarded_barrier", 64), &out_and(64), &out_and(50));
    let FaultKind::DivergentBarrier { other_line, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!(other_line, fault.line);
    // the last of the instructions on its line
    assert!(fault.instruction.ends_with("bar.sync 0"), "{fault}");
}

#[test]
fn shared_memory_that_nothing_wrote() {
    let mut device = Device::new(FAULTS);
    for (written, reads) in [(64, 0), (40, 2 * 2 * 24), (64, 0)] {
        let args = out_and(written)(&mut device);
        // of two blocks: what the first one wrote is gone
        let statistics = device.run("half_written", x(2), x(64), &args);
        assert_eq!(statistics.uninitialized_reads, reads);
    }
}
