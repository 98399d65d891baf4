//! Checkpoints: what goes on from one goes on bit for bit, and a process may be killed while it
//! writes one.

use crate::support::alone;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use straightline::data::{Checkpoint, Checkpoints, DataLoader, LoaderOptions, TensorDataset};
use straightline::nn::{BatchNorm1d, Dropout, Layer, Linear, Module, Sequential, Tanh};
use straightline::optim::{Adam, CosineAnnealingLr, LrScheduler, Optimizer};
use straightline::{Generator, Result, Tensor, manual_seed};

/// Everything that a small training consists of.
struct Training {
    net: Sequential,
    optimizer: Adam,
    scheduler: LrScheduler<CosineAnnealingLr>,
    loader: DataLoader<TensorDataset<(Tensor, Tensor)>>,
}

impl Training {
    fn new(seed: u64) -> Result<Training> {
        manual_seed(7);
        let data = (Tensor::randn([40, 6])?, Tensor::randn([40, 1])?);
        manual_seed(seed);
        let net = Sequential::new()
            .add(Linear::new(6, 16)?)
            .add(BatchNorm1d::new(16)?)
            .add(Tanh)
            .add(Dropout::new(0.3)?)
            .add(Linear::new(16, 1)?);
        let optimizer = Adam::new(net.parameters(), 0.01)?;
        let scheduler = LrScheduler::new(CosineAnnealingLr { period: 15, min: 0.0 }, &optimizer)?;
        let options = LoaderOptions::default().batch_size(8).shuffle(1).workers(2);
        let loader = DataLoader::new(TensorDataset::new(data)?, options)?;
        Ok(Training { net, optimizer, scheduler, loader })
    }

    /// The losses of steps `from..to`, of five steps an epoch.
    fn run(&mut self, from: u64, to: u64) -> Result<Vec<f32>> {
        let mut losses = Vec::new();
        let mut step = from;
        while step < to {
            for batch in self.loader.epoch_from(step / 5, (step % 5) as usize)? {
                let (x, y) = batch?;
                self.optimizer.zero_grad()?;
                let loss = self.net.forward(&x)?.mse_loss(&y)?;
                loss.backward()?;
                self.optimizer.step()?;
                self.scheduler.step(&self.optimizer)?;
                losses.push(loss.item::<f32>()?);
                step += 1;
                if step == to {
                    break;
                }
            }
        }
        Ok(losses)
    }
}

#[test]
fn a_training_goes_on_bit_for_bit() {
    let name = "training::checkpoints::a_training_goes_on_bit_for_bit";
    alone(name, || goes_on_bit_for_bit().unwrap());
}

fn goes_on_bit_for_bit() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut whole = Training::new(0)?;
    let mut losses = whole.run(0, 7)?;
    Checkpoint::new(7)
        .with_module("model", &whole.net)?
        .with_optimizer("optimizer", &whole.optimizer)?
        .with_scheduler("schedule", &whole.scheduler)?
        .with_generator("random", Generator::default_cpu())?
        .save(&path)?;
    losses.extend(whole.run(7, 15)?);

    let mut second = Training::new(99)?;
    let saved = Checkpoint::load(&path)?;
    saved.restore_module("model", &second.net)?;
    saved.restore_optimizer("optimizer", &second.optimizer)?;
    saved.restore_scheduler("schedule", &second.scheduler)?;
    saved.restore_generator("random", Generator::default_cpu())?;
    assert_eq!(second.run(saved.step(), 15)?, losses[7..]);
    let weights = |net: &Sequential| -> Result<Vec<Vec<f64>>> {
        let tensors = net.state_dict()?.into_values();
        tensors.map(|t| t.to_dtype(straightline::DType::F64)?.to_vec()).collect()
    };
    assert_eq!(weights(&whole.net)?, weights(&second.net)?);
    Ok(())
}

/// Tells the child which folder to write to.
const FOLDER: &str = "STRAIGHTLINE_TEST_CHECKPOINTS";

/// Writes checkpoints, each full of its step, until it is killed.
fn write_for_ever(folder: &Path) -> Result<()> {
    let checkpoints = Checkpoints::new(folder, 3)?;
    let begin = checkpoints.latest()?.map_or(1, |c| c.step() + 1);
    for step in begin.. {
        let full = Tensor::full([100_000], step as f64)?;
        let state = [("a".to_owned(), full.clone()), ("b".to_owned(), full)].into();
        checkpoints.save(&Checkpoint::new(step).with("state", &state)?)?;
    }
    Ok(())
}

#[test]
fn a_writer_may_be_killed_at_any_moment() {
    let name = "training::checkpoints::a_writer_may_be_killed_at_any_moment";
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_for_ever(Path::new(&folder)).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..8u64 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // until it has written, then a moment that is another one each time
        let begun = Instant::now();
        let newest = || {
            let files = std::fs::read_dir(folder.path()).unwrap();
            let names = files.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.filter(|n| n.starts_with("step-")).max().unwrap_or_default()
        };
        let before = newest();
        while newest() == before && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 1700));
        writer.kill().unwrap();
        writer.wait().unwrap();

        let found = Checkpoints::new(folder.path(), 3).unwrap().steps().unwrap();
        assert!(!found.is_empty() && found.len() <= 4, "{found:?}");
        let latest = Checkpoints::new(folder.path(), 3).unwrap().latest().unwrap().unwrap();
        assert!(latest.step() > last, "{} after {last}", latest.step());
        last = latest.step();
        for t in latest.get("state").unwrap().into_values() {
            assert!(t.to_vec::<f32>().unwrap().iter().all(|v| *v == last as f32));
        }
        let left = std::fs::read_dir(folder.path()).unwrap();
        let left = left.map(|e| e.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = left.filter(|n| n.starts_with('.')).collect();
        assert!(left.is_empty(), "what was unfinished is removed: {left:?}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 3).unwrap();
    for step in [1, 2] {
        checkpoints.save(&Checkpoint::new(step)).unwrap();
    }
    let newest =
        std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).max().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(checkpoints.latest().unwrap().unwrap().step(), 1);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(entry.unwrap().path(), b"").unwrap();
    }
    checkpoints.latest().unwrap_err();
}
