"""The methods of the literature, each with an example profile: the rows of docs/methods.md.

Which engine can run a row is not written here: `adapters/support.py` asks the adapters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True)
class Entry:
    """`papers` are titles and addresses, `text` says what the method is.

    `keys` are the keys of `speculation` that make the example this method; `variants` are other
    values for engines that refuse the example's own. Without `speculation` no engine has the
    method, and `instead` names what to use.
    """

    name: str
    papers: tuple[tuple[str, str], ...]
    text: str
    speculation: Mapping[str, JsonValue] | None = None
    keys: tuple[str, ...] = ("method",)
    variants: tuple[Mapping[str, JsonValue], ...] = ()
    instead: str = ""


def _arxiv(*papers: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Titles and addresses, from titles and arXiv numbers."""
    return tuple((title, ARXIV + number) for title, number in papers)


_SAXENA = (("Saxena", "https://github.com/apoorvumang/prompt-lookup-decoding"),)
_TREE: Final[Mapping[str, JsonValue]] = {"branches": 4, "tokens": 16}
_SMALLEST_TREE: Final[tuple[Mapping[str, JsonValue], ...]] = (
    {"tree": {"branches": 4, "tokens": 4}},
)
_CHAIN: Final[Mapping[str, JsonValue]] = {"gamma": 4}

