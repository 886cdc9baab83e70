"""Broken, hostile and odd files: told in words, never raised, never slow."""

import json
import os
import pickle
import resource
import struct
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.checkpoint import Checkpoint
from adapters.reader import read_checkpoint, source
from adapters.reader import safetensors as tensors
from adapters.reader.gguf import read_gguf
from adapters.reader.source import Unreadable
from tests.unit.weight_files import (
    SMALL,
    folder,
    gguf,
    llama_facts,
    packed,
    safetensors,
    string,
)

SLOWEST = 20.0  # seconds of CPU: what a file claims to hold is not worked through
many = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read(path: Path) -> Checkpoint:
    started = time.process_time()
    found = read_checkpoint(str(path))
    assert time.process_time() - started < SLOWEST
    assert found is not None
    assert all(found.silent)
    return found


def header(tensors: int, keys: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (b"GGML" + bytes(100), "not a GGUF file"),
        (header(0, 0, version=1), "GGUF version 1 is not read"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (header(2**63, 0), "claims 9223372036854775808 tensors"),
        (header(0, 2**40), "and 1099511627776 keys"),
        (header(0, 1), "its header ends early"),
        (header(0, 1, struct.pack("<Q", 2**62)), "a string of 4611686018427387904 bytes"),
        (header(0, 1, struct.pack("<Q", 10 << 20)), "its header ends early"),
        (header(0, 1, string("k") + struct.pack("<I", 99)), "a value of type 99"),
        (header(0, 1, string("k") + struct.pack("<IIQ", 9, 9, 1)), "a value of type 9"),
        (header(0, 1, string("k") + struct.pack("<IIQ", 9, 8, 2**50)), "an array of"),
        (header(0, 1, string("k") + struct.pack("<IIQ", 9, 8, 9)), "ends early"),
        (header(0, 1, string("k") + struct.pack("<IIQ", 9, 5, 2**60)), "ends early"),
        (header(1, 0, string("t") + struct.pack("<I", 2**31)), "dimensions"),
        (header(1, 0, string("t") + struct.pack("<IQIQ", 1, 4, 77, 0)), "a type not known here"),
        (header(1, 0, string("t") + struct.pack("<IQIQ", 1, 2**63, 0, 0)), "bytes are missing"),
        (gguf(llama_facts(), {"token_embd.weight": (8, 64)})[:-9], "9 bytes are missing"),
    ],
)
def test_broken_gguf_headers(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(data)
    found = read(file)
    assert words in found.silent[0]
    assert found.weight_bytes is None


def test_what_stood_before_the_break_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(llama_facts())[:-150])
    found = read(file)
    assert (found.layers, found.hidden) == (8, 64)
    assert "ends early" in found.silent[0]


def test_many_empty_strings_are_not_waited_for(tmp_path: Path) -> None:
    """Zeros are keys without a name and strings without a text, 13 and 8 bytes each."""
    file = tmp_path / "m.gguf"
    array = string("k") + struct.pack("<IIQ", 9, 8, 1 << 20)
    with file.open("wb") as output:
        output.write(header(0, 16000, array))
        output.truncate(1 << 33)
    assert "no general.architecture" in read(file).silent[0]


def test_wrong_types_in_gguf(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    more = {"llama.block_count": "eight", "llama.context_length": [1, 2], "general.alignment": "x"}
    file.write_bytes(gguf(llama_facts(**more)))
    found = read(file)
    assert found.layers is None
    assert "llama: block_count is 'eight', not a count" in found.silent
    file.write_bytes(gguf(llama_facts(**{"general.architecture": 5})))
    assert "no general.architecture" in read(file).silent[0]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    parts = string("general.architecture") + packed("llama") + string("tokenizer.ggml.tokens")
    token = struct.pack("<IIQQ", 9, 8, 1, 2) + b"\xff\xfe"
    file.write_bytes(header(0, 2, parts + token))
    vocabulary = read(file).vocabulary
    assert vocabulary is not None
    assert vocabulary.tokens == (r"\xff\xfe",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "claims 0 bytes of 0"),
        (b"\0\0\0", "claims 0 bytes of 3"),
        ((10 << 30).to_bytes(8, "little") + b"{}", "claims 10737418240 bytes of 10"),
        ((2**64 - 1).to_bytes(8, "little"), "claims 18446744073709551615"),
        ((2).to_bytes(8, "little") + b"[]", "unexpected content"),
        ((4).to_bytes(8, "little") + b"{\0}x", "not JSON"),
        ((9).to_bytes(8, "little") + b'{"a": {}}', "missing required field"),
        (safetensors({"w": (4, 4)})[:-1], "1 bytes are missing"),
        (safetensors({"w": (4, 4)}).replace(b"[0, 32]", b"[-9,2] "), "negative sizes"),
        (safetensors({"w": (4, 4)}).replace(b"[0, 32]", b"[32, 0]"), "negative sizes"),
    ],
)
def test_broken_safetensors(tmp_path: Path, data: bytes, words: str) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(data)
    found = read(tmp_path)
    assert words in found.silent[0]
    assert found.silent[0].startswith("model.safetensors: ")
    assert found.weight_bytes is None
    assert found.layers == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("null", "not a mapping"),
        ("[1]", "not a mapping"),
        ("\ufeff{}", "not JSON"),
        ('{"a": NaN,}', "not JSON"),
        ("\0", "not JSON"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "out of range"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
)
def test_broken_configs(tmp_path: Path, text: str, words: str) -> None:
    folder(tmp_path)
    (tmp_path / "config.json").write_text(text)
    assert words in read(tmp_path).silent[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('"8"', "'8'"),
        ("8.5", "8.5"),
        ("true", "true"),
        ("[8]", "a list"),
        ("{}", "a mapping"),
        ("-1", "-1"),
        ("9" * 20, "a number out of range"),
        ("[" * 500 + "]" * 500, "a list"),
    ],
)
def test_config_values_of_wrong_types(tmp_path: Path, value: str, words: str) -> None:
    folder(tmp_path)
    (tmp_path / "config.json").write_text('{"num_hidden_layers": ' + value + ', "hidden_size": 4}')
    found = read(tmp_path)
    assert (found.layers, found.hidden) == (None, 4)
    said = f"config.json: num_hidden_layers is {words}, not a count"
    assert said.lower() in [sentence.lower() for sentence in found.silent]


