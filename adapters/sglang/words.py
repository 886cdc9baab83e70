"""SGLang's words for methods, and the options that draftgate writes itself."""

from collections.abc import Mapping
from typing import Final

from adapters.dialect import Release

# Method → algorithm and the first version that can be told so. 0.5.9 has /server_info, which 0.4.9
# has not, and other options for n-grams than 0.5.10. NEXTN is resolved to EAGLE, which takes the
# target's own layers where no draft path is given (arg_groups/speculative_hook.py).
ALGORITHMS: Final[Mapping[str, tuple[str, Release]]] = {
    "eagle": ("EAGLE", (0, 5, 9)),
    "eagle3": ("EAGLE3", (0, 5, 9)),
    "mtp": ("NEXTN", (0, 5, 9)),
    "draft_model": ("STANDALONE", (0, 5, 9)),
    "ngram": ("NGRAM", (0, 5, 10)),
    "dflash": ("DFLASH", (0, 5, 11)),
    "dspark": ("DSPARK", (0, 5, 16)),
}
EAGLE_FAMILY: Final = ("eagle", "eagle3", "mtp")
# What the family runs as, as /server_info tells it.
RESOLVED: Final[Mapping[str, tuple[str, ...]]] = {
    "eagle": ("EAGLE",),
    "eagle3": ("EAGLE3",),
    "mtp": ("EAGLE", "FROZEN_KV_MTP"),
    "draft_model": ("STANDALONE",),
    "ngram": ("NGRAM",),
    "dflash": ("DFLASH",),
    "dspark": ("DSPARK",),
}
NEAREST: Final[Mapping[str, str]] = {
    "suffix": "nearest: method ngram, with a corpus of your own texts in "
    "engine.sglang.speculative-ngram-external-corpus-path",
    "medusa": "nearest: method eagle3 with a head trained for this target",
    "mlp_speculator": "nearest: method eagle3 with a head trained for this target",
    "lookahead": "nearest: method ngram, which needs no weights either",
    "custom": "nearest: method ngram or draft_model; SGLang finds proposers of others by the name "
    "that a plugin registers, not by their class",
    "dflash": "nearest: method eagle3; DFLASH came with SGLang 0.5.11",
    "dspark": "nearest: method dflash or eagle3; DSPARK came with SGLang 0.5.16",
}

PARTIAL: Final = (
    "SGLang takes num-steps, eagle-topk and num-draft-tokens together or not at all: with some of "
    "them it dies while starting (TypeError or AssertionError)"
)
TRIPLE: Final = (
    "speculative-num-steps",
    "speculative-eagle-topk",
    "speculative-num-draft-tokens",
)
_FLEET = "it comes from models: in the fleet"
_PLAIN_HTTP = "remove it: draftgate speaks plain HTTP to its workers on loopback"
_PROFILE = "it comes from the profile's speculation"
_DRAFTS = "it comes from models.<name>.drafts"
OURS: Final[Mapping[str, str]] = {
    "model-path": _FLEET,
    "revision": _FLEET,
    "served-model-name": "it is the model's name in the fleet",
    "context-length": "it comes from models.<name>.context",
    "host": "workers listen on loopback",
    "port": "it comes from workers: in the fleet",
    "ssl-certfile": _PLAIN_HTTP,
    "ssl-keyfile": _PLAIN_HTTP,
    "enable-metrics": "it is always on: the router needs the counters",
    "api-key": "secrets do not belong in argv, and draftgate could not ask the engine",
    "admin-api-key": "secrets do not belong in argv, and draftgate could not ask the engine",
    "config": "options in a second file would escape every check: write them here",
    "help": "it would print and end",
    "grpc-mode": "the router speaks HTTP",
    "smg-grpc-mode": "the router speaks HTTP",
    "skip-tokenizer-init": "the router sends text",
    "speculative-algorithm": _PROFILE,
    "speculative-draft-model-path": _DRAFTS,
    "speculative-num-steps": "set speculation.gamma: all three of its numbers follow",
    "speculative-eagle-topk": "set speculation.tree.branches",
    "speculative-num-draft-tokens": "set speculation.gamma, or speculation.tree.tokens",
    "speculative-dflash-block-size": "set speculation.gamma",
    "speculative-dspark-block-size": "set speculation.gamma",
    "speculative-draft-kv-cache-dtype": "set speculation.kv_cache_dtype",
    "speculative-ngram-min-bfs-breadth": "it is always 1: one guess at each position",
    "speculative-ngram-max-bfs-breadth": "it is always 1: one guess at each position",
    "speculative-ngram-max-trie-depth": "set speculation.lookup.max",
    "speculative-adaptive": "set speculation.schedule",
    "speculative-adaptive-config": "set speculation.schedule",
    "uno-lora-path": "UNO is none of the profile's methods",
}

# Options for drafting that do nothing without their methods; SGLang takes them in silence.
_WITH_DRAFT = frozenset({*ALGORITHMS} - {"ngram"})
OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "speculative-ngram-": frozenset({"ngram"}),
    "speculative-dspark-": frozenset({"dspark"}),
    "speculative-domino-": frozenset({"dflash"}),
    "speculative-dflash-": frozenset({"dflash"}),
    "speculative-draft-window-size": frozenset({"dflash", *EAGLE_FAMILY}),
    "speculative-draft-sink-size": frozenset({"dflash", *EAGLE_FAMILY}),
    "speculative-token-map": frozenset({"eagle", "mtp"}),
    "speculative-draft-": _WITH_DRAFT,
    "speculative-moe-": _WITH_DRAFT,
    "enable-multi-layer-eagle": frozenset(EAGLE_FAMILY),
    "speculative-": frozenset(ALGORITHMS),
}
