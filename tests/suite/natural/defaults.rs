//! PyTorch's default arguments: the bare name has them, the name with a suffix takes what they
//! stand for.

use super::{is, near};
use straightline::{
    ConvOptions, CrossEntropyOptions, DType, Device, Generator, InterpolateOptions, PoolOptions,
    Reduction, Result, Tensor, assert_close, tensor,
};

#[test]
fn order() -> Result<()> {
    let x = tensor([[3.0, 1.0, 2.0], [5.0, 9.0, 7.0]])?;
    let (values, places) = x.sort(-1, false)?;
    is(&values, [1f32, 2.0, 3.0, 5.0, 7.0, 9.0]);
    is(&places, [1i64, 2, 0, 0, 2, 1]);
    is(&x.sort(0, true)?.1, [1i64, 1, 1, 0, 0, 0]);
    is(&x.argsort(-1, false)?, [1i64, 2, 0, 0, 2, 1]);
    is(&x.argsort(-1, true)?, [0i64, 2, 1, 1, 2, 0]);
    let (values, places) = x.topk(2)?;
    is(&values, [3f32, 2.0, 9.0, 7.0]);
    is(&places, [0i64, 2, 1, 2]);
    is(&x.topk_dim(1, 0, false)?.0, [3f32, 1.0, 2.0]);
    is(&x.kthvalue(2)?.0, [2f32, 7.0]);
    assert_eq!(x.kthvalue_keepdim(1, 0)?.0.shape(), [1, 3]);
    is(&tensor([[2, 1, 2], [0, 0, 4]])?.mode()?.0, [2i64, 0]);
    is(&tensor([[2, 1], [2, 4]])?.mode_dim(0)?.0, [2i64, 1]);
    is(&x.diff()?, [-2f32, 1.0, 4.0, -2.0]);
    is(&x.diff_dim(0)?, [2f32, 8.0, 5.0]);
    Ok(())
}

#[test]
fn reductions() -> Result<()> {
    let x = tensor([[3.0, 1.0, 2.0], [5.0, 9.0, 7.0]])?;
    is(&x.argmax(None)?, [4i64]);
    is(&x.argmin(None)?, [1i64]);
    is(&x.argmax(0)?, [1i64, 1, 1]);
    assert_eq!(x.argmin_keepdim(1)?.shape(), [2, 1]);
    is(&x.amax(1)?, [3f32, 9.0]);
    is(&x.amin(())?, [1f32]);
    assert_eq!(x.amax_keepdim([0, 1])?.shape(), [1, 1]);
    near(&x.logsumexp(-1)?, [3.407_606, 9.142_932]);
    assert_eq!(x.logsumexp_keepdim((0, 1))?.shape(), [1, 1]);
    near(&x.var_dim(1)?, [1.0, 4.0]);
    near(&x.var_with(1, 0, false)?, [2.0 / 3.0, 8.0 / 3.0]);
    near(&x.std_keepdim(-1)?, [1.0, 2.0]);
    let (std, mean) = x.std_mean()?;
    assert_close(&std, &x.std()?)?;
    assert_close(&mean, &x.mean()?)?;
    let (var, mean) = x.var_mean_with(1, 1, false)?;
    near(&var, [1.0, 4.0]);
    near(&mean, [2.0, 7.0]);
    near(&x.norm_dim(1)?, [14f32.sqrt(), 155f32.sqrt()]);
    near(&x.norm_with(1, (), false)?, [27.0]);
    is(&tensor([[0, 1, 2], [3, 0, 0]])?.count_nonzero()?, [3i64]);
    is(&tensor([[0, 1, 2], [3, 0, 0]])?.count_nonzero_dim(1)?, [2i64, 1]);
    is(&tensor([1, 3])?.bincount()?, [0i64, 1, 0, 1]);
    is(&tensor([1])?.bincount_with(3)?, [0i64, 1, 0]);
    assert!(x.allclose(&(&x + 1e-7))? && !x.allclose(&(&x + 1e-3))?);
    is(&tensor([1.0, 2.0])?.isclose(&tensor([1.0, 3.0])?)?, [true, false]);
    near(&x.dist(&x)?, [0.0]);
    near(&tensor([[1.0, 0.0]])?.cdist(&tensor([[1.0, 2.0]])?)?, [2.0]);
    near(&tensor([[1.0, 0.0]])?.cosine_similarity(&tensor([[1.0, 0.0]])?)?, [1.0]);
    Ok(())
}

