//! The front page: eager, compiled, threads, updates in place, recompilation.

use straightline::{Result, Tensor, TensorTree, assert_close, compile, tensor};

// Inputs can be tensors, tuples, vectors, or structs of your own.
#[derive(TensorTree)]
struct Example {
    features: Tensor,
    mask: Tensor,
}

fn main() -> Result<()> {
    // A function of tensors. It closes over a weight, as a model does.
    let weight = tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]])?;
    let shared = weight.clone(); // a handle on the same memory
    let layer = move |x: &Example| {
        let hidden = x.features.linear(&shared, None)?.gelu()?;
        (hidden * &x.mask + 0.5).softmax(-1)
    };

    // Eager: every operator runs as it is called.
    let input = Example {
        features: tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])?,
        mask: tensor([1.0, 0.5])?,
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
    assert!(assert_close(&updated, &compiled).is_err());

    // Other shapes are another variant, and the function can say why it compiled again.
    let longer = Example { features: Tensor::ones([5, 3])?, mask: input.mask.clone() };
    fast.call(&longer)?;
    println!("{}", fast.explain());
    assert_eq!(fast.variants(), 2);

    // A function of several arguments is called with references to them.
    let scaled = compile(|x: &Tensor, y: &Tensor| Ok(2.0 * x - y));
    let rows = input.features.i((.., 0..2))?;
    println!("{}", scaled.call((&rows, &weight.i((.., 1..))?))?);
    Ok(())
}
