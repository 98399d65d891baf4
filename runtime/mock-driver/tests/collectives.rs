//! NCCL within one process, through cudarc: groups in one thread, and a thread for each rank.

mod support;

use cudarc::driver::sys::CUgraphInstantiate_flags;
use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use cudarc::nccl::{Comm, Id, ReduceOp, group_end, group_start};
use std::sync::Arc;
use support::{THREAD_LOCAL, begin, code, context, count};

const RANKS: usize = 3;

/// The legacy streams are named by null, for whichever context is current.
fn legacy_streams() -> Vec<Arc<CudaStream>> {
    (0..RANKS).map(|ordinal| context(ordinal).default_stream()).collect()
}

fn streams() -> Vec<Arc<CudaStream>> {
    (0..RANKS).map(|ordinal| context(ordinal).new_stream().unwrap()).collect()
}

#[test]
fn a_group_of_one_thread() -> Result<(), DriverError> {
    for (order, legacy) in [("lazy", true), ("lazy", false), ("eager", false), ("random:6", true)] {
        let (mock, _alone) = begin(&[("devices", "3"), ("order", order)]);
        let streams = if legacy { legacy_streams() } else { streams() };
        let ranks = Comm::from_devices(streams).expect("communicators");
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for rank in &ranks {
            let value = (rank.rank() + 1) as f32;
            sent.push(rank.stream().clone_htod(&[value, 10.0 * value])?);
            received.push(rank.stream().alloc_zeros::<f32>(2 * RANKS)?);
        }
        group_start().unwrap();
        for ((rank, sent), received) in ranks.iter().zip(&sent).zip(&mut received) {
            rank.all_gather(sent, received).unwrap();
        }
        group_end().unwrap();
        for (rank, received) in ranks.iter().zip(&received) {
            let all = rank.stream().clone_dtoh(received)?;
            assert_eq!(all, [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
        }
        for (operation, expected) in [
            (ReduceOp::Sum, [6.0, 60.0]),
            (ReduceOp::Prod, [6.0, 6000.0]),
            (ReduceOp::Max, [3.0, 30.0]),
            (ReduceOp::Avg, [2.0, 20.0]),
        ] {
            group_start().unwrap();
            for ((rank, sent), received) in ranks.iter().zip(&sent).zip(&mut received) {
                rank.all_reduce(sent, &mut received.slice_mut(..2), &operation).unwrap();
            }
            group_end().unwrap();
            for (rank, received) in ranks.iter().zip(&received) {
                assert_eq!(rank.stream().clone_dtoh(&received.slice(..2))?, expected);
            }
        }
        assert_eq!(count(&mock, "collectives"), 5);
    }
    Ok(())
}

#[test]
fn ranks_exchange_in_a_group() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[("devices", "3")]);
    let ranks = Comm::from_devices(streams()).expect("communicators");
    let mut received = Vec::new();
    let mut sent = Vec::new();
    for rank in &ranks {
        sent.push(rank.stream().clone_htod(&[rank.rank() as i32; 4])?);
        received.push(rank.stream().alloc_zeros::<i32>(4)?);
    }
    // each to the next one, all at once
    group_start().unwrap();
    for (index, rank) in ranks.iter().enumerate() {
        rank.send(&sent[index], ((index + 1) % RANKS) as i32).unwrap();
        rank.recv(&mut received[index], ((index + RANKS - 1) % RANKS) as i32).unwrap();
    }
    group_end().unwrap();
    for (index, rank) in ranks.iter().enumerate() {
        let from = (index + RANKS - 1) % RANKS;
        assert_eq!(rank.stream().clone_dtoh(&received[index])?, [from as i32; 4]);
    }
    Ok(())
}