#[test]
fn shapes() -> Result<()> {
    let x = Tensor::arange(24)?.reshape([2, 3, 4])?;
    assert_eq!(x.flatten()?.shape(), [24]);
    assert_eq!(x.flatten_dims(1, -1)?.shape(), [2, 12]);
    let m = tensor([[1, 2], [3, 4]])?;
    is(&m.tril()?, [1i64, 0, 3, 4]);
    is(&m.triu_with(1)?, [0i64, 2, 0, 0]);
    is(&m.copied()?.tril_()?, [1i64, 0, 3, 4]);
    is(&m.copied()?.tril_with_(-1)?, [0i64, 0, 3, 0]);
    is(&m.diagonal()?, [1i64, 4]);
    is(&m.diagonal_with(1, 0, 1)?, [2i64]);
    is(&m.diag()?, [1i64, 4]);
    is(&m.diag_with(-1)?, [3i64]);
    is(&tensor([1])?.diag_embed_with(1)?, [0i64, 1, 0, 0]);
    is(&m.diagonal_scatter(&tensor([0, 0])?)?, [0i64, 2, 3, 0]);
    is(&m.rot90()?, [2i64, 4, 1, 3]);
    is(&m.roll(1)?, [4i64, 1, 2, 3]);
    is(&m.roll_dims(1, 0)?, [3i64, 4, 1, 2]);
    is(&m.repeat_interleave(2)?, [1i64, 1, 2, 2, 3, 3, 4, 4]);
    is(&m.repeat_interleave_dim(2, 1)?, [1i64, 1, 2, 2, 3, 3, 4, 4]);
    is(&tensor([1.0])?.pad([1, 1])?, [0f32, 1.0, 0.0]);
    is(&tensor([1.0])?.pad_with([1, 0], "constant", 7.0)?, [7f32, 1.0]);
    is(&tensor([1, 2, 3])?.index_put_(&[Some(tensor([0])?)], &tensor([9])?, false)?, [9i64, 2, 3]);
    Ok(())
}

