"""Flags of llama-server b11549 that CommonParams can express: HTTP, chat, logs."""

from adapters.embedded.compound import effort, hosts, key_lines, keys, names, template_values
from adapters.embedded.kind import Flag, directory, file, switch, toggle, value
from adapters.embedded.value import (
    choice,
    members,
    plain,
    real,
    three_way,
    truth,
    whole,
)

REASONING_FORMATS: dict[str, object] = {
    **members("COMMON_REASONING_FORMAT", "none auto deepseek"),
    "deepseek-legacy": "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
}
reasoning_format = choice(REASONING_FORMATS, "Unknown reasoning format: {}")
reasoning = three_way(
    "--reasoning",
    {"enable_reasoning": 1, "default_template_kwargs": {"enable_thinking": "true"}},
    {"enable_reasoning": 0, "default_template_kwargs": {"enable_thinking": "false"}},
    {"enable_reasoning": -1},
)
rerank = {"embedding": True, "pooling_type": "LLAMA_POOLING_TYPE_RANK"}


def preserve(text: str) -> dict[str, object]:
    kept = "true" if truth(text) else "false"
    return {
        "default_template_kwargs": {"preserve_reasoning": kept},
        "preserve_reasoning_specified": True,
    }


def stop(text: str) -> list[str]:
    return [text]


def idle(text: str) -> int:
    seconds = whole(text)
    if seconds == 0 or seconds < -1:
        raise ValueError("invalid value: cannot be 0 or less than -1")
    return seconds


def slots(text: str) -> int:
    count = whole(text)
    if count == 0:
        raise ValueError("error: invalid value for n_parallel\n")
    return count