#[test]
fn a_thread_for_each_rank() {
    let (_mock, _alone) = begin(&[("devices", "3")]);
    let streams = streams();
    let id = Id::new().unwrap();
    std::thread::scope(|scope| {
        for (rank, stream) in streams.iter().cloned().enumerate() {
            scope.spawn(move || {
                stream.context().bind_to_thread().unwrap();
                let comm = Comm::from_rank(stream.clone(), rank, RANKS, id).unwrap();
                let root = stream.clone_htod(&[rank as i64 + 5; 2]).unwrap();
                let mut data = stream.alloc_zeros::<i64>(2).unwrap();
                comm.broadcast(Some(&root), &mut data, 1).unwrap();
                assert_eq!(stream.clone_dtoh(&data).unwrap(), [6, 6]);
                let parts = stream.clone_htod(&[1_i64, 2, 3]).unwrap();
                let mut part = stream.alloc_zeros::<i64>(1).unwrap();
                comm.reduce_scatter(&parts, &mut part, &ReduceOp::Sum).unwrap();
                assert_eq!(stream.clone_dtoh(&part).unwrap(), [3 * (rank as i64 + 1)]);
            });
        }
    });
}

#[test]
fn a_collective_waits_for_what_its_ranks_have_queued() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[("devices", "3")]);
    let ranks = Comm::from_devices(streams()).expect("communicators");
    let mut data = Vec::new();
    for rank in &ranks {
        let mut buffer = rank.stream().alloc_zeros::<i32>(1)?;
        rank.stream().memcpy_htod(&[1 << rank.rank()], &mut buffer)?;
        data.push(buffer);
    }
    group_start().unwrap();
    for (rank, data) in ranks.iter().zip(&mut data) {
        rank.all_reduce_in_place(data, &ReduceOp::Sum).unwrap();
    }
    group_end().unwrap();
    // only one rank is waited for: the others' copies had to run
    assert_eq!(ranks[0].stream().clone_dtoh(&data[0])?, [7]);
    Ok(())
}

#[test]
fn a_group_is_captured() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[("devices", "3")]);
    let ranks = Comm::from_devices(streams()).expect("communicators");
    let mut data = Vec::new();
    for rank in &ranks {
        data.push(rank.stream().clone_htod(&[rank.rank() as i32 + 1])?);
        rank.stream().synchronize()?;
    }
    let first = ranks[0].stream();
    let reduce = |data: &mut Vec<CudaSlice<i32>>| {
        group_start().unwrap();
        for (rank, data) in ranks.iter().zip(data) {
            rank.all_reduce_in_place(data, &ReduceOp::Sum).unwrap();
        }
        group_end()
    };
    first.begin_capture(THREAD_LOCAL)?;
    // not yet: two of the streams are of no capture
    assert!(reduce(&mut data).is_err());
    for rank in &ranks[1..] {
        rank.stream().wait(&first.record_event(None)?)?;
    }
    reduce(&mut data).unwrap();
    for rank in &ranks[1..] {
        rank.context().bind_to_thread()?;
        first.wait(&rank.stream().record_event(None)?)?;
    }
    let graph = first.end_capture(CUgraphInstantiate_flags(0))?.expect("a graph");
    assert_eq!(count(&mock, "collectives"), 0);
    graph.launch()?;
    graph.launch()?;
    first.synchronize()?;
    for (rank, data) in ranks.iter().zip(&data) {
        assert_eq!(rank.stream().clone_dtoh(data)?, [18]);
    }
    assert_eq!(count(&mock, "collectives"), 2);
    Ok(())
}

#[test]
fn ranks_that_do_not_agree() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[("devices", "3"), ("patience", "1")]);
    let ranks = Comm::from_devices(streams()).expect("communicators");
    let mut first = ranks[0].stream().alloc_zeros::<f32>(4)?;
    let mut second = ranks[1].stream().alloc_zeros::<f32>(4)?;
    ranks[0].all_reduce_in_place(&mut first, &ReduceOp::Sum).unwrap();
    assert!(ranks[1].all_reduce_in_place(&mut second, &ReduceOp::Max).is_err());
    assert!(mock.last_fault().contains("rank 1 calls"), "{}", mock.last_fault());
    // the others never come
    let waited = code(ranks[0].stream().synchronize());
    assert_eq!(waited, Code::CUDA_ERROR_LAUNCH_TIMEOUT);
    assert!(mock.last_fault().contains("waits for rank"), "{}", mock.last_fault());
    Ok(())
}