def test_python_writes_infinity(tmp_path: Path) -> None:
    folder(tmp_path, {"time_step_limit": [0.0, float("inf")]})
    assert read(tmp_path).layers == 8


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    assert read(tmp_path).silent == (
        "no config.json in the folder",
        "no weight files in the folder",
    )
    (tmp_path / "m.gguf").write_bytes(gguf(llama_facts()))
    assert read(tmp_path).silent[0].endswith("name one of its GGUF files")


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    assert read(file).silent == ("neither a folder nor a GGUF file",)
    assert read(Path("/dev/zero")).silent == ("not a regular file",)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    folder(tmp_path)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert read(tmp_path).silent[0] == "config.json: not a regular file"
    os.mkfifo(tmp_path / "m.gguf")
    assert read(tmp_path / "m.gguf").silent == ("not a regular file",)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "symbolic links" in read(tmp_path / "loop").silent[0]
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert read(tmp_path / "gone").silent == ("no such file or directory",)
    folder(tmp_path / "model")
    (tmp_path / "model" / "config.json").unlink()
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "loop")
    assert "config.json: too many levels" in read(tmp_path / "model").silent[0]


def test_names_that_cannot_be() -> None:
    assert read_checkpoint("a\0b") is None
    assert read_checkpoint("x" * 5000) is None
    assert read_checkpoint("\udcff") is None


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything: the system's answer is played."""
    folder(tmp_path)

    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    silent = read(tmp_path).silent
    assert silent[0] == "config.json: permission denied"

    def refuse_folder(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse_folder)
    assert read(tmp_path).silent[-1] == "the folder: permission denied"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"model": null}',
        '{"model": {"vocab": {"a": "x"}}}',
        '{"model": {"vocab": {"a": -1}}}',
        '{"model": {"vocab": [["a"]]}}',
        '{"model": {"vocab": {}}, "added_tokens": [{"id": "x", "content": "y"}]}',
        '{"model": {"vocab": {"a": 99999999}}}',
        '{"model": {"vocab": ' + "[" * 100000,
    ],
)
def test_broken_tokenizers(tmp_path: Path, text: str) -> None:
    folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text(text)
    found = read(tmp_path)
    assert found.vocabulary is None
    assert found.silent
    assert found.layers == 8


def test_a_large_file_of_json_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path)
    for name in ("config.json", "tokenizer.json"):
        os.truncate(tmp_path / name, 20 << 30)
    silent = read(tmp_path).silent
    assert all("more than the" in sentence for sentence in silent)