SERVING: tuple[Flag, ...] = (
    value("-np --parallel", "N", "n_parallel", slots, "LLAMA_ARG_N_PARALLEL"),
    toggle(
        "-cb --cont-batching",
        "-nocb --no-cont-batching",
        "cont_batching",
        "LLAMA_ARG_CONT_BATCHING",
    ),
    value("-a --alias", "STRING", "model_alias", names, "LLAMA_ARG_ALIAS"),
    value("--tags", "STRING", "model_tags", names, "LLAMA_ARG_TAGS"),
    value("--host", "HOST", "hostnames", hosts, "LLAMA_ARG_HOST"),
    value("--port", "PORT", "port", whole, "LLAMA_ARG_PORT"),
    switch("--reuse-port", "reuse_port", "LLAMA_ARG_REUSE_PORT"),
    value("--path", "PATH", "public_path", plain, "LLAMA_ARG_STATIC_PATH"),
    value("--cors-origins", "ORIGINS", "cors_origins", plain, "LLAMA_ARG_CORS_ORIGINS"),
    value("--cors-methods", "METHODS", "cors_methods", plain, "LLAMA_ARG_CORS_METHODS"),
    value("--cors-headers", "HEADERS", "cors_headers", plain, "LLAMA_ARG_CORS_HEADERS"),
    toggle(
        "--cors-credentials",
        "--no-cors-credentials",
        "cors_credentials",
        "LLAMA_ARG_CORS_CREDENTIALS",
    ),
    value("--api-prefix", "PREFIX", "api_prefix", plain, "LLAMA_ARG_API_PREFIX"),
    value("--ui-config --webui-config", "JSON", "ui_config_json", plain, "LLAMA_ARG_UI_CONFIG"),
    file(
        "--ui-config-file --webui-config-file",
        "ui_config_json",
        plain,
        "LLAMA_ARG_UI_CONFIG_FILE",
    ),
    toggle(
        "--ui-mcp-proxy --webui-mcp-proxy",
        "--no-ui-mcp-proxy --no-webui-mcp-proxy",
        "ui_mcp_proxy",
        "LLAMA_ARG_UI_MCP_PROXY",
    ),
    toggle("--ui --webui", "--no-ui --no-webui", "ui", "LLAMA_ARG_UI"),
    switch("--embedding --embeddings", "embedding", "LLAMA_ARG_EMBEDDINGS"),
    switch("--rerank --reranking", "", "LLAMA_ARG_RERANKING", rerank),
    value("--embd-normalize", "N", "embd_normalize", whole),
    value("--api-key", "KEY", "api_keys", keys, "LLAMA_API_KEY"),
    file("--api-key-file", "api_keys", key_lines, "LLAMA_ARG_API_KEY_FILE"),
    value("--ssl-key-file", "FNAME", "ssl_file_key", plain, "LLAMA_ARG_SSL_KEY_FILE"),
    value("--ssl-cert-file", "FNAME", "ssl_file_cert", plain, "LLAMA_ARG_SSL_CERT_FILE"),
    value("-to --timeout", "N", "timeout_read timeout_write", whole, "LLAMA_ARG_TIMEOUT"),
    value("--sse-ping-interval", "N", "sse_ping_interval", whole, "LLAMA_ARG_SSE_PING_INTERVAL"),
    value("--threads-http", "N", "n_threads_http", whole, "LLAMA_ARG_THREADS_HTTP"),
    toggle("--cache-prompt", "--no-cache-prompt", "cache_prompt", "LLAMA_ARG_CACHE_PROMPT"),
    value("--cache-reuse", "N", "n_cache_reuse", whole, "LLAMA_ARG_CACHE_REUSE"),
    switch("--metrics", "endpoint_metrics", "LLAMA_ARG_ENDPOINT_METRICS"),
    switch("--props", "endpoint_props", "LLAMA_ARG_ENDPOINT_PROPS"),
    toggle("--slots", "--no-slots", "endpoint_slots", "LLAMA_ARG_ENDPOINT_SLOTS"),
    directory("--slot-save-path", "slot_save_path", "LLAMA_ARG_SLOT_SAVE_PATH"),
    value("-sps --slot-prompt-similarity", "SIMILARITY", "slot_prompt_similarity", real),
    value("--sleep-idle-seconds", "SECONDS", "sleep_idle_seconds", idle),
    toggle("-e --escape", "--no-escape", "escape"),
    value("-r --reverse-prompt", "PROMPT", "antiprompt", stop),
    switch("-sp --special", "special"),
    toggle("--jinja", "--no-jinja", "use_jinja", "LLAMA_ARG_JINJA"),
    value("--chat-template", "JINJA_TEMPLATE", "chat_template", plain, "LLAMA_ARG_CHAT_TEMPLATE"),
    file("--chat-template-file", "chat_template", plain, "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    value(
        "--chat-template-kwargs",
        "STRING",
        "default_template_kwargs",
        template_values,
        "LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
    ),
    toggle(
        "--skip-chat-parsing",
        "--no-skip-chat-parsing",
        "force_pure_content_parser",
        "LLAMA_ARG_SKIP_CHAT_PARSING",
    ),
    toggle(
        "--prefill-assistant",
        "--no-prefill-assistant",
        "prefill_assistant",
        "LLAMA_ARG_PREFILL_ASSISTANT",
    ),
    value("--reasoning-format", "FORMAT", "reasoning_format", reasoning_format, "LLAMA_ARG_THINK"),
    value("-rea --reasoning", "[on|off|auto]", "", reasoning, "LLAMA_ARG_REASONING"),
    value(
        "--reasoning-effort",
        "LEVEL",
        "default_template_kwargs",
        effort,
        "LLAMA_ARG_REASONING_EFFORT",
    ),
    toggle(
        "--reasoning-preserve",
        "--no-reasoning-preserve",
        "",
        "LLAMA_ARG_REASONING_PRESERVE",
        preserve,
    ),
    directory("--log-prompts-dir", "path_prompts_log_dir"),
    switch("-v --verbose --log-verbose", "verbosity", sets=2**31 - 1),
    value("-lv --verbosity --log-verbosity", "N", "verbosity", whole, "LLAMA_ARG_LOG_VERBOSITY"),
)
