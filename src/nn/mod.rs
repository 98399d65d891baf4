//! Networks: modules with parameters, layers, losses and initial values.
//!
//! A network is a struct that derives [`Module`]; its layers are fields, and what it computes is a
//! method. Layers begin with PyTorch's numbers: after [`manual_seed(s)`](crate::manual_seed) the
//! same layers made in the same order have the weights that they have in PyTorch after
//! `torch.manual_seed(s)`.
//!
//! ```
//! use straightline::nn::{Layer, Linear, Module};
//! use straightline::optim::{Optimizer, Sgd};
//! use straightline::{Result, Tensor, manual_seed, tensor};
//!
//! #[derive(Module)]
//! struct Net {
//!     hidden: Linear,
//!     head: Linear,
//! }
//!
//! impl Net {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.head.forward(&self.hidden.forward(x)?.tanh()?)
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     manual_seed(0);
//!     let net = Net { hidden: Linear::new(2, 8)?, head: Linear::new(8, 1)? };
//!     let optimizer = Sgd::new(net.parameters(), 0.2)?;
//!     let x = tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])?;
//!     let y = tensor([[0.0], [1.0], [1.0], [0.0]])?;
//!     for _ in 0..500 {
//!         let loss = net.forward(&x)?.mse_loss(&y)?;
//!         optimizer.zero_grad()?;
//!         loss.backward()?;
//!         optimizer.step()?;
//!     }
//!     assert!(net.forward(&x)?.mse_loss(&y)?.item::<f32>()? < 0.01);
//!     Ok(())
//! }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `parameter` | the leaves: what is trained, and what is kept |
//! | `module` | the tree: names, state dicts, modes |
//! | `mismatch` | what is wrong with a state dict |
//! | `containers` | lists, maps, layers one after another |
//! | `init` | initial values |
//! | `linear`, `embedding_bag`, `conv`, `norm`, `instance_norm`, `activation`, `arrange` | the layers |
//! | `attention`, `transformer`, `decoder`, `recurrent`, `cells` | layers of sequences |
//! | `hooks` | functions that see what goes through a layer |
//! | `loss` | losses as values |

mod activation;
mod arrange;
mod attention;
mod cells;
mod containers;
mod conv;
mod decoder;
mod embedding_bag;
mod functional;
mod hooks;
pub mod init;
mod instance_norm;
mod linear;
mod loss;
mod mismatch;
mod mode;
mod module;
mod norm;
mod parameter;
mod recurrent;
mod transformer;

pub use activation::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AlphaDropout, AvgPool1d, AvgPool2d, AvgPool3d, Celu, ChannelDropout,
    Dropout, Elu, FeatureAlphaDropout, Flatten, Gelu, GeluTanh, Glu, Hardshrink, Hardsigmoid,
    Hardswish, Hardtanh, Identity, LeakyRelu, LogSigmoid, LogSoftmax, MaxPool1d, MaxPool2d,
    MaxPool3d, Mish, Prelu, Relu, Relu6, Selu, Sigmoid, Silu, Softmax, Softmin, Softplus,
    Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use arrange::{
    ChannelShuffle, CircularPad, ConstantPad, Fold, PixelShuffle, PixelUnshuffle, ReflectionPad,
    ReplicationPad, Unflatten, Unfold, Upsample, WindowOptions, ZeroPad,
};
pub use attention::{
    AttentionMask, MultiheadAttention, TransformerEncoderLayer, TransformerOptions,
};
pub use cells::{GruCell, LstmCell, RnnCell, RnnNonlinearity};
pub use containers::{Lambda, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use decoder::{DecoderMask, Transformer, TransformerDecoder, TransformerDecoderLayer};
pub use embedding_bag::{BagMode, EmbeddingBag, EmbeddingBagOptions};
pub use functional::{
    FunctionalOptions, functional_call, functional_call_with, stack_module_state,
};
pub use hooks::Hooked;
pub use instance_norm::{
    InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, InstanceNormOptions,
    LocalResponseNorm,
};
pub use linear::{Bilinear, Embedding, Linear};
pub use loss::{
    BceLoss, BceWithLogitsLoss, CrossEntropyLoss, HingeEmbeddingLoss, HuberLoss, KlDivLoss, L1Loss,
    Loss, MseLoss, MultiMarginLoss, MultilabelMarginLoss, MultilabelSoftMarginLoss, NllLoss,
    PoissonNllLoss, SmoothL1Loss, SoftMarginLoss, cosine_embedding_loss, ctc_loss,
    gaussian_nll_loss, margin_ranking_loss, triplet_margin_loss,
};
pub use mismatch::{ShapeMismatch, StateDictMismatch};
pub use mode::{Mode, TrainingFlag};
pub use module::{Layer, Leaf, LeafMut, Module, StateDict, Visitor, VisitorMut};
pub use norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions, GroupNorm, LayerNorm, RmsNorm,
};
pub use parameter::{Buffer, Parameter};
pub use recurrent::{Gru, Lstm, Rnn, RnnOptions};
pub use straightline_derive::Module;
pub use transformer::TransformerEncoder;
