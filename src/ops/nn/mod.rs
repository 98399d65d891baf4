//! Neural networks: normalisation, convolution, losses, attention, recurrence.

pub(crate) mod attention;
pub(crate) mod attention_math;
pub(crate) mod channels;
pub(crate) mod class_loss;
pub(crate) mod conv;
pub(crate) mod ctc;
pub(crate) mod loss;
pub(crate) mod margin_loss;
pub(crate) mod norm;
pub(crate) mod recurrent;
pub(crate) mod softmax;
pub(crate) mod transformer;
