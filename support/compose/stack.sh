# shellcheck shell=bash
# Compose, whichever is installed, and what its containers are doing.

# Finds compose: the plugin, or the older program that Debian has.
find_compose() {
    if docker compose version >/dev/null 2>&1; then
        COMPOSE=(docker compose)
    elif has docker-compose; then
        COMPOSE=(docker-compose)
    else
        install_packages docker-compose
        COMPOSE=(docker-compose)
    fi
}

compose() { "${COMPOSE[@]}" -p "$PROJECT" "$@" </dev/null >>"$WORK/compose.log" 2>&1; }

# Starts or adjusts the stack: up GATEWAYS [MORE ARGUMENTS].
up() {
    local gateways=$1
    shift
    compose up -d --no-build --scale "gateway=$gateways" "$@" || fail "compose up failed, see below"
}

# Ids of containers: all, or one service's; also those that have ended.
containers() {
    docker ps -aq --no-trunc --filter "label=com.docker.compose.project=$PROJECT" \
        ${1:+--filter "label=com.docker.compose.service=$1"}
}

service_of() { docker inspect -f '{{index .Config.Labels "com.docker.compose.service"}}' "$1"; }

# The port of the balancer on this machine changes with its container.
# shellcheck disable=SC2034 # URL is for the clients.
find_url() { URL=http://$("${COMPOSE[@]}" -p "$PROJECT" port balancer 8000 </dev/null 2>/dev/null); }

# until_within SECONDS WHAT COMMAND...: repeats the command until it succeeds, and says how long that took.
until_within() {
    local limit=$1 what=$2 begun=$EPOCHREALTIME
    shift 2
    until "$@"; do
        if [ "$(since "$begun")" -ge $((limit * 1000)) ]; then
            bad "$what: not within $limit s"
            return 1
        fi
        sleep 0.1
    done
    say "  $what: after $(since "$begun") ms"
}

# Milliseconds since that reading of EPOCHREALTIME.
since() { echo $(((${EPOCHREALTIME/./} - ${1/./}) / 1000)); }

# Whether there are so many containers of the project, and Docker's health checks like all of them.
all_healthy() {
    local ids
    ids=$(containers)
    [ "$(wc -w <<<"$ids")" = "$1" ] || return 1
    # shellcheck disable=SC2086 # A list of ids.
    ! docker inspect -f '{{.State.Health.Status}}' $ids | grep -qv '^healthy$'
}

# Ends the first process of one of the service's containers as a fault would, and waits until Docker has
# brought it back. After `docker kill`, which is what users without root are left with, Docker does not.
crash() {
    local id
    id=$(containers "$1" | head -1)
    if kill -KILL "$(docker inspect -f '{{.State.Pid}}' "$id")" 2>/dev/null; then
        until_within 30 "restarted" was_restarted "$id"
    else
        docker kill "$id" >/dev/null
        docker start "$id" >/dev/null
    fi
}

was_restarted() { [ "$(docker inspect -f '{{.RestartCount}} {{.State.Running}}' "$1")" = "1 true" ]; }

# A gauge of a service's metrics, read from beside its container.
gauge() {
    local address
    address=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(containers "$1")")
    curl -s --max-time 2 "http://$address:$2/metrics" | sed -n "s/^$3 //p"
}

# Whether nothing runs in the engine and nothing is on admission's books.
is_idle() {
    [ "$(gauge engine-mock 9051 cadence_engine_running) $(gauge engine-mock 9051 cadence_engine_waiting)" = "0 0" ] &&
        [ "$(gauge engine-mock 9051 'cadence_engine_kv_blocks{state="held"}')" = 0 ] &&
        [ "$(gauge admission-svc 9052 cadence_admission_in_system_requests)" = 0 ]
}

is_busy() { [ "$(gauge engine-mock 9051 cadence_engine_running)" = 1 ]; }

# Memory and processor limits, and the rest that is promised about every container.
check_containers() {
    local id format limits
    format='{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.RestartPolicy.Name}}'
    for id in $(containers); do
        limits=$(docker inspect -f "$format" "$id")
        [[ $limits =~ ^[1-9][0-9]*\ [1-9][0-9]*\ true\ \[ALL\]\ unless-stopped$ ]] ||
            bad "limits of $(service_of "$id"): $limits"
    done
}

# Containers, networks and volumes that are left of the project.
leftovers() {
    containers
    docker network ls -q --filter "label=com.docker.compose.project=$PROJECT"
    docker volume ls -q --filter "label=com.docker.compose.project=$PROJECT"
}

down() {
    compose down -v --remove-orphans -t 5
    [ -z "$(leftovers)" ] || bad "left over: $(leftovers | tr '\n' ' ')"
}
