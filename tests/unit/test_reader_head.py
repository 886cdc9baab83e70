"""Reading heads: their kind and what they were trained for, from configs and tensors."""

from pathlib import Path
from typing import Any

import pytest

from adapters.checkpoint import Head
from adapters.reader import read_checkpoint
from tests.unit.weight_files import Shapes, folder, gguf

NO_CLASS: dict[str, Any] = {"architectures": None, "model_type": None}
EAGLE3 = {"midlayer.self_attn.q_proj.weight": (64, 128), "fc.weight": (64, 192), "d2t": (6,)}


def head_of(
    path: Path, config: dict[str, Any] | None = None, shapes: Shapes | None = None
) -> Head | None:
    found = read_checkpoint(str(folder(path, config, shapes, tokens=None)))
    assert found is not None
    assert found.silent == ("no tokenizer.json in the folder",) * (found.head is None)
    return found.head


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("LlamaForCausalLMEagle3", "eagle3"),
        ("Eagle3Qwen3ForCausalLM", "eagle3"),
        ("PeagleLlamaForCausalLM", "eagle3"),
        ("EagleLlamaForCausalLM", "eagle"),
        ("EagleDeepSeekMTPModel", "eagle"),
        ("MedusaModel", "medusa"),
        ("MLPSpeculatorPreTrainedModel", "mlp_speculator"),
        ("DFlashDraftModel", "dflash"),
        ("Qwen3DSparkModel", "dspark"),
        ("DeepSeekMTPModel", "mtp"),
        ("LlamaForCausalLM", None),
        ("Eagle2_5_VLForConditionalGeneration", None),
    ],
)
def test_kinds_by_class(tmp_path: Path, name: str, kind: str | None) -> None:
    head = head_of(tmp_path, {"architectures": [name]})
    assert (head.kind if head else None) == kind


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "medusa"}, "medusa"),
        ({"model_type": "mlp_speculator", "n_predict": 3}, "mlp_speculator"),
        ({"model_type": "qwen3_next_mtp"}, "mtp"),
        ({"model_type": "gemma4_assistant"}, "mtp"),
        ({"medusa_num_heads": 3}, "medusa"),
        ({"draft_vocab_size": 6}, "eagle3"),
        ({"eagle_config": {"use_aux_hidden_state": True}}, "eagle3"),
        ({"dflash_config": {"mask_token_id": 1}}, "dflash"),
        ({"dflash_config": {"mask_token_id": 1}, "markov_rank": 16}, "dspark"),
    ],
)
def test_kinds_by_key(tmp_path: Path, config: dict[str, Any], kind: str) -> None:
    head = head_of(tmp_path, NO_CLASS | config)
    assert head is not None
    assert head.kind == kind


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        (EAGLE3, "eagle3"),
        ({"fc.weight": (64, 192), "layers.0.mlp.weight": (4, 4)}, "eagle3"),
        ({"fc.weight": (64, 128), "layers.0.mlp.weight": (4, 4)}, "eagle"),
        ({"model.fc.weight": (64, 128)}, "eagle"),
        ({"0.0.linear.weight": (64, 64), "0.1.weight": (8, 64)}, "medusa"),
        ({"medusa_heads.0.0.linear.weight": (64, 64)}, "medusa"),
        ({"model.embed_tokens.weight": (8, 64)}, None),
    ],
)
def test_kinds_by_tensor(tmp_path: Path, shapes: Shapes, kind: str | None) -> None:
    """The config says LlamaForCausalLM, as those of the first EAGLE heads do."""
    head = head_of(tmp_path, shapes=shapes)
    assert (head.kind if head else None) == kind


def test_an_eagle3_head(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": 6,
        "target_hidden_size": 96,
        "eagle_aux_hidden_state_layer_ids": [1, 4, 7],
    }
    assert head_of(tmp_path, config) == Head("eagle3", 96, (1, 4, 7), 6, None)


def test_an_eagle3_head_whose_config_says_nothing(tmp_path: Path) -> None:
    assert head_of(tmp_path, shapes=EAGLE3) == Head("eagle3", 64, None, 6, None)


def test_an_eagle3_head_that_reads_one_state(tmp_path: Path) -> None:
    config = {"draft_vocab_size": 6, "eagle_config": {"use_aux_hidden_state": False}}
    assert head_of(tmp_path, config) == Head("eagle3", 64, (), 6, None)


def test_layers_in_eagle_config(tmp_path: Path) -> None:
    config = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 5]}}
    shapes = {"fc.weight": (64, 256)}
    assert head_of(tmp_path, config, shapes) == Head("eagle3", 128, (2, 5), 8, None)


