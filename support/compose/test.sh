#!/usr/bin/env bash
# Brings the stack of docker-compose.yml up for real and mistreats it: several gateways under load, crashes,
# replacements, stops with streams open, a model on half a processor. Leaves nothing behind but images. Exit
# code 77: this machine cannot run it, and why has been said.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=support/lib.sh
. support/lib.sh
for part in images stack client faults; do
    # shellcheck source=/dev/null
    . "support/compose/$part.sh"
done

PROJECT=cadence-test-$$
WORK=$(mktemp -d)
FAULTS=0
MODEL_FILE=$(realpath "${1:?usage: test.sh MODEL.gguf}") || exit 1
# Nothing of the caller's own settings. Port 0 is any that is free.
unset "${!CADENCE_@}" "${!COMPOSE_@}" ENGINE_MEMORY MODEL BIND HOST_ENGINE
export TAG=$PROJECT PORT=0 DRAIN_MS=3000

stage() { say "[$((SECONDS / 60))m$((SECONDS % 60))s] $*"; }

bad() {
    FAULTS=$((FAULTS + 1))
    say "  WRONG: $*"
}

skip() {
    say "SKIPPED: the compose test did not run: $*"
    exit 77
}

clean_up() {
    local code=$?
    if [ "$code" != 0 ] && [ "$code" != 77 ]; then
        tail -25 "$WORK/compose.log" 2>/dev/null
        docker ps -a --filter "label=com.docker.compose.project=$PROJECT"
        for id in $(containers); do
            say "last words of $(service_of "$id"):"
            docker logs --tail 15 "$id" 2>&1
        done
    fi
    # shellcheck disable=SC2046 # Process ids.
    kill $(jobs -p) 2>/dev/null
    [ -z "${COMPOSE[*]:-}" ] || { down; remove_images; }
    rm -rf "$WORK"
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# Streams pass as they come, over all gateways.
test_streams() {
    local begin whole number
    ask stream 60
    [ "$(verdict stream)" = whole ] || bad "a stream: $(verdict stream)"
    read -r _ _ begin whole <"$WORK/stream.line"
    say "  first byte after $begin s, last after $whole s"
    awk -v begin="$begin" -v whole="$whole" 'BEGIN { exit !(begin < whole / 2) }' || bad "the stream was buffered"
    for number in {1..6}; do ask "spread.$number" 60 & done
    wait
    say "  served by: $(gateways_of spread | tr '\n' ' ')"
    [ "$(gateways_of spread | wc -l)" = 3 ] || bad "not all gateways serve"
    until_within 10 "nothing is left over" is_idle
}

# A client that leaves is noticed behind the balancer.
test_leaving() {
    ask gone 2000 3 &
    until_within 10 "the engine is busy" is_busy
    wait $!
    until_within 10 "the engine is free again" is_idle
}

# More and fewer gateways while clients stream: nobody notices, but for an honest refusal.
test_scaling() {
    local heard
    up 1 --no-recreate
    start_load 6
    sleep 2
    up 3 --no-recreate
    until_within 30 "three gateways serve" spread_over 3
    up 1 --no-recreate
    sleep 3
    heard=$(end_load)
    say "  the clients heard:"
    echo "$heard"
    cat "$WORK"/load.*.body | sed -n 's/^{"error":.*"code":"\([a-z_]*\)".*/\1/p' | sort | uniq -c
    ! grep -qvE '^ *[0-9]+ (whole|refused)$' <<<"$heard" || bad "a client lost an answer"
    grep -q whole <<<"$heard" || bad "nobody was served"
}

spread_over() { [ "$(gateways_of load | wc -l)" -ge "$1" ]; }

# One real model, on half of one processor: slow, but not hung.
test_model() {
    local begun=$EPOCHREALTIME
    COMPOSE_PROFILES=default MODEL=$MODEL_FILE ENGINE_CPUS=0.5 ENGINE_CPUSET=0 up 1
    until_within 120 "all services healthy" all_healthy 4
    find_url
    ask model 8
    [ "$(verdict model)" = whole ] || bad "the model's answer: $(verdict model)"
    say "  on half a processor it said: $(sed -n 's/.*"content":"\([^"]*\)".*/\1/p' "$WORK/model.body" | tr -d '\n')"
    grep -q "\"model\":\"$(basename "$MODEL_FILE" .gguf)\"" "$WORK/model.body" || bad "the model has another name"
    docker logs "$(containers engine-worker)" 2>&1 | grep -q 'threads=1$' || bad "llama.cpp has too many threads"
    check_containers
    say "  $(since "$begun") ms in all"
}

# An engine worker that runs on this machine, as on a Mac with Metal.
test_host_engine() {
    local engine address
    : >"$WORK/engine.log"
    "$BINARIES/engine-worker" --backend mock --listen 0.0.0.0:0 --metrics-listen '' \
        >"$WORK/engine.log" 2>&1 &
    engine=$!
    until_within 20 "the engine listens" grep -q 'address=' "$WORK/engine.log"
    address=$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/engine.log" | sed -n 's/.*address=0\.0\.0\.0:\([0-9]*\).*/\1/p')
    COMPOSE_PROFILES=host-engine HOST_ENGINE=host.docker.internal:$address up 1
    until_within 60 "all services healthy" all_healthy 4
    until_within 20 "an answer" answers
    kill "$engine"
    wait "$engine" || bad "the engine on the host ended with $?"
}

docker info >/dev/null 2>&1 || skip "no Docker engine answers"
find_compose
stage "images"
base_image
build_binaries
build_images
check_images
check_manifests

stage "three gateways, no model"
export COMPOSE_PROFILES=mock
up 3
until_within 60 "all services healthy" all_healthy 6
find_url
check_containers
stage "streams"
test_streams
stage "a client leaves"
test_leaving
stage "1 -> 3 -> 1 gateways under load"
test_scaling
up 3 --no-recreate
test_crashes
test_replacements
test_stop
stage "down"
down
stage "an engine on the host"
test_host_engine
down
stage "a real model"
test_model
down
[ "$FAULTS" = 0 ] || fail "the compose test found $FAULTS faults"
stage "the compose test passed"
