#!/usr/bin/env bash
# serve_external.sh URL PORT [OPTION...]: draftgate, everything on, in front of one engine that it did not start.
#
# URL is the engine's, as http://127.0.0.1:8000; PORT is where clients are served, on loopback; options are those of
# `draftgate serve`. Classification, picking, metrics and the access log are on; the log goes to standard error.
# It serves until SIGTERM or ctrl-C, lets running requests end, and leaves nothing behind.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n 's/^# \{0,1\}//; 2p' "$0" >&2
    exit 2
fi
url=${1%/} port=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command=$(command -v "$root/.venv/bin/draftgate" || command -v draftgate) || {
    echo "draftgate is not installed: run scripts/setup" >&2
    exit 1
}
folder=$(mktemp -d)
child=
end() {
    if [ -n "$child" ] && kill -TERM "$child" 2>/dev/null; then
        wait "$child" || true
    fi
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# The engine's own names for its models are the fleet's.
models=$(python3 - "$url" <<'PYTHON'
import json, sys, urllib.request

with urllib.request.urlopen(f"{sys.argv[1]}/v1/models", timeout=10) as answer:
    print("\n".join(model["id"] for model in json.load(answer)["data"]))
PYTHON
) || { echo "$url/v1/models does not answer as OpenAI's does" >&2; exit 1; }

python3 - "$url" "$port" "$root" "$models" > "$folder/fleet.yaml" <<'PYTHON'
import json, sys

url, port, root, models = sys.argv[1:5]
names = models.splitlines()
fleet = {
    "fleet": "external",
    "models": {f"m{i}": {"target": "external/model", "names": [name]} for i, name in enumerate(names)},
    "engines": {"vllm": {"version": "0.32.0"}},
    "workers": [
        {"name": f"plain-{index}", "engine": "vllm", "model": f"m{index}", "profile": "plain", "url": url}
        for index, name in enumerate(names)
    ],
    "types": [
        {"type": "json", "when": {"response_format": ["json_object", "json_schema"]}},
        {"type": "code_edit", "when": {"fenced": ">=0.3", "last_user": r"(?i)\b(fix|refactor|rename|edit)\b"}},
        {"type": "copy", "when": {"overlap": ">=0.3"}},
        {"type": "creative", "when": {"temperature": ">=0.9"}},
        {"type": "chat"},
    ],
    "routes": {kind: ["plain"] for kind in ("json", "code_edit", "copy", "creative", "chat")},
    "profiles": f"{root}/profiles",
    "gate": {"required": False},
    "router": {"listen": f"127.0.0.1:{port}", "admin": "127.0.0.1:0"},
}
print(json.dumps(fleet, indent=1))
PYTHON

"$command" serve "$folder/fleet.yaml" "$@" &
child=$!
wait "$child"