#[test]
fn layers() -> Result<()> {
    let (x, w, b) = (Tensor::ones([1, 2, 4, 4])?, Tensor::ones([4, 2, 3, 3])?, Tensor::ones(4)?);
    let plain = x.conv2d(&w, None, 1, 0)?;
    assert_eq!(plain.shape(), [1, 4, 2, 2]);
    // a bias that may be missing: a tensor, `Some` of one, and a field that is an `Option`
    let bias = Some(b.clone());
    for y in [x.conv2d(&w, &b, 1, 0)?, x.conv2d(&w, Some(&b), 1, 0)?, x.conv2d(&w, &bias, 1, 0)?] {
        assert_close(&y, &(&plain + 1.0))?;
    }
    let options = ConvOptions::default().stride(2).padding((1, 0)).dilation([1, 1]).groups(2);
    let y = x.conv2d_with(&w.narrow(1, 0, 1)?, &b, options)?;
    near(&y.i((0, 0))?, [7.0, 10.0]);
    let up = Tensor::ones([1, 1, 2, 2])?;
    let y = up.conv_transpose2d_with(&up, None, ConvOptions::default().stride(2).output_padding(1));
    assert_eq!(y?.shape(), [1, 1, 5, 5]);
    // one number for each dimension or for all, and nothing else
    assert!(x.conv2d_with(&w, None, ConvOptions::default().stride([1, 1, 1])).is_err());
    for (n, sizes) in [(1, vec![1, 2, 4]), (2, vec![1, 2, 4, 4]), (3, vec![1, 2, 4, 4, 4])] {
        let x = Tensor::arange(2 * 4i64.pow(n))?.float()?.reshape(&sizes)?;
        let (max, mean) = match n {
            1 => (x.max_pool1d(2)?, x.avg_pool1d(2)?),
            2 => (x.max_pool2d(2)?, x.avg_pool2d(2)?),
            _ => (x.max_pool3d(2)?, x.avg_pool3d(2)?),
        };
        assert_eq!(max.size(-1)?, 2);
        // a window of consecutive corners: its mean is midway to its maximum
        let first: f32 = [1.0, 5.0, 21.0][n as usize - 1];
        assert_eq!(max.flatten()?.i(0)?.item::<f32>()?, first);
        assert_eq!(mean.flatten()?.i(0)?.item::<f32>()?, first / 2.0);
    }
    let y =
        x.max_pool2d_with((3, 3), PoolOptions::default().stride(1).padding(1).ceil_mode(true))?;
    assert_eq!(y.shape(), [1, 2, 4, 4]);
    let refused = x.max_pool2d_with(2, PoolOptions::default().count_include_pad(false));
    assert!(refused.expect_err("maxima").to_string().contains("count_include_pad"));
    let refused = x.avg_pool2d_with(2, PoolOptions::default().dilation(2));
    assert!(refused.expect_err("means").to_string().contains("dilation"));
    near(&x.adaptive_avg_pool2d(1)?, [1.0, 1.0]);
    assert_eq!(x.adaptive_max_pool2d((2, 1))?.0.shape(), [1, 2, 2, 1]);
    let x = Tensor::ones([1, 1, 2, 2])?.cumsum(3)?;
    near(&x.interpolate((1, 4))?, [1.0, 1.0, 2.0, 2.0]);
    near(&x.i(0)?.interpolate(1)?, [1.0, 1.0]);
    let how = InterpolateOptions::default();
    let y = x.interpolate_with(how.clone().scale(2).mode("bilinear"))?;
    near(&y.i((0, 0, 0))?, [1.0, 1.25, 1.75, 2.0]);
    let y = x.interpolate_with(how.clone().size((1, 3)).mode("bilinear").align_corners(true))?;
    near(&y, [1.0, 1.5, 2.0]);
    near(&x.interpolate_with(how.clone().scale(0.5).mode("area"))?, [1.5]);
    for refused in [
        how.clone(),
        how.clone().scale(2).size(2),
        how.clone().size([1, 2, 3]),
        how.clone().scale(2).mode("linear"),
        how.clone().scale(2).align_corners(false),
        how.scale(2).mode("closest"),
    ] {
        let said = x.interpolate_with(refused).expect_err("what it does not have");
        assert!(said.to_string().contains("interpolate()"), "{said}");
    }
    let x = tensor([[1.0, 3.0], [2.0, 6.0]])?;
    let (w, b) = (tensor([2.0, 2.0])?, tensor([1.0, 0.0])?);
    assert_close(&x.layer_norm_with(2, &w, &b, 1e-5)?, &(x.layer_norm(2)? * &w + &b))?;
    assert_close(&x.rms_norm_with([2], &w, 0.0)?, &(x.rms_norm([2])? * &w))?;
    assert_close(&x.group_norm_with(1, &w, &b, 1e-5)?, &(x.group_norm(1)? * &w + &b))?;
    assert_close(&x.batch_norm_with(&b, &w, None, &b, 1e-5)?, &(x.batch_norm(&b, &w)? + &b))?;
    assert_close(&x.linear(&x, &b)?, &(x.linear(&x, None)? + &b))?;
    let looks = x.scaled_dot_product_attention_with(&x, &x, None, true)?;
    near(&looks.i(0)?, [1.0, 3.0]);
    assert_close(&x.dropout_with(0.5, false)?, &x)?;
    near(&tensor([-1.0, 1.0])?.leaky_relu()?, [-0.01, 1.0]);
    near(&tensor([-1.0, 1.0])?.leaky_relu_with(0.5)?, [-0.5, 1.0]);
    near(&tensor([-1.0])?.elu()?, [-0.632_120_6]);
    near(&tensor([-3.0, 0.5])?.hardtanh()?, [-1.0, 0.5]);
    near(&tensor([0.25, 2.0])?.softshrink()?, [0.0, 1.5]);
    near(&tensor([0.5])?.logit()?, [0.0]);
    near(&tensor([f64::NAN, 1.0])?.nan_to_num()?, [0.0, 1.0]);
    Ok(())
}

