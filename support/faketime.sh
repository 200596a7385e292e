#!/bin/sh
# Installs libfaketime for the test that steps the clock. Where that cannot be had, the test is skipped, and
# this says so.
set -eu
# shellcheck source=support/lib.sh
. "$(dirname "$0")/lib.sh"

for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib*/faketime/libfaketimeMT.so.1; do
    [ ! -e "$library" ] || exit 0
done
# In a shell of its own: to fail is no reason to end.
(install_packages faketime) || say "SKIPPED: without libfaketime no clock is stepped in the tests"
