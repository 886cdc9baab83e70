"""Reading folders and GGUF files: what they say, whatever they call it."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.checkpoint import Checkpoint, Vocabulary
from adapters.reader import read_checkpoint
from tests.unit.weight_files import (
    Q4_K,
    SMALL,
    TOKENS,
    folder,
    gguf,
    llama_facts,
    pickled,
    safetensors,
    tokenizer,
)


def read(path: Path) -> Checkpoint:
    found = read_checkpoint(str(path))
    assert found is not None
    return found


def test_a_hub_id_is_not_local() -> None:
    assert read_checkpoint("org/model") is None
    assert read_checkpoint("/no/such/folder") is None
    assert read_checkpoint("") is None


def test_a_folder(tmp_path: Path) -> None:
    found = read(folder(tmp_path))
    assert found == Checkpoint(
        str(tmp_path),
        "huggingface",
        architecture="LlamaForCausalLM",
        layers=8,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        context=2048,
        vocabulary_size=8,
        dtype="float16",
        weight_bytes=8 * 64 * 2,
        vocabulary=Vocabulary(TOKENS, "bpe", 0, 1, True, None, frozenset({0, 1})),
    )


def test_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    shapes = {"token_embd.weight": (8, 256), "blk.0.attn_q.weight": (64, 256)}
    file.write_bytes(gguf(llama_facts(), shapes, Q4_K))
    assert read(file) == Checkpoint(
        str(file),
        "gguf",
        architecture="llama",
        layers=8,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        context=2048,
        vocabulary_size=8,
        quantization="Q4_K",
        weight_bytes=(8 + 64) * 144,
        vocabulary=Vocabulary(TOKENS, "gpt2", 0, 1, True, None, frozenset({0, 1})),
    )


def test_a_gguf_file_is_known_without_its_ending(tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(gguf(llama_facts()))
    assert read(file).layers == 8


def test_padding_tokens_of_a_gguf_are_none(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    kinds = [3, 3, 1, 1, 1, 1, 5, 5]
    file.write_bytes(gguf(llama_facts(**{"tokenizer.ggml.token_type": kinds})))
    vocabulary = read(file).vocabulary
    assert vocabulary is not None
    assert vocabulary.tokens == (*TOKENS[:6], None, None)


def test_which_tokens_are_special_or_added(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    kinds = [3, 3, 1, 1, 1, 1, 4, 5]
    file.write_bytes(gguf(llama_facts(**{"tokenizer.ggml.token_type": kinds})))
    vocabulary = read(file).vocabulary
    assert vocabulary is not None
    assert vocabulary.special == {0, 1}
    assert vocabulary.added == {6}
    added = [{"id": 1, "content": "<s>", "special": True}, {"id": 2, "content": "<think>"}]
    model = {"model": {"vocab": {"a": 0}}, "added_tokens": added}
    (folder(tmp_path / "m") / "tokenizer.json").write_text(json.dumps(model))
    vocabulary = read(tmp_path / "m").vocabulary
    assert vocabulary is not None
    assert vocabulary.special == {1}
    assert vocabulary.added == {2}


def test_a_split_gguf_is_read_as_a_whole(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(gguf(llama_facts(), {"token_embd.weight": (8, 64)}))
    second = tmp_path / "m-00002-of-00002.gguf"
    second.write_bytes(gguf({"split.no": 1}, {"output.weight": (8, 64)}))
    found = read(first)
    assert found.weight_bytes == 2 * 8 * 64 * 4
    assert found.silent == ()
    assert "name the first" in read(second).silent[0]
    second.unlink()
    assert read(first).weight_bytes is None
    assert read(first).silent == ("m-00002-of-00002.gguf: no such file or directory",)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"llama.attention.sliding_window": 512}, "sliding"),
        ({"llama.attention.sliding_window": 2048}, "full"),
        ({"llama.attention.kv_lora_rank": 512}, "latent"),
        ({"llama.ssm.conv_kernel": 4}, "hybrid"),
        ({"llama.attention.head_count_kv": [2, 0, 2, 0, 2, 0, 2, 0]}, "hybrid"),
        ({"llama.attention.head_count_kv": [2] * 8}, "full"),
    ],
)
def test_the_form_of_a_gguf_models_cache(
    tmp_path: Path, more: dict[str, Any], expected: str
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(llama_facts(**more)))
    assert read(file).cache == expected


def test_numbers_of_heads_that_differ_by_layer_are_not_one(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(llama_facts(**{"llama.attention.head_count_kv": [2, 4] * 4})))
    assert read(file).kv_heads is None
    file.write_bytes(gguf(llama_facts(**{"llama.attention.head_count_kv": [2] * 8})))
    assert read(file).kv_heads == 2


def test_mtp_layers_of_a_gguf_are_not_the_models_own(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    shapes = {"blk.7.attn_q.weight": (4, 4), "blk.8.nextn.eh_proj.weight": (4, 8)}
    facts = llama_facts(**{"llama.block_count": 9, "llama.nextn_predict_layers": 1})
    file.write_bytes(gguf(facts, shapes))
    found = read(file)
    assert (found.layers, found.mtp_layers, found.mtp_bytes) == (8, 1, 4 * 8 * 4)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"sliding_window": 1024}, "sliding"),
        ({"sliding_window": 4096}, "full"),
        ({"sliding_window": 131072, "use_sliding_window": False}, "full"),
        ({"sliding_window": 128, "layer_types": ["full_attention"] * 8}, "full"),
        ({"layer_types": ["sliding_attention", "full_attention"] * 4}, "sliding"),
        ({"layer_types": ["linear_attention", "full_attention"] * 4}, "hybrid"),
        ({"kv_lora_rank": 512}, "latent"),
        ({"model_type": "falcon_mamba"}, "hybrid"),
        ({"num_kv_shared_layers": 4}, "hybrid"),
    ],
)
def test_the_form_of_a_folders_cache(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    assert read(folder(tmp_path, config)).cache == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 4096),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 2048),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": "x"}}, 2048),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 2048),
        ({"max_position_embeddings": None, "n_positions": 1024}, 1024),
        ({"max_position_embeddings": None}, None),
    ],
)
def test_the_context(tmp_path: Path, config: dict[str, Any], expected: int | None) -> None:
    assert read(folder(tmp_path, config)).context == expected


def test_a_multimodal_wrapper_is_read_through(tmp_path: Path) -> None:
    inner = {**SMALL, "model_type": "llama_text", "num_hidden_layers": 5}
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "thinker_config": {"text_config": inner, "vision_config": {"hidden_size": 7}},
        "vision_config": {"num_hidden_layers": 99},
        "num_hidden_layers": None,
    }
    found = read(folder(tmp_path, config))
    assert (found.layers, found.architecture) == (5, "LlavaForConditionalGeneration")
    assert found.is_multimodal


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"num_nextn_predict_layers": 1}, 1),
        ({"mtp_num_hidden_layers": 2}, 2),
        ({"mtp_config": {"num_nextn_predict_layers": 3}}, 3),
        ({"model_type": "longcat_flash"}, 1),
        ({"num_nextn_predict_layers": 0}, 0),
        ({}, 0),
    ],
)
def test_mtp_layers_of_a_folder(tmp_path: Path, config: dict[str, Any], expected: int) -> None:
    shapes = {"model.layers.8.eh_proj.weight": (4, 4), "model.layers.7.mlp.weight": (4, 4)}
    found = read(folder(tmp_path, config, shapes))
    assert (found.mtp_layers, found.mtp_bytes) == (expected, 32)
    assert found.silent == ()


def test_mtp_weights_that_were_taken_out_are_missed(tmp_path: Path) -> None:
    found = read(folder(tmp_path, {"num_nextn_predict_layers": 1}))
    assert found.silent == (
        "config.json counts 1 MTP layers, but none of the tensors is named like one",
    )


def test_a_folder_of_several_files_with_an_index(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    for number in (1, 2):
        (tmp_path / f"m-{number}.safetensors").write_bytes(safetensors({f"w{number}": (3, 3)}))
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors({"again": (100, 100)}))
    assert read(tmp_path).weight_bytes == 36
    index = {"weight_map": {"w1": "m-1.safetensors", "gone": "m-9.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read(tmp_path)
    assert found.weight_bytes is None
    assert found.silent == ("m-9.safetensors: no such file or directory",)


def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder(tmp_path)
    index = {"weight_map": {"w": "../../secret"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read(tmp_path)
    assert "names files outside the folder" in found.silent[0]
    assert found.weight_bytes == 1024


def test_a_pytorch_file_gives_its_names_and_is_not_run(tmp_path: Path) -> None:
    folder(tmp_path, {"num_hidden_layers": 1})
    (tmp_path / "model.safetensors").unlink()
    pickled(tmp_path / "pytorch_model.bin", ["fc.weight", "layers.0.self_attn.q_proj.weight"])
    found = read(tmp_path)
    assert found.head is not None
    assert found.head.kind == "eagle"
    assert found.weight_bytes == (tmp_path / "pytorch_model.bin").stat().st_size


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"type": "Unigram", "vocab": [["<s>", 0.0], ["a", -1.5]]}, ("<s>", "a")),
        ({"type": "WordPiece", "vocab": {"a": 1, "<s>": 0}}, ("<s>", "a")),
        ({"vocab": {"a": 2}}, (None, None, "a")),
    ],
)
def test_kinds_of_tokenizers(
    tmp_path: Path, model: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    vocabulary = read(tmp_path).vocabulary
    assert vocabulary is not None
    assert vocabulary.tokens == expected


def test_gpt2_files(tmp_path: Path) -> None:
    folder(tmp_path, tokens=None)
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    (tmp_path / "added_tokens.json").write_text('{"<x>": 3}')
    vocabulary = read(tmp_path).vocabulary
    assert vocabulary is not None
    assert vocabulary.tokens == ("a", "b", None, "<x>")
    assert vocabulary.added == {3}


def test_a_tokenizer_that_is_not_read_is_named(tmp_path: Path) -> None:
    folder(tmp_path, tokens=None)
    assert read(tmp_path).silent == ("no tokenizer.json in the folder",)
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    assert "tokenizer.model is not read" in read(tmp_path).silent[0]


def test_added_tokens_win_and_ids_are_bounded(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text(tokenizer(["a", "b"], ["b"]))
    assert read(tmp_path).vocabulary is not None
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 999999999999}}}')
    assert "ids from" in read(tmp_path).silent[0]
