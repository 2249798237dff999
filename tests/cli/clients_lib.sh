# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tests that have other programs read Cadre's files. Those programs are packages of
# Python, in the versions of a list in tests/clients/, in a virtual environment that is made once
# and kept below CADRE_TEST_CLIENTS (by default the user's cache folder): about 100 MB a list,
# most of it pandas and plotly, which Holistic Trace Analysis needs, and W&B's client.

# clients [LIST]: makes the environment of requirements.txt, or of another list, if it is not
# there, and puts its Python into $python. Fails with the reason in $why where that cannot be: no
# Python, no network.
clients() {
    local list=$CADRE_SRC/tests/clients/${1:-requirements.txt} key folder
    why="no python3 to read the files with"
    command -v python3 >/dev/null || return 1
    key=$( (python3 --version && cat "$list") | sha256sum | cut -c 1-12)
    folder=${CADRE_TEST_CLIENTS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cadre/clients}/$key
    python=$folder/bin/python
    why="no folder '$folder' for the programs that read the files (CADRE_TEST_CLIENTS)"
    mkdir -p "$folder" 2>/dev/null || return 1
    (
        flock 9 # several tests may begin at once
        [ ! -e "$folder/complete" ] || exit 0
        python3 -m venv --clear "$folder" &&
            timeout 600 "$python" -m pip install --quiet --disable-pip-version-check \
                --no-deps --no-compile --only-binary :all: --retries 1 --timeout 15 -r "$list" &&
            touch "$folder/complete"
    ) 9>"$folder.lock" >"$tmp/clients.log" 2>&1 && return 0
    why="the programs that read the files cannot be installed:"
    why+=" $(grep -m 1 -iE 'error' "$tmp/clients.log" || tail -n 1 "$tmp/clients.log")"
    return 1
}