def test_broken_pickles(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04 nothing")
    assert "not a PyTorch zip file" in read(tmp_path).silent[0]


def test_pickles_without_a_list_of_tensors(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/other", b"")
    assert read(tmp_path).silent == ("pytorch_model.bin: no data.pkl in it",)
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(64 << 20))
    assert "its list of tensors is longer" in read(tmp_path).silent[0]


def compressed(path: Path, method: int) -> bytes:
    """The zip of a PyTorch file whose list of tensors is compressed in this way."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"fc.weight": 0, "more": "x" * 100}))
    return path.read_bytes()


def test_encrypted_pickles(tmp_path: Path) -> None:
    """The bit for it stands twice: before the member and in the list of members."""
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    file = tmp_path / "pytorch_model.bin"
    data = bytearray(compressed(file, zipfile.ZIP_STORED))
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + place] |= 1
    file.write_bytes(data)
    assert "is encrypted" in read(tmp_path).silent[0]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_pickles_of_every_compression(tmp_path: Path, method: int) -> None:
    """Every byte in turn: some damage is not seen, none is raised."""
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    file = tmp_path / "pytorch_model.bin"
    whole = compressed(file, method)
    seen: set[str] = set()
    for place in range(len(whole)):
        file.write_bytes(mutated(whole, [(place, whole[place] ^ 0xFF)]))
        seen.update(read(tmp_path).silent)
    assert len(seen) > 5


def test_an_index_larger_than_any_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(b"")
    os.truncate(index, 240 << 20)
    assert "more than the 67108864 that are read" in read(tmp_path).silent[0]
    index.write_text('{"x": [' + "[]," * 5_000_000 + "[]]}")
    assert "too large to be read" in read(tmp_path).silent[0]
    places = {f"w{number}": f"m{number}" for number in range(10_001)}
    index.write_text(json.dumps({"weight_map": places}))
    assert "it names 10001 files" in read(tmp_path).silent[0]


def test_headers_of_safetensors_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_VALUES", 4_000)
    monkeypatch.setattr(tensors, "MOST_TENSORS", 500)
    folder(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes((90 << 20).to_bytes(8, "little"))
    os.truncate(file, 1 << 30)
    assert "too large to be one" in read(tmp_path).silent[0]
    for entry, count, words in (
        ('"%d":{"dtype":"F16","shape":[1],"data_offsets":[0,0]}', 1_001, "too large"),
        ('"%d":0', 501, "501 tensors, more than the 500 that are read"),
    ):
        text = "{" + ",".join(entry % number for number in range(count)) + "}"
        file.write_bytes(len(text).to_bytes(8, "little") + text.encode())
        assert words in read(tmp_path).silent[0]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_json_of_many_values_takes_little_memory(tmp_path: Path, name: str) -> None:
    folder(tmp_path)
    count = 2_500_000 if name != "tokenizer.json" else 20_000_000
    (tmp_path / name).write_text('{"x": [' + "[]," * count + "[]]}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(tmp_path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400 << 10  # KiB


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": {}}', '{"weight_map": {"w": 1}}'])
def test_an_index_that_names_nothing(tmp_path: Path, index: str) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    found = read(tmp_path)
    assert found.silent[0].startswith("model.safetensors.index.json: ")
    assert found.weight_bytes == 1024


def test_a_header_of_gigabytes_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    array = string("k") + struct.pack("<IIQ", 9, 10, 1 << 29)
    with file.open("wb") as output:
        output.write(header(0, 3, array))
        output.truncate(10 << 30)
    assert "is longer than" in read(file).silent[0]


def mutated(data: bytes, places: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for place, value in places:
        changed[place % len(changed)] = value
    return bytes(changed)


CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=12)
GGUF = gguf(llama_facts(), {"token_embd.weight": (8, 64), "blk.0.attn_q.weight": (4, 4)})
TENSORS = safetensors({"fc.weight": (4, 12), "midlayer.w": (4, 4)})


@many
@given(data=st.binary(max_size=400))
@pytest.mark.parametrize("start", [b"", b"GGUF\3\0\0\0", GGUF[:200]])
def test_any_bytes_as_gguf(tmp_path: Path, start: bytes, data: bytes) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(start + data)
    read(file)


@many
@given(places=CHANGES, length=st.integers(0, len(GGUF)))
def test_mutated_gguf(tmp_path: Path, places: list[tuple[int, int]], length: int) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(mutated(GGUF, places)[: length or None])
    read(file)


@many
@given(places=CHANGES, length=st.integers(0, len(TENSORS)))
def test_mutated_safetensors(tmp_path: Path, places: list[tuple[int, int]], length: int) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(mutated(TENSORS, places)[: length or None])
    read(tmp_path)


@many
@given(places=CHANGES)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_mutated_json(tmp_path: Path, name: str, places: list[tuple[int, int]]) -> None:
    folder(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(mutated(whole, places))
    read(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *SMALL,
        "text_config",
        "transformer_layer_config",
        "rope_scaling",
        "layer_types",
        "dflash_config",
        "eagle_config",
        "eagle_aux_hidden_state_layer_ids",
        "draft_vocab_size",
        "num_nextn_predict_layers",
        "mtp_config",
        "quantization_config",
        "block_size",
        "speculators_model_type",
        "medusa_num_heads",
        "mask_token_id",
        "head_dim",
        "kv_lora_rank",
    ]
)


@many
@given(config=st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON)))
def test_any_values_in_a_config(tmp_path: Path, config: dict[str, object]) -> None:
    folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SMALL | config))
    read(tmp_path)


def test_a_file_that_got_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf(llama_facts())[:60])
    real = os.fstat

    def longer(handle: int) -> os.stat_result:
        fields = list(real(handle))
        fields[6] = 1 << 20
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", longer)
    assert "got shorter" in read_gguf(file).problem


def test_nothing_at_all_is_raised_as_unreadable(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"nothing")
    with pytest.raises(Unreadable, match="not a GGUF file"):
        read_gguf(tmp_path / "x.gguf")
