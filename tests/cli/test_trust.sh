#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whose code runs: plugins that others can change are refused, code that an ini file names is
# told at the start and refused with run.trust off, and paths in an ini file are relative to it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
cd "$tmp"
unset CADRE_PLUGIN_PATH
umask 022
mkdir -p given/plugins empty
cp "$CADRE_BUILD/plugins/ddp/.libs/ddp.so" given/plugins/
{
    cat text.ini
    printf '[strategy]\nstack = ddp:2\nplugin_path = plugins\n'
} >given/named.ini
{
    cat text.ini
    printf '[strategy]\nstack = ./plugins/ddp.so:2\n'
} >given/path.ini
few="--set train.steps=2 --set train.eval_batches=1"

# given NAME STATUS CONF [OPTION]...: trains given/CONF.ini from another folder.
given() {
    # shellcheck disable=SC2086
    (cd empty && runs "$1" "$2" "$cadre" train "../given/$3.ini" --out "../$1" $few "${@:4}")
}

# ---- an ini file that brings code ----

given folder 0 named
grep -q 'given/named.ini:[0-9]*: strategy.plugin_path = .*: code that the file names is run' \
    folder.log || fail "nothing says that the file's folder is searched"
given file 0 path
grep -q 'given/path.ini:[0-9]*: strategy.stack = .*code that the file names is run' file.log ||
    fail "nothing says that the file's plugin is run"
same folder file
for conf in named path; do
    given "no-$conf" 2 "$conf" --set run.trust=no
    says "no-$conf" 'run.trust is off'
    [ ! -e "no-$conf" ] || fail "no-$conf was begun"
done
given own 0 named --set run.trust=no --set "strategy.plugin_path=$tmp/given/plugins"
! grep -q 'code that the file names' own.log || fail "the user's own folder is told too"
train text plain 0 train.steps=2 train.eval_batches=1 strategy.stack=ddp:2 run.trust=no
! grep -q 'code that' plain.log || fail "plugins of Cadre's own are told"

# ---- files that others can change ----

chmod 666 given/plugins/ddp.so
given writable 2 named
says writable 'ddp.so. can be written by every user: chmod o-w'
chmod 644 given/plugins/ddp.so
chmod 777 given
given above 2 path
says above "'$(realpath given)' can be written by every user"
chmod 755 given
if [ "$(id -u)" -eq 0 ] && [ "$(stat -c %u "$cadre")" -eq 0 ]; then
    chown 12345 given/plugins/ddp.so
    given owner 2 named
    says owner 'belongs to another user'
    chown 0 given/plugins/ddp.so
fi
if chown ":$(($(id -u) + 54321))" given/plugins 2>/dev/null; then
    chmod 775 given/plugins
    given group 0 named
    [ "$(grep -c 'chmod g-w' group.log)" -eq 1 ] || fail "a group's folder: not one warning"
fi