#[test]
fn losses() -> Result<()> {
    let (x, y) = (tensor([1.0, 2.0])?, tensor([1.0, 5.0])?);
    near(&x.mse_loss(&y)?, [4.5]);
    near(&x.mse_loss_with(&y, Reduction::None)?, [0.0, 9.0]);
    near(&x.l1_loss_with(&y, Reduction::Sum)?, [3.0]);
    near(&x.smooth_l1_loss(&y)?, [1.25]);
    near(&x.smooth_l1_loss_with(&y, Reduction::Sum, 2.0)?, [2.0]);
    near(&x.huber_loss_with(&y, Reduction::Sum, 2.0)?, [4.0]);
    let (logits, target) = (tensor([[2.0, 0.0], [0.0, 0.0]])?, tensor([0, 1])?);
    let each = [0.126_928, 0.693_147_2];
    near(&logits.cross_entropy(&target)?, [(each[0] + each[1]) / 2.0]);
    let none = CrossEntropyOptions::default().reduction(Reduction::None);
    near(&logits.cross_entropy_with(&target, none.clone().ignore_index(1))?, [each[0], 0.0]);
    near(
        &logits.cross_entropy_with(&target, none.clone().weight(&tensor([2.0, 1.0])?))?,
        [2.0 * each[0], each[1]],
    );
    // half of the target on each of two classes: the mean of the negative log-probabilities
    near(&logits.cross_entropy_with(&target, none.label_smoothing(1.0))?, [1.126_928, 0.693_147_2]);
    let logs = logits.log_softmax(1)?;
    assert_close(&logs.nll_loss(&target)?, &logits.cross_entropy(&target)?)?;
    near(&logs.nll_loss_with(&target, None, 0, Reduction::Sum)?, [each[1]]);
    let p = tensor([0.5, 0.5])?;
    near(&p.binary_cross_entropy_with(&y.clamp(0, 1)?, None, Reduction::Sum)?, [1.386_294_4]);
    near(&p.log()?.kl_div_with(&p.log()?, Reduction::Sum, true)?, [0.0]);
    Ok(())
}

#[test]
fn conversions() -> Result<()> {
    let x = tensor([0.0, 1.5, -2.5])?;
    is(&x.to(DType::I32)?, [0i32, 1, -2]);
    is(&x.long()?, [0i64, 1, -2]);
    is(&x.bool()?, [false, true, true]);
    is(&x.double()?, [0f64, 1.5, -2.5]);
    for (y, dtype) in [
        (x.float()?, DType::F32),
        (x.half()?, DType::F16),
        (x.bfloat16()?, DType::BF16),
        (x.int()?, DType::I32),
        (x.short()?, DType::I16),
        (x.char()?, DType::I8),
        (x.abs()?.byte()?, DType::U8),
        (x.to(&tensor([1])?)?, DType::I64),
        (x.to((DType::F64, Device::CPU))?, DType::F64),
    ] {
        assert_eq!(y.dtype(), dtype);
    }
    // the tensor itself where nothing changes
    assert!(x.to(DType::F32)?.shares_storage_with(&x) && x.float()?.shares_storage_with(&x));
    assert!(x.to(&Device::META)?.device().is_meta());
    assert!(x.to(Generator::new(1)).expect_err("draws nothing").to_string().contains("generator"));
    Ok(())
}

#[test]
fn a_second_tensor_is_borrowed_or_handed_over() -> Result<()> {
    let (x, w) = (tensor([[1.0, 2.0]])?, std::sync::Arc::new(tensor([[3.0, 4.0]])?));
    near(&x.matmul(w.t()?)?, [11.0]);
    near(&x.linear(&w, None)?, [11.0]);
    near(&x.mse_loss(&&*w)?, [4.0]);
    near(&x.cosine_similarity(x.mul(2)?)?, [1.0]);
    // dimensions and counts are what the program has them as, numbers of any width
    for i in 0..2usize {
        is(&x.select(1, i)?, [i as f32 + 1.0]);
        assert_eq!(x.topk(i)?.0.size(1u8)?, i as i64);
    }
    assert!(x.uniform_(-1, 1f32)?.abs()?.max()?.item::<f32>()? <= 1.0);
    Ok(())
}

#[test]
fn one_tuple_of_references_is_compiled_as_its_parts_are() -> Result<()> {
    let (a, b) = (tensor([1.0, 2.0])?, tensor([3.0, 4.0])?);
    let f = straightline::compile(|(a, b): (&Tensor, &Tensor)| a.mul(2)?.add(b));
    is(&f.call((&a, &b))?, [5f32, 8.0]);
    is(&f.call(&(b, a))?, [7f32, 10.0]);
    Ok(())
}
