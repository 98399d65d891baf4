//! The sizes of a convolution.

/// A convolution from `input` to `output`, sizes as depth, height, width.
///
/// The transposed convolution is described by the convolution that it is the gradient of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the concepts
pub struct Geometry {
    pub batch: usize,
    pub groups: usize,
    /// Of all groups together.
    pub in_channels: usize,
    /// Of all groups together.
    pub out_channels: usize,
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Geometry {
    /// From the sizes of the input `[n, c, ...]`, the weight and the output, and the stride, padding
    /// and dilation of one to three spatial dimensions. Those that it lacks are in front.
    ///
    /// ```
    /// use straightline_runtime::cpu::kernels::conv::Geometry;
    /// let sizes: [&[i64]; 3] = [&[1, 3, 8, 8], &[4, 3, 3, 3], &[1, 4, 6, 6]];
    /// let g = Geometry::of(sizes, [&[1, 1], &[0, 0], &[1, 1]], 1);
    /// assert_eq!((g.in_channels, g.out_channels, g.input), (3, 4, [1, 8, 8]));
    /// ```
    pub fn of(
        [input, weight, output]: [&[i64]; 3],
        [stride, padding, dilation]: [&[i64]; 3],
        groups: i64,
    ) -> Geometry {
        let spatial = |numbers: &[i64], fill: usize| -> [usize; 3] {
            let mut all = [fill; 3];
            for (slot, n) in all[3 - numbers.len()..].iter_mut().zip(numbers) {
                *slot = *n as usize;
            }
            all
        };
        Geometry {
            batch: input[0] as usize,
            groups: groups as usize,
            in_channels: input[1] as usize,
            out_channels: output[1] as usize,
            input: spatial(&input[2..], 1),
            kernel: spatial(&weight[2..], 1),
            output: spatial(&output[2..], 1),
            stride: spatial(stride, 1),
            padding: spatial(padding, 0),
            dilation: spatial(dilation, 1),
        }
    }

    /// Elements of the input.
    pub(super) fn inputs(&self) -> usize {
        self.batch * self.in_channels * self.input_plane()
    }

    /// Elements of the output.
    pub(super) fn outputs(&self) -> usize {
        self.batch * self.out_channels * self.output_plane()
    }

    /// Elements of the weight.
    pub(super) fn weights(&self) -> usize {
        self.out_channels * self.group_inputs() * self.taps()
    }

    /// Elements of one input channel.
    pub(super) fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one output channel.
    pub(super) fn output_plane(&self) -> usize {
        self.output.iter().product()
    }

    /// Positions under the kernel.
    pub(super) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Input channels of a group.
    pub(super) fn group_inputs(&self) -> usize {
        self.in_channels / self.groups.max(1)
    }

    /// Output channels of a group.
    pub(super) fn group_outputs(&self) -> usize {
        self.out_channels / self.groups.max(1)
    }

    /// Whether each output element sees exactly the input element at its own position.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3]
            && self.stride == [1; 3]
            && self.padding == [0; 3]
            && self.input == self.output
    }

    /// Whether each input channel is a group of its own.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.group_inputs() == 1
    }

    /// The output positions `begin..end` along a dimension at which tap `k` lies inside of the
    /// input.
    #[inline]
    pub(super) fn inside(&self, dim: usize, k: usize) -> (usize, usize) {
        let (stride, padding) = (self.stride[dim], self.padding[dim]);
        let offset = k * self.dilation[dim];
        // position x sees input element x * stride + offset - padding
        let begin = padding.saturating_sub(offset).div_ceil(stride);
        let end = (self.input[dim] + padding).saturating_sub(offset).div_ceil(stride);
        let end = end.min(self.output[dim]);
        (begin.min(end), end)
    }
}
