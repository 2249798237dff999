#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a release says in several places is the same in all: version and date in configure.ac,
# CITATION.cff, NEWS and the Debian changelog; the libraries in tools/packages and
# debian/control. CITATION.cff is one by cffconvert, where that is.
set -euo pipefail
cd "$CADRE_SRC"

fail() {
    echo "FAIL: $*"
    exit 1
}

# same WHAT A B
same() {
    [ "$2" = "$3" ] || fail "$1: '$2' and '$3'"
}

# of KEY: its value in CITATION.cff.
of() {
    sed -n "s/^$1: *//p" CITATION.cff
}

version=$(sed -n 's/^AC_INIT(\[cadre\], \[\([0-9.]*\)\].*/\1/p' configure.ac)
grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' <<<"$version" || fail "configure.ac has no version: $version"
same "version, CITATION.cff" "$version" "$(of version)"
same "version, cadre" "cadre $version" "$("$CADRE_BUILD"/cadre --version)"
same "heading of NEWS" "Cadre $version ($(of date-released))" "$(head -n 1 NEWS)"
same "debian/changelog" "cadre ($version) unstable; urgency=medium" "$(head -n 1 debian/changelog)"
stamp=$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n 1)
same "date, debian/changelog" "$(of date-released)" "$(date -u -d "$stamp" +%F)"
for plugin in plugins/*/; do
    grep -qrE "\.version = \"$version\"" --include='*.c' "$plugin" ||
        fail "$plugin is not of version $version"
done
[ -d "tests/samples/checkpoint-$version" ] || fail "no checkpoint of $version in tests/samples"

for line in "cff-version: 1.2.0" "type: software" "license: Apache-2.0" "authors:"; do
    grep -qx "$line" CITATION.cff || fail "CITATION.cff has no '$line'"
done
[ -n "$(of title)" ] && [ -n "$(of message)" ] || fail "CITATION.cff has no title or message"
if command -v cffconvert >/dev/null; then
    cffconvert --validate -i CITATION.cff
else
    echo "SKIP: no cffconvert (PyPI)"
fi

# Of what tools/packages installs for a build, gcc and make are with every package build.
needs=$(sed -n '/^Build-Depends:/,/^[A-Z].*:/p' debian/control | grep -oE '[a-z0-9][a-z0-9+.-]+' || true)
build=$(sed -n '/^build="/,/"$/p' tools/packages | tr -d '"' | sed 's/^build=//')
for package in $build; do
    case $package in gcc | make) continue ;; esac
    grep -qx "$package" <<<"$needs" || fail "debian/control does not build-depend on $package"
done
echo "ok: $version"
