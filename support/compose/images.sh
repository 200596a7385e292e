# shellcheck shell=bash
# The images under test. Binaries are built on this machine and copied in: that is what fits into the time
# of a test. So the images must stand on this machine's own release of Debian or Ubuntu.

IMAGES=(gateway admission-svc engine-worker balancer)

# The image that everything stands on: there already, from a registry, or made from Debian's packages.
base_image() {
    local ID=unknown VERSION_ID="" VERSION_CODENAME=""
    # shellcheck source=/dev/null
    . /etc/os-release
    case $ID in
    debian) BASE_IMAGE=debian:$VERSION_CODENAME-slim ;;
    ubuntu) BASE_IMAGE=ubuntu:$VERSION_ID ;;
    *) skip "the images need Debian or Ubuntu, like the machine that builds the binaries; this is $ID" ;;
    esac
    docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 && return
    timeout 120 docker pull -q "$BASE_IMAGE" >/dev/null 2>&1 && return
    if [ "$ID" != debian ] || ! has debootstrap || [ "$(id -u)" != 0 ]; then
        skip "$BASE_IMAGE cannot be pulled, and making it takes Debian, debootstrap and root"
    fi
    say "no registry has $BASE_IMAGE for us: making one like it with debootstrap"
    # Under a name of its own: nobody else's build shall take it for Debian's.
    BASE_IMAGE=cadence-base:$VERSION_CODENAME
    docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 && return
    make_base "$VERSION_CODENAME" "$WORK/debian"
    rm -rf "$WORK/debian"
}

# make_base CODENAME FOLDER: packages come from where this machine has Debian's, and over the same way. Nothing
# else of its apt goes along: others' sources want keys, and hooks programs, that the image lacks.
make_base() {
    local mirror
    # shellcheck disable=SC2016 # For apt to expand. Nothing comes of it where apt has no lists.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Codename: $1" 'Created-By: Packages' | head -1)
    debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"} >"$WORK/debootstrap.log" 2>&1 ||
        { tail -5 "$WORK/debootstrap.log"; fail "debootstrap failed"; }
    apt-config dump Acquire | grep -v '^Acquire::IndexTargets' >"$2/etc/apt/apt.conf.d/50machine"
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] ||
        install -D /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/ca-certificates.crt"
    rm -rf "$2/var/cache/apt/archives" "$2/var/lib/apt/lists"
    tar -C "$2" --numeric-owner -c . | docker import -c 'CMD ["bash"]' - "$BASE_IMAGE" >/dev/null ||
        fail "$BASE_IMAGE cannot be imported"
}

# The binaries of the release, unless BINARIES names a folder that has others already.
build_binaries() {
    [ -z "${BINARIES:-}" ] || return 0
    cargo build --release --locked --workspace --bins || fail "the binaries do not build"
    BINARIES=${CARGO_TARGET_DIR:-target}/release
}

# Builds the images around the binaries. `test` keeps Docker's cache for the next time, the
# project's own tag keeps another run of this test from changing what we run.
build_images() {
    local context=$WORK/context binary image
    mkdir -p "$context/bin"
    cp -R deploy "$context"
    for binary in gateway admission-svc engine-worker; do
        strip --strip-debug -o "$context/bin/$binary" "$BINARIES/$binary" || fail "no binary $BINARIES/$binary"
    done
    for image in "${IMAGES[@]}"; do
        build_image "$image" "cadence-$image:$PROJECT" "$context" -t "cadence-$image:test" --build-arg PREBUILT=bin
    done
}

# build_image TARGET TAG CONTEXT [MORE ARGUMENTS]
build_image() {
    local target=$1 tag=$2 context=$3
    shift 3
    DOCKER_BUILDKIT=$(has_buildkit && echo 1 || echo 0) docker build -q --force-rm -f deploy/Dockerfile --target "$target" \
        --build-arg "BASE_IMAGE=$BASE_IMAGE" --build-arg "BUILD_IMAGE=$BASE_IMAGE" -t "$tag" "$@" "$context" \
        >"$WORK/build.log" 2>&1 || { tail -30 "$WORK/build.log"; fail "the image of $target does not build"; }
}

has_buildkit() { docker buildx version >/dev/null 2>&1; }

remove_images() {
    local image
    for image in "${IMAGES[@]}" manifests; do docker rmi "cadence-$image:$PROJECT" >/dev/null 2>&1; done
    docker image prune -f --filter label=cadence.prebuilt=bin >/dev/null 2>&1
}

# Compiling in an image does not fit into the time of a test. What that begins with does: the files that are
# sent to Docker, and manifests among which cargo finds what Cargo.lock says.
check_manifests() {
    local image=cadence-manifests:$PROJECT id
    build_image manifests "$image" .
    id=$(docker create "$image" true)
    docker cp "$id:/manifests" "$WORK" >/dev/null || bad "the image has no manifests"
    docker rm "$id" >/dev/null
    (cd "$WORK/manifests" && cargo tree --locked --workspace) >/dev/null 2>"$WORK/tree.log" ||
        bad "cargo does not like the manifests: $(tail -3 "$WORK/tree.log" | tr '\n' ' ')"
}

# What every image promises: small, not root, told to stop without a shell in between, health known.
check_images() {
    local image format user entrypoint probed size
    for image in "${IMAGES[@]}"; do
        format='{{.Config.User}}|{{json .Config.Entrypoint}}|{{if .Config.Healthcheck}}probed{{end}}|{{.Size}}'
        IFS='|' read -r user entrypoint probed size < <(docker image inspect -f "$format" "cadence-$image:$PROJECT")
        printf '    %-14s %4d MB, user %s, entry point %s\n' "$image" $((size / 1000000)) "$user" "$entrypoint"
        [ "$user" = 10001:10001 ] || bad "$image runs as ${user:-root}"
        [[ $entrypoint == '["'* && $entrypoint != *'"/bin/sh"'* ]] || bad "$image starts through a shell"
        [ "$probed" = probed ] || bad "$image has no health check"
    done
    printf '    of that %s: %d MB\n' "$BASE_IMAGE" "$(($(docker image inspect -f '{{.Size}}' "$BASE_IMAGE") / 1000000))"
}
