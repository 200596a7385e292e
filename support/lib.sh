# shellcheck shell=sh
# Shared by the scripts beside it; to be sourced by a POSIX shell.

say() { printf 'cadence: %s\n' "$*"; }

fail() {
    say "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Installs system packages, by Debian's names, after saying so.
install_packages() {
    if ! has apt-get; then
        hint=
        if has brew; then hint=" (try: brew install cmake llvm python)"; fi
        fail "missing: $*; please install what this system calls them$hint"
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        has sudo || fail "missing: $*; as root, run: apt-get install $*"
        as_root=sudo
    fi
    say "missing: $*; installing with apt-get${as_root:+ as root}"
    # An old list of packages may still do.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
        say "apt-get update failed, trying with the lists there are"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" ||
        fail "apt-get could not install: $*"
}
