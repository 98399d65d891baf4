//! The front page: eager, compiled, threads, updates in place, recompilation.

use straightline::{Result, Tensor, TensorTree, compile};

// Inputs can be tensors, tuples, vectors, or structs of your own.
#[derive(TensorTree)]
struct Example {
    features: Tensor,
    mask: Tensor,
}

fn main() -> Result<()> {
    // A function of tensors. It closes over a weight, as a model does.
    let weight = Tensor::from_slice(&[0.5f32, -1.0, 2.0, 0.25, 1.5, -0.5], &[2, 3])?;
    let shared = weight.clone(); // a handle on the same memory
    let layer = move |x: &Example| {
        let hidden = x.features.linear(&shared, None)?.gelu()?;
        (&hidden * &x.mask)?.softmax(-1)
    };

    // Eager: every operator runs as it is called.
    let input = Example {
        features: Tensor::from_slice(&[1f32, -2.0, 3.0, 0.5, 0.0, -1.0], &[2, 3])?,
        mask: Tensor::from_vec([1f32, 0.5])?,
    };
    let eager = layer(&input)?;
    println!("{eager}");

    // Compiled: the first call captures what is dispatched and makes machine code of it. Later
    // calls with inputs of these shapes run that code and enter no dispatcher, from any thread.
    let fast = compile(layer);
    let compiled = fast.call(&input)?;
    assert_close(&compiled, &eager)?;
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| fast.call(&input));
        }
    });
    assert_eq!(fast.variants(), 1);

    // What is closed over is read again at every call: updates of weights in place are seen.
    weight.mul_(2.0)?;
    let updated = fast.call(&input)?;
    assert!(distance(&updated, &compiled)? > 0.01);

    // Other shapes are another variant, and the function can say why it compiled again.
    let longer = Example {
        features: Tensor::from_slice(&[1f32; 15], &[5, 3])?,
        mask: input.mask.clone(),
    };
    fast.call(&longer)?;
    println!("{}", fast.explain());
    assert_eq!(fast.variants(), 2);
    Ok(())
}

fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    Ok((a - b)?.abs()?.max()?.item::<f64>()?)
}

fn assert_close(a: &Tensor, b: &Tensor) -> Result<()> {
    assert!(distance(a, b)? < 1e-6);
    Ok(())
}
