#!/bin/sh
# The steps of the Dockerfile's builder. PREBUILT, CPU and FEATURES are explained there.
set -eu

# Processors without AVX2 cannot run images for x86-64-v3; those sold since about 2015 have it. Elsewhere
# it is the compilers' own baseline.
flags() {
    case ${CPU:-$(uname -m)} in
    x86_64) echo "-C target-cpu=x86-64-v3" ;;
    aarch64) ;;
    *) echo "-C target-cpu=$CPU" ;;
    esac
}

build() {
    RUSTFLAGS=$(flags) cargo build --release --locked --workspace --bins ${FEATURES:+--features "$FEATURES"}
}

# Makes FOLDER/src/lib.rs, main.rs and the benches that FOLDER/Cargo.toml names, all of them empty.
empty_crate() {
    mkdir -p "$1/src" "$1/benches"
    : >"$1/src/lib.rs"
    echo 'fn main() {}' >"$1/src/main.rs"
    sed -n '/^\[\[bench\]\]/,/^$/s/^name = "\(.*\)"/\1/p' "$1/Cargo.toml" | while read -r bench; do
        echo 'fn main() {}' >"$1/benches/$bench.rs"
    done
}

case $1 in
manifests) # INTO: copies what dependencies follow from, beside empty sources
    mkdir -p "$2"
    [ -z "$PREBUILT" ] || exit 0
    cp -R .cargo Cargo.toml Cargo.lock "$2"
    find . -mindepth 2 -name Cargo.toml | while read -r manifest; do
        crate=$2/$(dirname "$manifest")
        mkdir -p "$crate"
        cp "$manifest" "$crate"
        empty_crate "$crate"
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
    ;;
binaries) # INTO
    mkdir -p "$2"
    if [ -n "$PREBUILT" ]; then
        cp "$PREBUILT"/* "$2"
        exit 0
    fi
    # Cargo goes by times, and the empty sources may be younger than the true ones.
    find . -name target -prune -o -name '*.rs' -exec touch {} +
    build
    for binary in gateway admission-svc engine-worker; do
        strip --strip-debug -o "$2/$binary" "target/release/$binary"
    done
    ;;
esac
