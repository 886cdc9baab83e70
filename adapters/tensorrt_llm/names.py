"""Native names that are draftgate's to write, and names that the engine has changed or dropped."""

from collections.abc import Mapping
from typing import Final

_FLEET: Final = "it comes from models: in the fleet"
_ONE_SERVER: Final = "a worker is one HTTP server that does prefill and decoding"
_PYTHON: Final = "it is a Python object: a file cannot hold it"
_CACHE: Final = "write kv_cache_config: {%s: …}"
_GRAPH: Final = "write cuda_graph_config: {%s: …}"

# Options of the server that have another owner, and why.
OURS: Final[Mapping[str, str]] = {
    "model": _FLEET,
    "revision": _FLEET,
    "max_seq_len": "it comes from models.<name>.context",
    "served_model_name": "it is the model's name in the fleet",
    "config": "options in a second file would escape every check: write them here",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    "speculative_config": "use a profile's speculation, or its engine.tensorrt_llm",
    "return_perf_metrics": "it is always on: the counters are served with it",
    "enable_iter_perf_stats": "it is always on: readiness and measurements need the counters",
    **dict.fromkeys(
        (
            "grpc",
            "enable_visual_gen",
            "visual_gen_args",
            "server_role",
            "disagg_cluster_uri",
            "metadata_server_config_file",
            "encode_only",
            "mm_encoder_only",
            "cache_transceiver_config",
        ),
        _ONE_SERVER,
    ),
    **dict.fromkeys(
        (
            "batched_logits_processor",
            "checkpoint_loader",
            "mpi_session",
            "decoding_config",
        ),
        _PYTHON,
    ),
}
# Names that stand for a key inside another one, or that had another name before.
RENAMED: Final[Mapping[str, str]] = {
    "free_gpu_memory_fraction": _CACHE % "free_gpu_memory_fraction",
    "kv_cache_free_gpu_memory_fraction": _CACHE % "free_gpu_memory_fraction",
    "kv_cache_dtype": _CACHE % "dtype",
    "enable_block_reuse": _CACHE % "enable_block_reuse",
    "use_cuda_graph": "write cuda_graph_config: {}, or null for none",
    "cuda_graph_batch_sizes": _GRAPH % "batch_sizes",
    "cuda_graph_max_batch_size": _GRAPH % "max_batch_size",
    "cuda_graph_padding_enabled": _GRAPH % "enable_padding",
    "pytorch_backend_config": "write its keys at the top",
}
# The same for 1.3 and 1.4 alone.
RENAMED_LATER: Final[Mapping[str, str]] = {"enable_sleep": "write sleep_config: {…}"}
REMOVED_LATER: Final[Mapping[str, str]] = {
    "sampler_type": "TorchSampler is the only one; TRTLLMSampler ends the start",
    "disable_flashinfer_sampling": "it has no successor",
    "build_config": "the TensorRT backend is gone (PR #15918)",
}

# Keys of the decoding classes that a profile says, and the profile's key for each.
PROFILE_KEYS: Final[Mapping[str, str]] = {
    "decoding_type": "method",
    "speculative_model": "draft",
    "speculative_model_dir": "draft",
    "max_draft_len": "gamma",
    "num_eagle_layers": "gamma",
    "num_medusa_heads": "gamma",
    "num_nextn_predict_layers": "gamma",
    "max_ngram_size": "gamma",
    "block_size": "gamma",
    "medusa_choices": "gamma",
    "draft_len_schedule": "schedule",
    "max_concurrency": "schedule",
    "max_window_size": "window",
    "max_verification_set_size": "candidates",
    "max_matching_ngram_size": "lookup.max",
    "is_public_pool": "pool",
    "enable_global_pool": "cached_requests",
    "global_pool_size": "cached_requests",
}
# The same where only some classes have the key from the profile.
TREE_KEYS: Final[Mapping[str, str]] = {
    "use_dynamic_tree": "tree",
    "dynamic_tree_max_topK": "tree.branches",
    "max_total_draft_tokens": "tree.tokens",
    "eagle_choices": "tree",
}

_RATE: Final = "acceptance_rate_threshold: a share of the guesses, 0 to 1, no longer a length"
SPECULATIVE_RENAMED: Final[Mapping[str, str]] = {
    "pytorch_weights_path": "it is speculative_model now: write models.<name>.drafts",
    "prompt_lookup_num_tokens": "it is max_draft_len now: write speculation.gamma",
}
SPECULATIVE_RENAMED_LATER: Final[Mapping[str, str]] = {
    "acceptance_window": "write acceptance_rate_window_size: it counts steps, not requests",
    "acceptance_length_threshold": f"write {_RATE}",
    "num_nextn_predict_layers": "it is max_draft_len now: write speculation.gamma",
    "use_sa_spec": "write sa_config: {}",
    "sa_spec_threshold": "write sa_config: {threshold: …}",
}
SPECULATIVE_REMOVED_LATER: Final[Mapping[str, str]] = {
    "eagle_choices": "static trees are gone: write speculation.tree",
    "greedy_sampling": "a request's temperature decides",
    "posterior_threshold": "guesses are accepted by equality or by rejection sampling only",
    "eagle3_one_model": "draft and target are always one engine",
    "mtp_eagle_one_model": "draft and target are always one engine",
    "num_nextn_predict_layers_from_model_config": "it is read from the checkpoint",
}
# What switches speculation off for the rest of the process, and the dialect that has it.
GATES: Final[Mapping[str, str]] = {
    "acceptance_window": "1.2",
    "acceptance_length_threshold": "1.2",
    "acceptance_rate_window_size": "1.3",
    "acceptance_rate_threshold": "1.3",
}
# Keys of 1.3 and 1.4 that people write for 1.2.
SPECULATIVE_EARLIER: Final[Mapping[str, str]] = {
    "acceptance_rate_window_size": "1.2 has acceptance_window, in finished requests",
    "acceptance_rate_threshold": "1.2 has acceptance_length_threshold, in accepted tokens per step",
    **dict.fromkeys(
        ("sa_config", "use_rejection_sampling", "advanced_sampling_mode", "enable_penalty"),
        "it came with 1.3",
    ),
}