LITERATURE: Final[tuple[Entry, ...]] = (
    Entry(
        "Draft model",
        _arxiv(("Leviathan et al.", "2211.17192"), ("Chen et al.", "2302.01318")),
        "A smaller model of the same vocabulary writes gamma tokens, the target verifies them in "
        "one pass.",
        {"method": "draft_model", **_CHAIN},
    ),
    Entry(
        "Distilled draft model",
        _arxiv(("DistillSpec", "2310.08461"), ("AdaSPEC", "2510.19779")),
        "A training recipe, not a way of serving: the draft learns the target's own output. The "
        "checkpoint is an ordinary draft model; give it a name of its own among the drafts.",
        {"method": "draft_model", **_CHAIN, "draft": "distilled"},
    ),
    Entry(
        "Draft model with another vocabulary",
        _arxiv(("Timor et al.", "2502.05202")),
        "Draft and target have different tokenizers; the engine translates between them.",
        {"method": "draft_model", **_CHAIN, "other_vocabulary": True},
        ("method", "other_vocabulary"),
    ),
    Entry(
        "Parallel draft model (PARD)",
        _arxiv(("PARD", "2504.18583")),
        "A draft model trained to write all gamma tokens in one pass, with mask tokens.",
        {"method": "draft_model", **_CHAIN, "parallel": True},
        ("method", "parallel"),
    ),
    Entry(
        "Medusa",
        _arxiv(("Medusa", "2401.10774")),
        "Heads on the target's last state, one for each position ahead. The paper's typical "
        "acceptance is lossy; drafts are accepted by the exact rule here.",
        {"method": "medusa", **_CHAIN},
    ),
    Entry(
        "MLP speculator",
        _arxiv(("Wertheimer et al.", "2404.19124")),
        "A chain of small MLPs on the target's last state, each fed with the token before.",
        {"method": "mlp_speculator", "gamma": 3},
    ),
    Entry(
        "EAGLE",
        _arxiv(("EAGLE", "2401.15077")),
        "A one-layer head that guesses the target's next hidden state; here a chain of guesses.",
        {"method": "eagle", **_CHAIN},
    ),
    Entry(
        "EAGLE-2, dynamic tree",
        _arxiv(("EAGLE-2", "2406.16858")),
        "The same head; its most confident guesses grow into a tree that is verified at once.",
        {"method": "eagle", **_CHAIN, "tree": dict(_TREE)},
        ("method", "tree"),
        variants=_SMALLEST_TREE,
    ),
    Entry(
        "EAGLE-3, chain",
        _arxiv(("EAGLE-3", "2503.01840")),
        "A head on three of the target's layers, trained on its own guesses.",
        {"method": "eagle3", **_CHAIN},
    ),
    Entry(
        "EAGLE-3, tree",
        _arxiv(("EAGLE-3", "2503.01840")),
        "The same head with EAGLE-2's tree.",
        {"method": "eagle3", **_CHAIN, "tree": dict(_TREE)},
        ("method", "tree"),
        variants=_SMALLEST_TREE,
    ),
    Entry(
        "P-EAGLE",
        _arxiv(("P-EAGLE", "2602.01469")),
        "An EAGLE-3 head trained to write all gamma tokens in one pass.",
        {"method": "eagle3", **_CHAIN, "parallel": True},
        ("method", "parallel"),
    ),
    Entry(
        "Multi-token prediction (MTP)",
        _arxiv(("DeepSeek-V3", "2412.19437")),
        "Layers of the target's own checkpoint, trained with it, guess the tokens after the next.",
        {"method": "mtp", "gamma": 1},
    ),
    Entry(
        "Block diffusion drafter (DFlash)",
        _arxiv(("DFlash", "2602.06036")),
        "A small diffusion model writes a whole block of guesses in one pass.",
        {"method": "dflash", "gamma": 7},
    ),
    Entry(
        "Block drafter with a Markov head (DSpark)",
        (("DSpark", "https://github.com/deepseek-ai/DeepSpec"),),
        "A block drafter whose light sequential head lets each guess see the one before it.",
        {"method": "dspark", "gamma": 7, "draft": "dspark"},
    ),
    Entry(
        "Prompt lookup (n-gram)",
        _SAXENA,
        "Copies what followed the same tokens earlier. No weights. `pool: request` keeps it to the "
        "request's own tokens where an engine can; left out, each looks where it looks by itself.",
        {"method": "ngram", **_CHAIN, "lookup": {"min": 3, "max": 3}},
    ),
    Entry(
        "Prompt lookup in a shared pool",
        _SAXENA,
        "Copies what followed the same tokens in any request so far. Drafts depend on what was "
        "served before, the output does not.",
        {"method": "ngram", **_CHAIN, "lookup": {"min": 16, "max": 16}, "pool": "shared"},
        ("method", "pool"),
    ),
    Entry(
        "Prompt lookup on the GPU",
        _SAXENA,
        "The same search as a kernel: the scheduler need not wait for the host.",
        {"method": "ngram", **_CHAIN, "lookup": {"min": 3, "max": 3}, "device": "gpu"},
        ("method", "device"),
    ),
    Entry(
        "Suffix decoding",
        _arxiv(("SuffixDecoding", "2411.04975")),
        "Suffix trees over this and earlier requests, with guess lengths by frequency.",
        {"method": "suffix", "gamma": 8},
    ),
    Entry(
        "Retrieval (REST)",
        _arxiv(("REST", "2311.08252")),
        "Guesses come from a datastore built before serving.",
        instead="`method: ngram` with `pool: shared` on SGLang from 0.5.11, which also takes a "
        "corpus of texts beforehand (`speculative-ngram-external-corpus-path`); elsewhere "
        "`method: suffix`, whose tree or global pool holds what earlier requests left",
    ),
    Entry(
        "Lookahead decoding",
        _arxiv(("Lookahead", "2402.02057")),
        "The target makes n-grams on the side by Jacobi iteration and verifies them.",
        {"method": "lookahead", "gamma": 4, "window": 5, "candidates": 5},
        ("method", "window", "candidates"),
    ),
    Entry(
        "Self-speculation (layer skip)",
        _arxiv(("Draft & Verify", "2309.08168"), ("LayerSkip", "2404.16710")),
        "The target drafts with some of its layers left out.",
        instead="`method: mtp` where the checkpoint has such layers: also a part of the target "
        "that drafts; otherwise `method: eagle3`, one layer on the target's states",
    ),
    Entry(
        "Tree verification (SpecInfer)",
        _arxiv(("SpecInfer", "2305.09781")),
        "A tree of guesses under one attention mask. Profiles write it as `tree` of `eagle` and "
        "`eagle3`; a tree made by several draft models, as in the paper, is in none of these "
        "engines.",
        {"method": "eagle3", **_CHAIN, "tree": dict(_TREE)},
        ("method", "tree"),
        variants=_SMALLEST_TREE,
    ),
    Entry(
        "Gamma by batch size",
        _arxiv(("SmartSpec", "2406.14066")),
        "Fewer guesses as the batch grows, none at the end. The paper sets the number by goodput; "
        "a `schedule` is a table.",
        {
            "method": "eagle3",
            **_CHAIN,
            "schedule": [
                {"batch": "1-8", "gamma": 4},
                {"batch": "9-32", "gamma": 2},
                {"batch": "33+", "gamma": 0},
            ],
        },
        ("gamma", "schedule"),
        variants=(
            {"schedule": [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 1}]},
            {"schedule": [{"batch": "1-8", "gamma": 4}, {"batch": "9+", "gamma": 0}]},
        ),
    ),
    Entry(
        "A proposer of your own",
        (),
        "A class in the engine's environment proposes the tokens; the engine verifies them.",
        {"method": "custom", **_CHAIN, "proposer": "my_package.MyProposer"},
        ("method", "proposer"),
    ),
)
