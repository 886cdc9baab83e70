"""Flags that llama-server b11549 has removed, and those that CommonParams cannot express."""

from adapters.embedded.kind import Flag, refused, removed

HERE = "llama-server knows this argument, but the embedded server cannot honour it: "
DOWNLOAD = HERE + "it loads local files only"
LOG = HERE + "the log of the engine library cannot be set from outside"
ROUTER = HERE + "it serves one model, never a router's many"
TOOL = HERE + "it is an errand of the llama-server program"
PROGRAMS = HERE + "it runs no other programs"
FIELD = HERE + "the engine library offers no such setting"

PRESETS = refused(
    "--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default"
    " --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default"
    " --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default",
    DOWNLOAD,
)

REFUSED: tuple[Flag, ...] = (
    removed(
        "--draft --draft-n --draft-max",
        "use --spec-draft-n-max or --spec-ngram-mod-n-max",
        "LLAMA_ARG_DRAFT_MAX",
    ),
    removed(
        "--draft-min --draft-n-min",
        "use --spec-draft-n-min or --spec-ngram-mod-n-min",
        "LLAMA_ARG_DRAFT_MIN",
    ),
    removed("--spec-ngram-size-n", "use the respective --spec-ngram-*-size-n"),
    removed("--spec-ngram-size-m", "use the respective --spec-ngram-*-size-m"),
    removed("--spec-ngram-min-hits", "use the respective --spec-ngram-*-min-hits"),
    refused("-mu --model-url", DOWNLOAD, "LLAMA_ARG_MODEL_URL"),
    refused("-dr --docker-repo", DOWNLOAD, "LLAMA_ARG_DOCKER_REPO"),
    refused("-hf -hfr --hf-repo", DOWNLOAD, "LLAMA_ARG_HF_REPO"),
    refused("-hff --hf-file", DOWNLOAD, "LLAMA_ARG_HF_FILE"),
    refused("-hft --hf-token", DOWNLOAD),
    refused("-mmu --mmproj-url", DOWNLOAD, "LLAMA_ARG_MMPROJ_URL"),
    refused("--spec-draft-hf -hfd -hfrd --hf-repo-draft", DOWNLOAD, "LLAMA_ARG_SPEC_DRAFT_HF_REPO"),
    PRESETS,
    refused("--models-dir", ROUTER, "LLAMA_ARG_MODELS_DIR"),
    refused("--models-preset", ROUTER, "LLAMA_ARG_MODELS_PRESET"),
    refused("--models-max", ROUTER, "LLAMA_ARG_MODELS_MAX"),
    refused("--models-autoload / --no-models-autoload", ROUTER, "LLAMA_ARG_MODELS_AUTOLOAD"),
    refused("--log-disable", LOG),
    refused("--log-file", LOG, "LLAMA_ARG_LOG_FILE"),
    refused("--log-jsonl / --no-log-jsonl", LOG, "LLAMA_ARG_LOG_JSONL"),
    refused("--log-colors", LOG, "LLAMA_ARG_LOG_COLORS"),
    refused("--log-prefix / --no-log-prefix", LOG, "LLAMA_ARG_LOG_PREFIX"),
    refused("--log-timestamps / --no-log-timestamps", LOG, "LLAMA_ARG_LOG_TIMESTAMPS"),
    refused("-cl --cache-list", TOOL),
    refused("--completion-bash", TOOL),
    refused("--list-devices", TOOL),
    refused("--tools", PROGRAMS, "LLAMA_ARG_TOOLS"),
    refused("--tools-runtime", PROGRAMS, "LLAMA_ARG_TOOLS_RUNTIME"),
    refused("--mcp-servers-config", PROGRAMS, "LLAMA_ARG_MCP_SERVERS_CONFIG"),
    refused("--mcp-servers-json", PROGRAMS, "LLAMA_ARG_MCP_SERVERS_JSON"),
    refused("-ag --agent / -no-ag --no-agent", PROGRAMS, "LLAMA_ARG_AGENT"),
    refused("-dev --device", FIELD, "LLAMA_ARG_DEVICE"),
    refused("--rpc", FIELD, "LLAMA_ARG_RPC"),
    refused("--override-kv", FIELD),
    refused("--control-vector", FIELD),
    refused("--control-vector-scaled", FIELD),
    refused("--control-vector-layer-range", FIELD),
    refused("-dt --defrag-thold", FIELD, "LLAMA_ARG_DEFRAG_THOLD"),
    refused("--spm-infill", FIELD),
    refused("--top-nsigma --top-n-sigma", FIELD),
    refused("--dry-sequence-breaker", FIELD),
    refused("-l --logit-bias", FIELD),
)
