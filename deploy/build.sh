#!/bin/sh
# The steps of the Dockerfile's builder. PREBUILT, CPU and FEATURES are explained there.
set -eu

# Processors without AVX2 cannot run images for x86-64-v3; those sold since about 2015 have it. Elsewhere
# it is the compilers' own baseline.
flags() {
    case $CPU/$(uname -m) in
    /x86_64) echo "-C target-cpu=x86-64-v3" ;;
    /*) ;;
    *) echo "-C target-cpu=$CPU" ;;
    esac
}

# All of the workspace has a say in the features of dependencies, as where the tests are run.
build() {
    RUSTFLAGS=$(flags) cargo build --release --locked --workspace ${FEATURES:+--features "$FEATURES"} \
        --bin gateway --bin admission-svc --bin engine-worker
}

# empty_crate CRATE INTO: makes INTO/src/lib.rs, main.rs, the build script if CRATE has one, and the benches
# that its Cargo.toml names, all of them empty.
empty_crate() {
    mkdir -p "$2/src" "$2/benches"
    echo '//! Empty.' >"$2/src/lib.rs"
    empty_program >"$2/src/main.rs"
    # What it needs is compiled only if there is one.
    [ ! -e "$1/build.rs" ] || empty_program >"$2/build.rs"
    sed -n '/^\[\[bench\]\]/,/^$/s/^name = "\(.*\)"/\1/p' "$1/Cargo.toml" | while read -r bench; do
        empty_program >"$2/benches/$bench.rs"
    done
}

empty_program() { printf '//! Empty.\nfn main() {}\n'; }

# Every source below this folder, but for what has been built.
sources() { find . -path ./target -prune -o -name '*.rs' "$@"; }

case $1 in
manifests) # INTO: copies what dependencies follow from, beside empty sources
    mkdir -p "$2"
    [ -z "$PREBUILT" ] || exit 0
    cp -R .cargo Cargo.toml Cargo.lock "$2"
    find . -mindepth 2 -name Cargo.toml | while read -r manifest; do
        crate=$2/$(dirname "$manifest")
        mkdir -p "$crate"
        cp "$manifest" "$crate"
        empty_crate "$(dirname "$manifest")" "$crate"
    done
    ;;
tools)
    [ -z "$PREBUILT" ] || exit 0
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends g++ make cmake libclang-dev
    ;;
dependencies)
    [ -z "$PREBUILT" ] || exit 0
    build
    # Not every crate has both, and an empty one would be built beside the true sources.
    sources -exec rm {} +
    ;;
binaries) # INTO
    mkdir -p "$2"
    if [ -n "$PREBUILT" ]; then
        cp "$PREBUILT"/* "$2"
        exit 0
    fi
    # Cargo goes by times, and the empty sources may have been younger than the true ones.
    sources -exec touch {} +
    build
    for binary in gateway admission-svc engine-worker; do
        strip --strip-debug -o "$2/$binary" "target/release/$binary"
    done
    ;;
esac
