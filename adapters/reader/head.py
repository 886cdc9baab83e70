"""Which kind of head a checkpoint is, from its config and the names and shapes of its tensors.

Facts: vllm/config/speculative.py, transformers_utils/configs and v1/spec_decode of 0.32.0; the
heads of SafeAILab/EAGLE, FasterDecoding/Medusa and vllm-project/speculators.
"""

import re
from collections.abc import Mapping
from typing import Final

from adapters.checkpoint import Head, HeadKind
from adapters.reader import shape
from adapters.reader.settings import Settings
from adapters.reader.tensor import Tensors

# In a class name; the first that fits counts. P-EAGLE is EAGLE-3 that guesses in parallel.
_CLASSES: Final[tuple[tuple[str, HeadKind], ...]] = (
    ("eagle3", "eagle3"),
    ("peagle", "eagle3"),
    ("eagle", "eagle"),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("museglimmerassistant", "dflash"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("mlp_speculator", "mlp_speculator"),
    ("mtp", "mtp"),
)
_SPECULATORS: Final[Mapping[str, HeadKind]] = {
    "eagle": "eagle",
    "eagle3": "eagle3",
    "peagle": "eagle3",
    "dflash": "dflash",
    "dflash2": "dflash",
    "dspark": "dspark",
    "mlp_speculator": "mlp_speculator",
}
_MODEL_TYPES: Final[Mapping[str, HeadKind]] = {
    "medusa": "medusa",
    "mlp_speculator": "mlp_speculator",
    "eagle": "eagle",
    "gemma4_assistant": "mtp",
    "gemma4_unified_assistant": "mtp",
}
# medusa_heads.2.… of vLLM, 2.0.linear.weight of the first Medusa files
_MEDUSA_INDEX = re.compile(r"(?:medusa_heads?\.)?(\d+)\.")
_FC = ("fc.weight", "model.fc.weight")
_MASK_KEYS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")


def read_head(config: Settings, tensors: Tensors) -> Head | None:
    """The head, or None for an ordinary model."""
    kind = _kind_said(config) or _kind_by_keys(config) or _kind_by_tensors(config, tensors)
    if kind is None:
        return None
    layers = _layers(config, kind)
    return Head(
        kind,
        _target_hidden(config, tensors, kind, layers),
        layers,
        _vocabulary(config, tensors),
        _length(config, tensors, kind),
    )


def mask_token(config: Settings) -> int | None:
    """The token that stands for a position to be guessed in parallel."""
    inner = config.below("dflash_config").count("mask_token_id")
    return inner if inner is not None else config.count(*_MASK_KEYS)


def bundled_block(config: Settings, tensors: Tensors) -> int | None:
    """Guesses of a DSpark drafter that stands in the target's own checkpoint (DeepSeek-V4)."""
    if not config.has("dspark_block_size") and not tensors.any_name("markov_head"):
        return None
    return config.size("dspark_block_size", "block_size")


def _kind_said(config: Settings) -> HeadKind | None:
    speculators = config.data.get("speculators_model_type")
    if isinstance(speculators, str) and speculators in _SPECULATORS:
        return _SPECULATORS[speculators]
    classes = config.data.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else None
    if isinstance(first, str) and (kind := _kind_of_class(first)):
        return kind
    model_type = config.data.get("model_type")
    if not isinstance(model_type, str):
        return None
    return "mtp" if model_type.endswith("_mtp") else _MODEL_TYPES.get(model_type)


def _kind_of_class(name: str) -> HeadKind | None:
    """LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, EagleLlamaForCausalLM, DFlashDraftModel …"""
    lower = name.lower()
    if "conditionalgeneration" in lower:  # Eagle2_5_VL… is a family of vision models
        return None
    return next((kind for part, kind in _CLASSES if part in lower), None)


def _kind_by_keys(config: Settings) -> HeadKind | None:
    if config.has("medusa_num_heads"):
        return "medusa"
    if config.has("markov_rank"):
        return "dspark"
    if config.has("dflash_config"):
        return "dflash"
    if config.has("draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "eagle_config"):
        return "eagle3"
    return None


def _kind_by_tensors(config: Settings, tensors: Tensors) -> HeadKind | None:
    """Heads of EAGLE say LlamaForCausalLM in their configs, those of Medusa say nothing."""
    if tensors.any_name("medusa_head"):
        return "medusa"
    names = set(tensors.by_name)
    if names & {"d2t", "t2d"} or any(name.startswith("midlayer.") for name in names):
        return "eagle3"
    if names and all(_MEDUSA_INDEX.match(name) for name in names):
        return "medusa"
    if not names & set(_FC):
        return None
    fused = tensors.shape(*_FC)
    if fused and len(fused) == 2 and fused[0] and fused[1] // fused[0] >= 3:
        return "eagle3"
    return "eagle"


def _layers(config: Settings, kind: HeadKind) -> tuple[int, ...] | None:
    """States of the target that it reads, counted as in `Head.layers`."""
    eagle, block = config.below("eagle_config"), config.below("dflash_config")
    uses = eagle.flag("use_aux_hidden_state")
    if kind == "eagle3" and (uses if uses is not None else config.flag("use_aux_hidden_state")) is (
        False
    ):
        return ()
    found = config.counts("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
    if found is None:
        found = eagle.counts("eagle_aux_hidden_state_layer_ids")
    if found is not None or kind not in ("dflash", "dspark"):
        return found
    # Blocks count the layers themselves, from 0 (vllm/v1/worker/gpu_model_runner.py adds 1).
    zero_based = block.counts("target_layer_ids")
    if zero_based is None:
        zero_based = config.counts("dspark_target_layer_ids", "target_layer_ids")
    return None if zero_based is None else tuple(layer + 1 for layer in zero_based)


def _target_hidden(
    config: Settings, tensors: Tensors, kind: HeadKind, layers: tuple[int, ...] | None
) -> int | None:
    """Width of the target's states: as said, else as the first matrix takes it."""
    said = config.size("target_hidden_size", "backbone_hidden_size")
    if said is not None:
        return said
    fused = tensors.shape(*_FC)
    states = {"eagle": 2, "eagle3": len(layers) if layers else 3}.get(kind)
    if states and fused and len(fused) == 2 and fused[1] % states == 0 and layers != ():
        return fused[1] // states
    return None if kind == "mtp" else shape.hidden(config) or _medusa_width(tensors, kind)


def _medusa_width(tensors: Tensors, kind: HeadKind) -> int | None:
    """The first Medusa files name no width; their residual blocks are square."""
    if kind != "medusa":
        return None
    squares = (t.shape for t in tensors.by_name.values() if len(t.shape) == 2)
    return next((s[0] for s in squares if s[0] == s[1] and s[0] > 0), None)


def _vocabulary(config: Settings, tensors: Tensors) -> int | None:
    said = config.size("draft_vocab_size", "truncated_vocab_size")
    if said is not None:
        return said
    shortened = tensors.shape("d2t")
    return shortened[0] if shortened else config.size("vocab_size")


def _length(config: Settings, tensors: Tensors, kind: HeadKind) -> int | None:
    if kind == "medusa":
        said = config.size("medusa_num_heads", "num_heads", "num_medusa_heads")
        return said or _medusa_heads(tensors)
    if kind == "mlp_speculator":
        return config.size("n_predict")
    if kind == "mtp":
        return config.size("n_predict") or shape.mtp_layers(config) or 1
    return _block(config, kind)


def _medusa_heads(tensors: Tensors) -> int | None:
    found = [int(m[1]) for name in tensors.by_name if (m := _MEDUSA_INDEX.match(name))]
    return max(found) + 1 if found and max(found) < 1024 else None


def _block(config: Settings, kind: HeadKind) -> int | None:
    """Guesses in a block: where its first place is the last accepted token, one fewer."""
    if kind not in ("dflash", "dspark"):
        return None
    size = config.size("block_size", "dspark_block_size")
    inner = config.below("dflash_config")
    size = inner.size("block_size") if size is None else size
    samples_first = inner.flag("sample_from_anchor")
    if samples_first is None:
        samples_first = config.flag("sample_from_anchor")
    is_speculators = config.has("speculators_model_type")
    if samples_first is None:  # dense DSpark heads guess in every place, DFlash heads do not
        samples_first = kind == "dspark" and not is_speculators
    return size if size is None or samples_first else max(size - 1, 1)
