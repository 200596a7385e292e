#!/bin/sh
# Installs what building needs and this machine lacks, and says so first; where nothing lacks, it is
# silent and quick. Debian and its kin with apt-get; elsewhere it names what is missing. Rust comes with
# its own installer, which CADENCE_RUSTUP_INIT, a shell command, may replace.
set -eu
# shellcheck source=support/lib.sh
. "$(dirname "$0")/lib.sh"

RUSTUP_INIT=${CADENCE_RUSTUP_INIT:-"curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"}

# bindgen loads it to read llama.cpp's headers.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    [ "$(uname -s)" = Darwin ] && return # It comes with the compiler.
    for library in /usr/lib/llvm-*/lib/libclang.so* /usr/lib/llvm-*/lib/libclang-[0-9]*.so* \
        /usr/lib/*/libclang.so* /usr/lib/*/libclang-[0-9]*.so* /usr/lib*/libclang.so*; do
        [ -e "$library" ] && return
    done
    return 1
}

# Downloads are checked against these.
has_certificates() {
    [ -n "${SSL_CERT_FILE:-}" ] || [ "$(uname -s)" = Darwin ] || [ -e /etc/ssl/certs/ca-certificates.crt ] ||
        [ -e /etc/pki/tls/certs/ca-bundle.crt ] || [ -e /etc/ssl/cert.pem ]
}

missing=
{ has cc && has c++; } || missing="$missing g++"
has make || missing="$missing make"
has cmake || missing="$missing cmake"
has_libclang || missing="$missing libclang-dev"
has_certificates || missing="$missing ca-certificates"
has cargo || has curl || missing="$missing curl"
# shellcheck disable=SC2086 # A list of words.
[ -z "$missing" ] || install_packages $missing

if ! has cargo; then
    say "missing: Rust; installing it for this user with: $RUSTUP_INIT"
    sh -c "$RUSTUP_INIT" || fail "the installer of Rust failed"
    bin=${CARGO_HOME:-$HOME/.cargo}/bin
    [ -x "$bin/cargo" ] || fail "the installer of Rust left no cargo in $bin"
fi
