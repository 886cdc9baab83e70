"""Flags of llama-server b11549 that CommonParams can express: model, context, processors."""

from adapters.embedded.compound import (
    DENSE,
    EXPERTS,
    adapters,
    cache_type,
    context,
    first_layers,
    fractions,
    margins,
    mask,
    overrides,
    scaled_adapters,
    span,
)
from adapters.embedded.kind import Flag, inverse, processors, switch, toggle, value
from adapters.embedded.value import (
    choice,
    inverse_real,
    layers,
    mebibytes,
    members,
    on_off,
    plain,
    real,
    three_way,
    unsigned,
    whole,
    within,
)

LOAD_MODES: dict[str, object] = {
    **members("LLAMA_LOAD_MODE", "auto none mmap mlock"),
    "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
    "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
}
NUMA: dict[str, object] = {
    **members("GGML_NUMA_STRATEGY", "distribute isolate numactl"),
    "": "GGML_NUMA_STRATEGY_DISTRIBUTE",
}
flash = three_way(
    "--flash-attn",
    "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "LLAMA_FLASH_ATTN_TYPE_DISABLED",
    "LLAMA_FLASH_ATTN_TYPE_AUTO",
)
split_mode = choice(members("LLAMA_SPLIT_MODE", "none layer row tensor"))
rope_scaling = choice(members("LLAMA_ROPE_SCALING_TYPE", "none linear yarn"))
pooling = choice(members("LLAMA_POOLING_TYPE", "none mean cls last rank"))


