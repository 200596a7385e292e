# shellcheck shell=bash
# Clients of the stack: curl, and a verdict on what it heard.

# ask NAME TOKENS [SECONDS]: one streamed answer of at most so many tokens, for which the client waits at most
# so long. Leaves NAME.head, NAME.body and NAME.line (curl's exit code, HTTP status, seconds to the first byte,
# seconds in all) in the folder of the run.
ask() {
    local into=$WORK/$1 line code=0
    line=$(curl -sN --max-time "${3:-60}" -D "$into.head" -o "$into.body" \
        -w '%{http_code} %{time_starttransfer} %{time_total}' -H 'content-type: application/json' \
        -d '{"messages":[{"role":"user","content":"What color is the sky?"}],"stream":true,"max_tokens":'"$2"'}' \
        "$URL/v1/chat/completions") || code=$?
    echo "$code $line" >"$into.line"
}

# What came of it: `whole`; `told`, of an error in band; `refused`, with a time to come back; or, of what nobody
# should see, a description.
verdict() {
    local into=$WORK/$1 code status
    read -r code status _ <"$into.line"
    if [ "$status" = 503 ] && grep -qi '^retry-after: [0-9]' "$into.head" && grep -q '"error"' "$into.body"; then
        echo refused
    elif [ "$code $status" = "0 200" ] && grep -q '"finish_reason":"' "$into.body" &&
        [ "$(tail -c 14 "$into.body")" = "data: [DONE]" ]; then
        echo whole
    elif [ "$code $status" = "0 200" ] && grep -q '^data: {"error":' "$into.body"; then
        echo told
    else
        echo "curl $code, status $status, ending in: $(tail -c 120 "$into.body" 2>/dev/null | tr '\n' ' ')"
    fi
}

# Whether one short request gets its whole answer.
answers() {
    find_url
    ask probe 2
    [ "$(verdict probe)" = whole ]
}

# start_load CLIENTS: each asks for one answer after another until `end_load`.
start_load() {
    local client
    rm -f "$WORK"/load.* "$WORK/load-ends"
    LOAD=()
    for ((client = 0; client < $1; client++)); do
        client_loop "$client" &
        LOAD+=($!)
    done
}

client_loop() {
    local number=0
    while [ ! -e "$WORK/load-ends" ]; do
        ask "load.$1.$((++number))" 12
        [ "$(verdict "load.$1.$number")" = whole ] || sleep 0.5
    done
}

# Counts what the clients heard, one line a kind, the most frequent first.
end_load() {
    local line
    touch "$WORK/load-ends"
    wait "${LOAD[@]}"
    for line in "$WORK"/load.*.line; do verdict "$(basename "$line" .line)"; done | sort | uniq -c | sort -rn
}

# The gateways that answered requests of that name.
gateways_of() { cat "$WORK/$1".*.head | sed -n 's/^x-cadence-gateway: \([a-z0-9]*\).*/\1/p' | sort -u; }