def test_speculators_format(tmp_path: Path) -> None:
    config = {
        **NO_CLASS,
        "speculators_model_type": "dflash",
        "transformer_layer_config": {"hidden_size": 48, "num_hidden_layers": 5, "vocab_size": 8},
        "aux_hidden_state_layer_ids": [1, 4],
        "mask_token_id": 7,
        "block_size": 8,
        "hidden_size": None,
        "num_hidden_layers": None,
    }
    found = read_checkpoint(str(folder(tmp_path, config)))
    assert found is not None
    assert found.head == Head("dflash", 48, (1, 4), 8, 7)
    assert (found.mask_token, found.layers) == (7, 5)


def test_blocks_count_layers_from_zero(tmp_path: Path) -> None:
    inner = {"target_layer_ids": [0, 5, 7], "mask_token_id": 3}
    dflash = {"architectures": ["DFlashDraftModel"], "block_size": 16, "dflash_config": inner}
    assert head_of(tmp_path / "a", dflash) == Head("dflash", 64, (1, 6, 8), 8, 15)
    dense = {"architectures": ["Qwen3DSparkModel"], "block_size": 7, "target_layer_ids": [1, 3]}
    assert head_of(tmp_path / "b", dense) == Head("dspark", 64, (2, 4), 8, 7)


@pytest.mark.parametrize(
    ("config", "shapes", "expected"),
    [
        ({"model_type": "medusa", "num_heads": 5}, {"medusa_heads.0.w": (4, 4)}, 5),
        ({"medusa_num_heads": 3}, {"0.0.linear.weight": (4, 4)}, 3),
        ({}, {f"{i}.0.linear.weight": (64, 64) for i in range(4)}, 4),
        ({"model_type": "mlp_speculator", "n_predict": 3, "emb_dim": 64}, {"emb.0": (4, 4)}, 3),
        ({"model_type": "deepseek_mtp", "num_nextn_predict_layers": 2}, {"w": (4, 4)}, 2),
        ({"model_type": "gemma4_assistant"}, {"w": (4, 4)}, 1),
    ],
)
def test_lengths(tmp_path: Path, config: dict[str, Any], shapes: Shapes, expected: int) -> None:
    head = head_of(tmp_path, NO_CLASS | config, shapes)
    assert head is not None
    assert head.length == expected


def test_old_medusa_files_tell_their_width_by_shape(tmp_path: Path) -> None:
    config = NO_CLASS | {"hidden_size": None, "medusa_num_heads": 3, "vocab_size": None}
    shapes = {"0.0.linear.weight": (96, 96), "0.1.weight": (8, 96)}
    assert head_of(tmp_path, config, shapes) == Head("medusa", 96, None, None, 3)


@pytest.mark.parametrize(
    "key", ["mask_token_id", "pard_token", "ptd_token_id", "dspark_noise_token_id"]
)
def test_mask_tokens(tmp_path: Path, key: str) -> None:
    found = read_checkpoint(str(folder(tmp_path, {key: 0})))
    assert found is not None
    assert found.mask_token == 0


def test_a_dspark_drafter_inside_its_target(tmp_path: Path) -> None:
    config = {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "num_nextn_predict_layers": 1,
        "dspark_block_size": 6,
    }
    found = read_checkpoint(str(folder(tmp_path, config, {"mtp.0.e_proj.weight": (4, 4)})))
    assert found is not None
    assert (found.head, found.block, found.mtp_layers) == (None, 6, 1)


@pytest.mark.parametrize(
    ("facts", "shapes", "expected"),
    [
        (
            {"target_layers": [1, 3, 5], "target_hidden_size": 96},
            {"d2t.weight": (6,)},
            Head("eagle3", 96, (1, 3, 5), 6, None),
        ),
        ({"extract_layers": [1, 3, 5]}, {}, Head("eagle3", 64, (1, 3, 5), None, None)),
        (
            {"block_size": 16, "target_layers": [1, 6], "sample_from_anchor": False},
            {"output.weight": (8, 64)},
            Head("dflash", 64, (1, 6), 8, 15),
        ),
        (
            {"block_size": 7, "sample_from_anchor": True, "target_layers": [1]},
            {"blk.0.markov_w1.weight": (8, 16), "output.weight": (8, 64)},
            Head("dspark", 64, (1,), 8, 7),
        ),
    ],
)
def test_heads_in_gguf(
    tmp_path: Path, facts: dict[str, Any], shapes: Shapes, expected: Head
) -> None:
    name = "eagle3" if expected.kind == "eagle3" else "dflash"
    own = {"embedding_length": 64, "block_count": 1, **facts}
    metadata = {"general.architecture": name, **{f"{name}.{k}": v for k, v in own.items()}}
    file = tmp_path / "head.gguf"
    file.write_bytes(gguf({**metadata, "tokenizer.ggml.mask_token_id": 5}, shapes))
    found = read_checkpoint(str(file))
    assert found is not None
    assert found.head == expected
    assert found.mask_token == 5
