"""The names of the suite, in order. cli/src/workloads/mod.rs says what each is."""

PRODUCTS = ["1x256x256", "1x1024x4096", "8x256x256", "64x1024x1024", "256x256x256", "1024x1024x1024"]
NAMES = (
    ["w1.add", "w1.add_grad", "w1.transpose", "w1.empty", "w2.chain100_16", "w2.chain100_1024"]
    + [f"w3.pointwise_{n}" for n in (1024, 16384, 262144, 4194304)]
    + ["w3.bias_gelu_512x768", "w4.softmax_1024x1024", "w4.softmax_4096x64", "w4.layernorm_512x768"]
    + ["w4.sum0_4096", "w4.sum1_4096", "w4.logsoftmax_nll_256x1000", "w4.rmsnorm_512x768"]
    + ["w5.mlp_1x64", "w5.mlp_8x256", "w5.mlp_64x1024", "w6.minigpt_b1", "w6.minigpt_b8"]
    + ["w7.block_eager", "w7.block_sdpa", "w8.sdpa_128", "w8.sdpa_128_causal", "w8.sdpa_1024", "w8.sdpa_1024_causal"]
    + ["w9.conv3x3", "w9.conv_bn_relu", "w9.resnet18"]
    + [f"w10.mm_{size}" for size in PRODUCTS]
    + ["w10.mm_256x256x256_bf16", "w10.mm_1024x1024x1024_bf16"]
    + ["w11.train_mlp_8x256", "w11.train_mlp_64x1024", "w11.train_minigpt_b8"]
    + [f"w12.minilm_b{b}_l{l}" for b in (1, 8) for l in (8, 32, 128)]
)
