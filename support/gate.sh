#!/usr/bin/env bash
# The gate in real time: the whole service on a mock that sleeps for as long as its steps would take, and the
# load generator against it. Usage: gate.sh FOLDER, where the programs are. Ends as `loadgen gate` does.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
# shellcheck source=support/lib.sh
. support/lib.sh
bin=$(realpath "${1:?usage: gate.sh FOLDER}") || exit 2
port=${PORT:-8000}
work=$(mktemp -d)

"$bin/up" --backend mock --port "$port" >"$work/log" 2>&1 &
service=$!
stop() {
    kill -INT "$service" 2>/dev/null
    wait "$service" 2>/dev/null
    rm -rf "$work"
}
trap stop EXIT

ready() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
for _ in $(seq 150); do
    ready && break
    kill -0 "$service" 2>/dev/null || break
    sleep 0.2
done
ready || {
    cat "$work/log" >&2
    say "the service did not start" >&2
    exit 2
}
sleep 1
"$bin/loadgen" gate --url "http://127.0.0.1:$port"
