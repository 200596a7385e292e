# shellcheck shell=bash
# What happens to the stack's services, and what their clients must hear of it.

SERVICES=(gateway admission-svc engine-mock balancer)

# Every service dies once, and is back by itself. Streams that need what died are told, the others go on.
test_crashes() {
    local service
    for service in "${SERVICES[@]}"; do
        stage "kill -9: $service"
        until_within 30 "an answer" answers
        ask open 300 &
        sleep 1
        crash "$service"
        until_within 30 "an answer again" answers
        wait $!
        case "$service $(verdict open)" in
        "admission-svc whole" | "engine-mock told") ;;
        gateway\ * | balancer\ *) ;; # The open stream went with them, unless another gateway had it.
        *) bad "the open stream: $(verdict open)" ;;
        esac
    done
    until_within 60 "all services healthy" all_healthy 6
    until_within 10 "nothing is left over" is_idle
}

# A new container for every service, with a new address. What is stopped for it lets a stream finish, if it is
# not longer than that may take.
test_replacements() {
    local service
    for service in "${SERVICES[@]}"; do
        stage "replace: $service"
        find_url
        ask open 1000 &
        sleep 1
        up 3 --no-deps --force-recreate "$service"
        until_within 30 "an answer" answers
        wait $!
        case "$service $(verdict open)" in
        "gateway told" | "engine-mock told" | "admission-svc whole" | "balancer whole") ;;
        *) bad "the open stream: $(verdict open)" ;;
        esac
    done
    until_within 60 "all services healthy" all_healthy 6
    until_within 10 "nothing is left over" is_idle
    keeps_traces || bad "the new admission service knows nothing of what the old one decided"
}

# Whether the trace store holds more than the few requests since the replacement.
keeps_traces() {
    local rows
    rows=$(docker exec "$(containers admission-svc)" admission-svc export | wc -l)
    say "  closed decisions on disk: $rows"
    [ "$rows" -gt 50 ]
}

# Everything is told to stop while streams are open that would go on for longer than they may.
test_stop() {
    local number begun id code
    stage "stop with streams open"
    find_url
    for number in 1 2 3; do ask "short.$number" 20 & done
    for number in 1 2 3 4; do ask "long.$number" 2000 & done
    sleep 1
    begun=$EPOCHREALTIME
    compose stop || bad "compose stop failed"
    say "  stopped after $(since "$begun") ms"
    wait
    for number in 1 2 3; do [ "$(verdict "short.$number")" = whole ] || bad "a short stream: $(verdict "short.$number")"; done
    for number in 1 2 3 4; do [ "$(verdict "long.$number")" = told ] || bad "a long stream: $(verdict "long.$number")"; done
    say "  a long stream's end: $(tail -n 2 "$WORK/long.1.body" | head -1 | cut -c 1-100)"
    for id in $(containers); do
        code=$(docker inspect -f '{{.State.ExitCode}}' "$id")
        [ "$code" = 0 ] || bad "$(service_of "$id") ended with $code"
    done
}
