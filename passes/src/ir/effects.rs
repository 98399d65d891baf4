//! What a call does besides giving results.

/// Whether equal calls of an operator give equal results. Operators outside `aten` and `prims`
/// count as impure, since nothing is known of them.
pub fn is_pure(op: &str) -> bool {
    let Some(name) = op.strip_prefix("aten::") else {
        return op.starts_with("prims::");
    };
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    let random = base.starts_with("rand")
        || base.starts_with("bernoulli")
        || base.contains("dropout")
        || base.starts_with("_fused_dropout")
        || base.contains("rrelu")
        || base.starts_with("fractional_max_pool");
    let distribution = matches!(
        base,
        "normal"
            | "normal_functional"
            | "uniform"
            | "exponential"
            | "geometric"
            | "cauchy"
            | "log_normal"
            | "multinomial"
            | "poisson"
            | "binomial"
            | "_standard_gamma"
            | "_sample_dirichlet"
            | "random"
            | "_scaled_dot_product_flash_attention"
            | "_scaled_dot_product_efficient_attention"
    );
    !(random || distribution)
}

/// Whether a call draws from a random generator. Such calls keep their order and are made even where nobody uses what they give, so that
/// the generator moves as it does in eager execution.
pub fn draws(op: &str) -> bool {
    op.starts_with("aten::") && !is_pure(op) && !op.contains("backward")
}
