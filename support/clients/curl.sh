#!/usr/bin/env bash
# The scripted conversation with curl and nothing else.
#
#   curl.sh GATEWAY ENGINE_METRICS ENGINE_PID
#
# Prints a line for every check that holds, and ends with 1 at the first that does not.
set -uo pipefail
# Whoever takes "" for false here would miss what a step says.
shopt -s inherit_errexit

url=$1 engine_metrics=$2 engine_pid=$3
base=$url/v1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
long=1800

fail() {
    echo "DOES NOT HOLD: $check: $*" >&2
    exit 1
}
holds() { echo "holds: $check"; }

# A request's body for a question, with further members.
body() {
    printf '{"messages":[{"role":"user","content":"%s"}],"temperature":0%s}' "$1" "${2:+,$2}"
}
# post ROUTE BODY [CURL OPTIONS]: the body of the answer, and its head in $work/head.
post() {
    local route=$1 body=$2
    shift 2
    printf '%s' "$body" >"$work/body"
    curl -sSN -D "$work/head" -H 'content-type: application/json' --data-binary "@$work/body" "$@" "$base/$route"
}
status() { awk '/^HTTP/ { code = $2 } END { print code }' "$work/head"; }
header() { tr -d '\r' <"$work/head" | awk -v name="$1:" 'tolower($1) == name { value = $2 } END { print value }'; }
# begin BODY: a stream into $stream, in the background as $streaming, of which something has come.
begin() {
    # Nobody else's: an earlier stream may still write.
    begun=$((${begun:-0} + 1))
    stream=$work/stream.$begun
    : >"$stream"
    curl -sSN -H 'content-type: application/json' -d "$1" "$base/chat/completions" >"$stream" &
    streaming=$!
    eventually test -s "$stream"
}
# All values of a string member, unescaped as far as plain words need it.
strings() { grep -o "\"$1\":\"[^\"]*\"" | cut -d '"' -f 4; }
metric() { curl -sS "$1" | awk -v name="$2" 'index($1, name) == 1 { sum += $NF } END { print sum + 0 }'; }
refusals() { metric "$url/metrics" cadence_gateway_refusals_total; }
# eventually COMMAND: waits until it succeeds, for 10 s at most.
eventually() {
    for _ in $(seq 200); do
        "$@" && return
        sleep 0.05
    done
    fail "not within 10 s: $*"
}
nothing_runs() { [ "$(metric "$engine_metrics" cadence_engine_running)" = 0 ]; }
question="Write the numbers from one to a thousand in words."

check="models are listed"
model=$(curl -sS "$base/models" | strings id)
[ -n "$model" ] || fail "no model"
curl -sSf "$base/models/$model" >"$work/out" || fail "the model is not found by its name"
holds

check="an answer is whole"
whole=$(post chat/completions "$(body "$question" '"max_tokens":8')")
[ "$(status)" = 200 ] || fail "$whole"
[ "$(strings finish_reason <<<"$whole")" = length ] || fail "$whole"
grep -q '"completion_tokens":8,' <<<"$whole" || fail "$whole"
[ -n "$(header x-request-id)" ] || fail "no request id"
holds

check="a stream says the same"
stream=$(post chat/completions "$(body "$question" '"max_tokens":8,"stream":true')")
[ "$(strings content <<<"$stream" | tr -d '\n')" = "$(strings content <<<"$whole" | tr -d '\n')" ] || fail "$stream"
[ "$(strings finish_reason <<<"$stream")" = length ] || fail "$stream"
[ "$(grep -c '^data: \[DONE\]$' <<<"$stream")" = 1 ] || fail "not one [DONE]: $stream"
[ "$(header content-type)" = text/event-stream ] || fail "$(cat "$work/head")"
! grep -q '"choices":\[\]' <<<"$stream" || fail "usage that nobody asked for: $stream"
holds

check="usage is told when asked for"
stream=$(post chat/completions "$(body "$question" '"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}')")
[ "$(grep -c '"choices":\[\].*"completion_tokens":8,' <<<"$stream")" = 1 ] || fail "$stream"
holds

check="a conversation goes on"
turns='[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi."},{"role":"user","content":"And now?"}]'
post chat/completions "{\"messages\":$turns,\"max_tokens\":4}" >"$work/out"
[ "$(status)" = 200 ] || fail "$(cat "$work/out")"
holds

check="a stop string cuts"
text=$(strings content <<<"$whole")
stop=${text:7:5}
cut=$(post chat/completions "$(body "$question" "\"max_tokens\":8,\"stop\":\"$stop\"")")
[ "$(strings content <<<"$cut")" = "${text%%"$stop"*}" ] || fail "$cut"
[ "$(strings finish_reason <<<"$cut")" = stop ] || fail "$cut"
holds

check="completions are served"
answer=$(post completions '{"prompt":"Once upon a time","max_tokens":8}')
[ "$(status)" = 200 ] || fail "$answer"
[ -n "$(strings text <<<"$answer")" ] || fail "$answer"
holds

# refused STATUS CODE PARAM BODY
refused() {
    local answer
    answer=$(post chat/completions "$4")
    [ "$(status)" = "$1" ] || fail "$(status) $answer"
    [ "$(strings code <<<"$answer")" = "$2" ] || fail "$answer"
    [ "$(strings param <<<"$answer")" = "$3" ] || fail "$answer"
    [ "$(header content-type)" = application/json ] || fail "$(cat "$work/head")"
    [ -n "$(header x-request-id)" ] || fail "no request id"
}
check="errors have all their members"
refused 404 model_not_found model "$(body Hi '"model":"gpt-4"')"
refused 400 context_length_exceeded messages "$(body "$(printf 'word %.0s' $(seq 5000))")"
refused 400 "" top_p "$(body Hi '"top_p":5')"
refused 400 "" "" '{:'
refused 413 request_too_large "" "$(body "$(head -c 300000 /dev/zero | tr '\0' x)")"
holds

check="a refusal is retried after the time that it names"
before=$(refusals)
# There are two places.
begin "$(body "$question" "\"max_tokens\":$long,\"stream\":true")"
first=$streaming
begin "$(body "$question" "\"max_tokens\":$long,\"stream\":true")"
post chat/completions "$(body Hi '"max_tokens":4')" >"$work/out"
[ "$(status)" = 503 ] || fail "$(status) $(cat "$work/out")"
seconds=$(header retry-after)
[ "$seconds" -ge 1 ] || fail "retry-after: $seconds"
[ "$seconds" -le 59 ] || fail "retry-after: $seconds"
# Who is in leaves as soon as someone was refused again.
refused_again() { [ "$(refusals)" -ge $((before + 2)) ]; }
(eventually refused_again && kill "$first" "$streaming") &
post chat/completions "$(body Hi '"max_tokens":4')" --retry 3 >"$work/out" 2>"$work/retries"
[ "$(status)" = 200 ] || fail "$(cat "$work/head")"
refused_again || fail "nobody was refused"
holds

check="who leaves frees its place"
begin "$(body "$question" "\"max_tokens\":$long,\"stream\":true")"
kill "$streaming"
eventually nothing_runs
holds

check="an engine that dies is an error"
begin "$(body "$question" "\"max_tokens\":$long,\"stream\":true")"
eventually grep -q '"content":"[^"]' "$stream"
kill -9 "$engine_pid"
wait "$streaming"
[ "$(strings code <"$stream")" = engine_lost ] || fail "$(tail -n 3 "$stream")"
! grep -q 'DONE\|"finish_reason":"' "$stream" || fail "$(tail -n 3 "$stream")"
holds
