"""The shape that a Hugging Face config.json describes, whatever its family calls things.

Names: transformers' configuration classes, and vllm/transformers_utils of 0.32.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adapters.checkpoint import CacheForm
from adapters.reader.settings import Settings

# Where a wrapper of several models, or a head in speculators format, keeps its language model.
_NESTS = ("text_config", "llm_config", "language_config", "transformer_layer_config", "model")
_WRAPPED = ("thinker_config", *_NESTS)
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "emb_dim")
_CONTEXTS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
# Their configs may leave the number out; engines take one layer (vllm/config/speculative.py).
_ONE_MTP_LAYER = frozenset(
    {"longcat_flash", "step3p5", "step3p7", "mimo_v2", "mimo_v2_flash", "mimo_v2_omni"}
)
# Position tables of these kinds are already as long as max_position_embeddings says.
_SCALED_ALREADY = frozenset(
    {
        "su",
        "longrope",
        "llama3",
        "yarn",
        "deepseek_yarn",
        "deepseek_llama_scaling",
        "default",
        "mrope",
    }
)
_HYBRID_KEYS = (
    "layers_block_type",
    "hybrid_override_pattern",
    "full_attention_interval",
    "attn_layer_period",
    "linear_attn_config",
    "linear_num_key_heads",
    "mamba_d_state",
    "mamba_d_ssm",
    "ssm_state_size",
    "state_size",
    "num_kv_shared_layers",
    "is_encoder_decoder",
    "conv_L_cache",
    "compress_ratios",
)
_HYBRID_TYPES: Final = ("mamba", "rwkv", "jamba", "recurrent_gemma", "xlstm", "hgrn")


def language_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its language model's keys brought to the top; those win."""
    flat = dict(data)
    for _ in range(3):  # thinker_config holds a text_config
        nest = next((flat[key] for key in _WRAPPED if isinstance(flat.get(key), dict)), None)
        if nest is None:
            break
        own = {k: v for k, v in flat.items() if not isinstance(v, dict) or k not in _WRAPPED}
        names = {k: flat[k] for k in ("architectures", "model_type") if flat.get(k)}
        flat = {**own, **nest, **names, "inner_model_type": nest.get("model_type")}
    return flat


def layers(config: Settings) -> int | None:
    return config.count(*_LAYERS)


def hidden(config: Settings) -> int | None:
    return config.size(*_HIDDEN)


@dataclass(frozen=True)
class Attention:
    """Numbers of heads, and the widths of a key and a value of one head, in elements."""

    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    value_dim: int | None


def attention(config: Settings) -> Attention:
    width, heads = hidden(config), config.size(*_HEADS)
    head_dim = config.size("head_dim", "attention_head_dim", "kv_channels")
    if head_dim is None and width and heads:
        head_dim = width // heads
    kv_heads = config.size(*_KV_HEADS)
    if kv_heads is None:
        is_shared = config.flag("multi_query") and not config.flag("new_decoder_architecture")
        kv_heads = 1 if is_shared else heads
    return Attention(heads, kv_heads, head_dim, config.size("v_head_dim"))


def context(config: Settings) -> int | None:
    """Most positions, in tokens, with the scaling of its rotary embedding."""
    found = [n for key in _CONTEXTS if (n := config.size(key))]
    if not found:
        return None
    rope = config.below("rope_parameters", "rope_scaling")
    kind = rope.data.get("rope_type", rope.data.get("type", "default"))
    if not isinstance(kind, str) or kind in _SCALED_ALREADY or "gemma3" in _types(config):
        return min(found)
    return int(min(found) * _factor(rope.data.get("factor")))


def _factor(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1 <= value <= 1024 else 1.0


def mtp_layers(config: Settings) -> int:
    """Multi-token-prediction layers that come with the model itself."""
    found = config.count(*_MTP_LAYERS)
    if found is None:
        found = config.below("mtp_config").count("num_nextn_predict_layers")
    if found is None:
        return 1 if set(_types(config).split()) & _ONE_MTP_LAYER else 0
    return found


def cache_form(config: Settings) -> CacheForm:
    """What its layers keep of each token; anything but "full" has no simple size."""
    kinds = config.data.get("layer_types")
    types = {k for k in kinds if isinstance(k, str)} if isinstance(kinds, list) else set()
    is_other = types - {"full_attention", "sliding_attention", "chunked_attention"}
    if is_other or config.has(*_HYBRID_KEYS) or any(t in _types(config) for t in _HYBRID_TYPES):
        return "hybrid"
    if config.has("kv_lora_rank"):
        return "latent"
    if types:
        return "full" if types == {"full_attention"} else "sliding"
    window = config.size("sliding_window", "attention_chunk_size")
    is_used = window is not None and config.flag("use_sliding_window") is not False
    return "sliding" if is_used and not is_wide(window, context(config)) else "full"


def is_wide(window: int | None, positions: int | None) -> bool:
    """Whether a window holds every position there is: Phi-3 says so of its long models."""
    return window is not None and positions is not None and window >= positions


def quantization(config: Settings) -> str | None:
    return config.below("quantization_config", "compression_config").text("quant_method")


def _types(config: Settings) -> str:
    names = (config.data.get("model_type"), config.data.get("inner_model_type"))
    return " ".join(name for name in names if isinstance(name, str))
