//! ResNet-18 for images (He and others, 2015) in evaluation mode, with torchvision's names of
//! weights.

use super::Source;
use super::nn::{BatchNorm, Conv, Linear};
use straightline::ops::aten;
use straightline::{Result, Tensor};

/// Two 3x3 convolutions with a skip connection.
struct Block {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    /// What the way around needs where the sizes change.
    downsample: Option<(Conv, BatchNorm)>,
}

impl Block {
    fn load(source: Source<'_>, name: &str, inputs: i64, outputs: i64) -> Result<Block> {
        let part = |part: &str| format!("{name}.{part}");
        let stride = if inputs == outputs { 1 } else { 2 };
        let downsample = if inputs == outputs {
            None
        } else {
            Some((
                Conv::load(source, &part("downsample.0"), (inputs, outputs), 1, stride)?,
                BatchNorm::load(source, &part("downsample.1"), outputs)?,
            ))
        };
        Ok(Block {
            conv1: Conv::load(source, &part("conv1"), (inputs, outputs), 3, stride)?,
            bn1: BatchNorm::load(source, &part("bn1"), outputs)?,
            conv2: Conv::load(source, &part("conv2"), (outputs, outputs), 3, 1)?,
            bn2: BatchNorm::load(source, &part("bn2"), outputs)?,
            downsample,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.bn1.forward(&self.conv1.forward(x)?)?.relu()?;
        let y = self.bn2.forward(&self.conv2.forward(&y)?)?;
        let around = match &self.downsample {
            Some((conv, bn)) => bn.forward(&conv.forward(x)?)?,
            None => x.clone(),
        };
        (y + around).relu()
    }
}

/// The network.
pub struct ResNet18 {
    conv1: Conv,
    bn1: BatchNorm,
    blocks: Vec<Block>,
    fc: Linear,
}

impl ResNet18 {
    /// Reads weights as torchvision's `resnet18` names them.
    pub fn load(source: Source<'_>) -> Result<ResNet18> {
        let mut blocks = Vec::new();
        let mut inputs = 64;
        for (layer, outputs) in [(1, 64), (2, 128), (3, 256), (4, 512)] {
            for block in 0..2 {
                let name = format!("layer{layer}.{block}");
                blocks.push(Block::load(source, &name, inputs, outputs)?);
                inputs = outputs;
            }
        }
        Ok(ResNet18 {
            conv1: Conv::load(source, "conv1", (3, 64), 7, 2)?,
            bn1: BatchNorm::load(source, "bn1", 64)?,
            blocks,
            fc: Linear::load(source, "fc", 1000, 512)?,
        })
    }

    /// Scores of the 1000 classes for images `[n, 3, height, width]`.
    pub fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let x = self.bn1.forward(&self.conv1.forward(images)?)?.relu()?;
        let mut x = aten::max_pool2d(&x, &[3, 3], &[2, 2], &[1, 1], &[1, 1], false)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let x = aten::adaptive_avg_pool2d(&x, &[1, 1])?;
        self.fc.forward(&x.flatten_dims(1, -1)?)
    }
}
