#!/bin/sh
# Checks what `make run` was told, before minutes go into a build: the variables PORT,
# BACKEND, MODEL, MODEL_EXACT and MODEL_OPTIMIZE.
set -eu
# shellcheck source=support/lib.sh
. "$(dirname "$0")/lib.sh"

case ${PORT:-8000} in
*[!0-9]* | ??????*) fail "PORT=$PORT is not a port: 1 to 65535" ;;
esac
{ [ "${PORT:-8000}" -ge 1 ] && [ "${PORT:-8000}" -le 65535 ]; } || fail "PORT=$PORT is not a port: 1 to 65535"

case ${BACKEND:-llama} in
llama | mock) ;;
*) fail "BACKEND=$BACKEND is not a backend: llama or mock" ;;
esac

# yes_or_no NAME VALUE: a switch that is misspelt would be off without a word.
yes_or_no() {
    case $2 in
    '' | 0 | 1) ;;
    *) fail "$1=$2 is not 1, for yes, or 0" ;;
    esac
}
yes_or_no MODEL_EXACT "${MODEL_EXACT:-}"
yes_or_no MODEL_OPTIMIZE "${MODEL_OPTIMIZE:-}"

# The mock wants no model, and without a name the default one is fetched.
if [ "${BACKEND:-llama}" = llama ] && [ -n "${MODEL:-}" ]; then
    [ -e "$MODEL" ] || fail "MODEL=$MODEL does not exist"
    [ -f "$MODEL" ] || fail "MODEL=$MODEL is not a file"
    [ -r "$MODEL" ] || fail "MODEL=$MODEL cannot be read"
fi