TABLE: tuple[Flag, ...] = (
    value("-m --model", "FNAME", "model.path", plain, "LLAMA_ARG_MODEL"),
    value("-c --ctx-size", "N", "", context, "LLAMA_ARG_CTX_SIZE"),
    value("-t --threads", "N", "cpuparams.n_threads", whole, "LLAMA_ARG_THREADS"),
    value("-tb --threads-batch", "N", "cpuparams_batch.n_threads", whole),
    processors("-C --cpu-mask", "M", "cpuparams", mask),
    processors("-Cr --cpu-range", "lo-hi", "cpuparams", span),
    value("--cpu-strict", "<0|1>", "cpuparams.strict_cpu", unsigned),
    value("--prio", "N", "cpuparams.priority", within(-1, 3)),
    value("--poll", "<0...100>", "cpuparams.poll", unsigned),
    processors("-Cb --cpu-mask-batch", "M", "cpuparams_batch", mask),
    processors("-Crb --cpu-range-batch", "lo-hi", "cpuparams_batch", span),
    value("--cpu-strict-batch", "<0|1>", "cpuparams_batch.strict_cpu", whole),
    value("--prio-batch", "N", "cpuparams_batch.priority", within(0, 3)),
    value("--poll-batch", "<0|1>", "cpuparams_batch.poll", whole),
    value(
        "--kv-unified-per-slot", "N", "kv_unified_per_slot", whole, "LLAMA_ARG_KV_UNIFIED_PER_SLOT"
    ),
    value("-n --predict --n-predict", "N", "n_predict", whole, "LLAMA_ARG_N_PREDICT"),
    value("-b --batch-size", "N", "n_batch", whole, "LLAMA_ARG_BATCH"),
    value("-ub --ubatch-size", "N", "n_ubatch", whole, "LLAMA_ARG_UBATCH"),
    value("--keep", "N", "n_keep", whole),
    switch("--swa-full", "swa_full", "LLAMA_ARG_SWA_FULL"),
    value(
        "-ctxcp --ctx-checkpoints --swa-checkpoints",
        "N",
        "n_ctx_checkpoints",
        whole,
        "LLAMA_ARG_CTX_CHECKPOINTS",
    ),
    value(
        "-cms --checkpoint-min-step",
        "N",
        "checkpoint_min_step",
        within(0, message="checkpoint-min-step must be non-negative"),
        "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT",
    ),
    value("-cram --cache-ram", "N", "cache_ram_mib", whole, "LLAMA_ARG_CACHE_RAM"),
    toggle("-kvu --kv-unified", "-no-kvu --no-kv-unified", "kv_unified", "LLAMA_ARG_KV_UNIFIED"),
    toggle(
        "--cache-idle-slots",
        "--no-cache-idle-slots",
        "cache_idle_slots",
        "LLAMA_ARG_CACHE_IDLE_SLOTS",
    ),
    toggle("--context-shift", "--no-context-shift", "ctx_shift", "LLAMA_ARG_CONTEXT_SHIFT"),
    value("-fa --flash-attn", "[on|off|auto]", "flash_attn_type", flash, "LLAMA_ARG_FLASH_ATTN"),
    inverse("--perf", "--no-perf", "no_perf sampling.no_perf", "LLAMA_ARG_PERF"),
    toggle("--warmup", "--no-warmup", "warmup"),
    value("--pooling", "{none,mean,cls,last,rank}", "pooling_type", pooling, "LLAMA_ARG_POOLING"),
    value(
        "--rope-scaling",
        "{none,linear,yarn}",
        "rope_scaling_type",
        rope_scaling,
        "LLAMA_ARG_ROPE_SCALING_TYPE",
    ),
    value("--rope-scale", "N", "rope_freq_scale", inverse_real, "LLAMA_ARG_ROPE_SCALE"),
    value("--rope-freq-base", "N", "rope_freq_base", real, "LLAMA_ARG_ROPE_FREQ_BASE"),
    value("--rope-freq-scale", "N", "rope_freq_scale", real, "LLAMA_ARG_ROPE_FREQ_SCALE"),
    value("--yarn-orig-ctx", "N", "yarn_orig_ctx", whole, "LLAMA_ARG_YARN_ORIG_CTX"),
    value("--yarn-ext-factor", "N", "yarn_ext_factor", real, "LLAMA_ARG_YARN_EXT_FACTOR"),
    value("--yarn-attn-factor", "N", "yarn_attn_factor", real, "LLAMA_ARG_YARN_ATTN_FACTOR"),
    value("--yarn-beta-slow", "N", "yarn_beta_slow", real, "LLAMA_ARG_YARN_BETA_SLOW"),
    value("--yarn-beta-fast", "N", "yarn_beta_fast", real, "LLAMA_ARG_YARN_BETA_FAST"),
    inverse("-kvo --kv-offload", "-nkvo --no-kv-offload", "no_kv_offload", "LLAMA_ARG_KV_OFFLOAD"),
    inverse("--repack", "-nr --no-repack", "no_extra_bufts", "LLAMA_ARG_REPACK"),
    switch("--no-host", "no_host", "LLAMA_ARG_NO_HOST"),
    value("-ctk --cache-type-k", "TYPE", "cache_type_k", cache_type, "LLAMA_ARG_CACHE_TYPE_K"),
    value("-ctv --cache-type-v", "TYPE", "cache_type_v", cache_type, "LLAMA_ARG_CACHE_TYPE_V"),
    value("-lm --load-mode", "MODE", "load_mode", choice(LOAD_MODES), "LLAMA_ARG_LOAD_MODE"),
    value(
        "-lzm --lazy-mode",
        "MODE",
        "lazy_mode",
        choice(members("LLAMA_LAZY_MODE", "on auto off")),
        "LLAMA_ARG_LAZY_MODE",
    ),
    value("--numa", "TYPE", "numa", choice(NUMA), "LLAMA_ARG_NUMA"),
    value(
        "-ot --override-tensor",
        "<tensor name pattern>=<buffer type>,...",
        "tensor_buft_overrides",
        overrides,
        "LLAMA_ARG_OVERRIDE_TENSOR",
    ),
    switch("-cmoe --cpu-moe", "tensor_buft_overrides", "LLAMA_ARG_CPU_MOE", [f"{EXPERTS}=CPU"]),
    value(
        "-ncmoe --n-cpu-moe",
        "N",
        "tensor_buft_overrides",
        first_layers(EXPERTS),
        "LLAMA_ARG_N_CPU_MOE",
    ),
    value("--moe-cache-mib", "N", "moe_cache_size", mebibytes, "LLAMA_ARG_MOE_CACHE_MIB"),
    value(
        "-ncffn --n-cpu-ffn",
        "N",
        "tensor_buft_overrides",
        first_layers(DENSE),
        "LLAMA_ARG_N_CPU_FFN",
    ),
    value(
        "-ngl --gpu-layers --n-gpu-layers", "N", "n_gpu_layers", layers, "LLAMA_ARG_N_GPU_LAYERS"
    ),
    value(
        "-sm --split-mode",
        "{none,layer,row,tensor}",
        "split_mode",
        split_mode,
        "LLAMA_ARG_SPLIT_MODE",
    ),
    value(
        "-ts --tensor-split", "N0,N1,N2,...", "tensor_split", fractions, "LLAMA_ARG_TENSOR_SPLIT"
    ),
    value("-mg --main-gpu", "INDEX", "main_gpu", whole, "LLAMA_ARG_MAIN_GPU"),
    value("-fit --fit", "[on|off]", "fit_params", on_off("--fit"), "LLAMA_ARG_FIT"),
    value(
        "-fitt --fit-target",
        "MiB0,MiB1,MiB2,...",
        "fit_params_target",
        margins,
        "LLAMA_ARG_FIT_TARGET",
    ),
    value("-fitc --fit-ctx", "N", "fit_params_min_ctx", whole, "LLAMA_ARG_FIT_CTX"),
    switch("--check-tensors", "check_tensors"),
    inverse("--op-offload", "--no-op-offload", "no_op_offload"),
    value("--lora", "FNAME", "lora_adapters", adapters),
    value("--lora-scaled", "FNAME:SCALE,...", "lora_adapters", scaled_adapters),
    switch("--lora-init-without-apply", "lora_init_without_apply"),
    switch("--offline", "offline", "LLAMA_ARG_OFFLINE"),
)
