//! Layers and optimisers.

use super::*;

fn network() -> (Arc<Sequential>, Vec<Tensor>) {
    straightline::manual_seed(11);
    let net = Sequential::new()
        .add(Linear::new(6, 16).unwrap())
        .add(LayerNorm::new([16]).unwrap())
        .add(Gelu)
        .add(Linear::new(16, 4).unwrap());
    let net = Arc::new(net);
    let parameters = net.parameters();
    (net, parameters)
}

/// The parameters after some steps, eagerly and compiled; the compiled calls make no others.
fn trained<R: Rule + Send + Sync + 'static>(options: impl Fn() -> R) {
    let run = |compiled: bool| {
        let (net, parameters) = network();
        let (mine, own) = (parameters.clone(), net.clone());
        let optimizer: Optim<R> = Optim::new(parameters.clone(), options()).unwrap();
        let step = compile(move |x: &Tensor, at: &Tensor| {
            optimizer.zero_grad()?;
            let loss = own.forward(x)?.cross_entropy(at)?;
            loss.backward()?;
            clip_grad_norm_(&mine, 0.5)?;
            optimizer.step()?;
            Ok(loss)
        });
        let mut losses = Vec::new();
        for i in 0..6 {
            let x = random(&[8, 6], 50 + i);
            let at = Tensor::from_slice(
                &(0..8).map(|k| (k + i64::from(i)) % 4).collect::<Vec<_>>(),
                &[8],
            );
            let given = (x, at.unwrap());
            let before = call_count();
            let loss = if compiled { step.call(&given) } else { step.eager(&given) };
            if compiled && i > 0 {
                assert_eq!(call_count(), before);
            }
            losses.push(loss.unwrap().detach().unwrap());
        }
        all_compiled(&step);
        (losses, parameters)
    };
    let ((losses, parameters), (other_losses, others)) = (run(false), run(true));
    for (a, b) in losses.iter().zip(&other_losses).chain(parameters.iter().zip(&others)) {
        close(b, a);
    }
}

#[test]
fn a_step_of_every_optimiser() {
    trained(|| SgdOptions::default().lr(0.1).momentum(0.9).weight_decay(0.01));
    trained(|| SgdOptions::default().lr(0.1).momentum(0.9).nesterov(true));
    trained(|| AdamOptions::default().lr(0.01));
    trained(|| AdamWOptions::default().lr(0.01).amsgrad(true));
    trained(|| RmsPropOptions::default().lr(0.01));
    trained(|| AdagradOptions::default().lr(0.01));
}

#[test]
fn a_compiled_network_is_trained_by_an_eager_loop() {
    let run = |compiled: bool| {
        let (net, parameters) = network();
        let own = net.clone();
        let f = compile(move |x: &Tensor, at: &Tensor| own.forward(x)?.cross_entropy(at));
        let optimizer = AdamW::new(parameters.clone(), AdamWOptions::default().lr(0.01)).unwrap();
        for i in 0..5 {
            let x = random(&[8, 6], 50 + i);
            let at = Tensor::from_slice(
                &(0..8).map(|k| (k + i64::from(i)) % 4).collect::<Vec<_>>(),
                &[8],
            );
            let given = (x, at.unwrap());
            optimizer.zero_grad().unwrap();
            let loss = if compiled { f.call(&given) } else { f.eager(&given) };
            loss.unwrap().backward().unwrap();
            optimizer.step().unwrap();
        }
        all_compiled(&f);
        parameters
    };
    for (a, b) in run(false).iter().zip(run(true)) {
        close(&b, a);
    }
}
