"""Tokens of an answer, from its last bytes. The bodies are as the engines sent them."""

import pytest

from adapters import ADAPTERS
from orchestrator.usage import Usage, UsageReader

CHAT = (
    b'{"id":"chatcmpl-1","choices":[{"index":0,"message":{"content":"%b"}}],"usage":'
    b'{"prompt_tokens":11,"total_tokens":18,"completion_tokens":7,"prompt_tokens_details":null}}'
)
TIMINGS = (
    b'data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":{"cache_n":0,'
    b'"prompt_n":9,"prompt_ms":35.1,"predicted_n":12,"predicted_ms":81.5,"draft_n":10,'
    b'"draft_n_accepted":8}}\n\ndata: [DONE]\n\n'
)
SPECULATIVE = (
    b'{"usage":{"prompt_tokens":5,"completion_tokens":9},"metrics":{"speculative_decoding":'
    b'{"mean_acceptance_length":2.25,"num_spec_steps":4,"num_accepted_draft_tokens":5,'
    b'"num_draft_tokens":16}}}'
)


def read(engine: str, *pieces: bytes) -> Usage | None:
    return UsageReader(ADAPTERS[engine].ANSWER_COUNTS)(pieces)


def test_a_whole_answer() -> None:
    assert read("vllm", CHAT % b"hello") == Usage(11, 7)


def test_an_answer_in_two_pieces() -> None:
    whole = CHAT % b"hello"
    for cut in range(len(whole)):
        assert read("vllm", whole[:cut], whole[cut:]) == Usage(11, 7)


def test_text_that_looks_like_a_count_is_text() -> None:
    quoted = rb"\"usage\":{\"completion_tokens\":99}"
    assert read("vllm", CHAT % quoted) == Usage(11, 7)
    assert read("vllm", b'{"choices":[{"text":"%b"}]}' % quoted) is None


def test_a_stream_of_llama_cpp_tells_its_timings() -> None:
    assert read("llama_cpp", TIMINGS) == Usage(None, 12, 10, 8)


def test_drafts_of_one_request() -> None:
    assert read("vllm", SPECULATIVE) == Usage(5, 9, 16, 5)


def test_a_stream_that_counts_on_says_its_last() -> None:
    events = b"".join(
        b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d}}\n\n' % number
        for number in range(1, 6)
    )
    assert read("vllm", events, b"data: [DONE]\n\n") == Usage(4, 5)


def test_anthropics_names() -> None:
    end = b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":15}}\n\n'
    assert read("vllm", end) == Usage(None, 15)


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n", b'{"usage":null}', b'{"usage":'])
def test_nothing_said(tail: bytes) -> None:
    assert read("llama_cpp", tail) is None
