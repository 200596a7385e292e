#!/bin/sh
# Checks the dependencies: bans, licences, sources; see deny.toml. Installs cargo-deny into the folder
# CADENCE_CACHE where it is missing.
set -eu
# shellcheck source=support/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=0.20.2
tools=${CADENCE_CACHE:-.cache}/tools
PATH=$tools/bin:$PATH

if ! has cargo-deny; then
    say "missing: cargo-deny; building it in $tools (some minutes, once)"
    # Its own target folder, thrown away afterwards. Unoptimised it builds four times as fast and runs
    # fast enough.
    env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug --root "$tools" "cargo-deny@$VERSION"
fi
# The check itself is offline, and wants the crates of every platform.
cargo fetch --quiet --locked
cargo-deny --offline --log-level error check bans licenses sources
