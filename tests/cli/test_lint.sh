#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every checker of tools/lint passes a clean tree and fails a bad one, naming file and line.
set -euo pipefail
lint=$CADRE_SRC/tools/lint
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{core/base,core/checkpoint,core/model,core/engine,core/tensor,core/train,plugins/p,tests/base,tests/model,include/cadre}
cp "$CADRE_SRC"/.clang-format "$CADRE_SRC"/.clang-tidy "$tree"
: >"$tree/covered"
export LINT_COVERED=$tree/covered LINT_CACHE=$tree/cache LINT_TIDY_CACHE=$tree/tidy
spdx='/* SPDX-License-Identifier: Apache-2.0 */'

# fails CHECKER FILE PATTERN: with stdin as FILE the checker fails with such a line.
fails() {
    local out file=$tree/$2
    mkdir -p "$(dirname "$file")"
    cat >"$file"
    if out=$("$lint" --root "$tree" --only "$1" 2>&1); then
        echo "tools/lint --only $1 accepts this $2:"
        cat "$file"
        exit 1
    fi
    if ! grep -qE "$3" <<<"$out"; then
        echo "tools/lint --only $1 fails on $2, but not with '$3':"
        echo "$out"
        exit 1
    fi
    rm "$file"
}

passes() {
    local out
    if ! out=$("$lint" --root "$tree" --only "$1" 2>&1); then
        echo "tools/lint --only $1 fails on a clean tree:"
        echo "$out"
        exit 1
    fi
}

# has TOOL: tools that a build machine may lack.
has() {
    command -v "$1" >/dev/null || { echo "SKIP: no $1"; return 1; }
}

body() { # LINES: a function of so many lines
    printf '%s\n' "$spdx" 'int f(void);' 'int f(void)' '{'
    for _ in $(seq $(($1 - 1))); do echo '    ;'; done
    printf '%s\n' '    return 0;' '}'
}

for name in base/good model/good; do
    printf '%s\n' "$spdx" 'int good(void);' 'int good(void)' '{' '    return 0;' '}' \
        >"$tree/core/$name.c"
    echo "$spdx" >"$tree/tests/${name%/*}/test_good.c"
done

for checker in sizes includes text tests words commits; do
    passes $checker
done

body 61 | fails sizes core/base/a.c '^core/base/a.c:4: a function of 61 lines'
{ body 60; } >"$tree/core/base/a.c"
passes sizes
body 70 | sed 's|^{|&\n    /* lint: long because it is a table */|' >"$tree/core/base/a.c"
passes sizes
rm "$tree/core/base/a.c"
{ echo "$spdx"; printf '\n%.0s' $(seq 600); } | fails sizes core/base/a.c ':601: a file of 601'
{ echo "$spdx"; printf '\n%.0s' $(seq 300); } | fails sizes core/base/a.h ':301: a header of 301'
{ echo "$spdx"; printf '/* %090d */\n' 0; } | fails sizes core/base/a.h ':2: a line of 96'
printf '%s\n' "$spdx" 'int f(int a, int b, int c, int d, int e, int g, int h, int i,' \
    '      int j);' | fails sizes core/base/a.h ':3: a function of 9 parameters'
printf '%s\n' "$spdx" 'int f(int a, int (*b)(int, int), int c, int d, int e, int g,' \
    '      int h, int i);' >"$tree/core/base/a.h"
passes sizes
sed -i 's,^int f.*,/* lint: long because it fills a slot */\n&,; s,int i),int i\, int j),' "$tree/core/base/a.h"
passes sizes
rm "$tree/core/base/a.h"

# what is recorded of the ABI is left as it was, and nothing else beside it
mkdir -p "$tree/tests/abi/0.9/include"
{ echo "$spdx"; printf '/* %090d */\n' 0; } >"$tree/tests/abi/0.9/include/a.h"
passes sizes
rm -r "$tree/tests/abi/0.9"
{ echo "$spdx"; printf '/* %090d */\n' 0; } | fails sizes tests/abi/a.h ':2: a line of 96'

include() {
    printf '%s\n' "$spdx" "#include $1"
}
include '"core/model/model.h"' | fails includes core/base/a.c ':2: core/base may not include'
include '"core/train/loop.h"' | fails includes core/model/a.c ':2: core/model may not'
include '"core/model/model.h"' | fails includes core/tensor/a.h 'may not include core/model'
include '"core/train/loop.h"' | fails includes core/checkpoint/format/a.c 'core/checkpoint/format may'
include '"core/checkpoint/a.h"' | fails includes core/checkpoint/format/a.c 'core/checkpoint \('
include '"core/checkpoint/a.h"' | fails includes core/engine/a.c 'may not include core/checkpoint '
include '"core/model/model.h"' >"$tree/core/train/a.c"
include '"core/checkpoint/format/a.h"' >"$tree/core/checkpoint/a.c"
passes includes
rm "$tree"/core/{train,checkpoint}/a.c
for pair in kit:plugin/stack.h kit:check/rehearsal/rules.h rehearsal:engine/rank.h \
    rehearsal:check/groups/groups.h rehearsal:check/kit/check.h groups:train/train.h \
    groups:compare/report/report.h groups:check/runner.h groups:engine/rank.h; do
    include "\"core/${pair#*:}\"" | fails includes "core/check/${pair%%:*}/a.c" \
        "core/check/${pair%%:*} may not include core/"
done
include '"core/train/train.h"' | fails includes core/check/a.c 'core/check may not include'
include '"core/check/check.h"' | fails includes core/train/a.c 'may not include core/check '
include '"core/check/kit/check.h"' | fails includes core/compare/a.c 'may not include core/check/kit'
include '"core/base/error.h"' | fails includes core/sdk/a.c 'a template sees'
include '"core/sdk/data.h"' | fails includes core/sdk/a.c 'a template sees'
include '"core/sdk/data.h"' | fails includes core/plugin/a.c 'may not include core/sdk'
include '<jansson.h>' | fails includes core/sdk/a.c 'a template sees'
mkdir -p "$tree"/core/{check/groups,cli,sdk}
include '"core/check/rehearsal/rules.h"' >"$tree/core/check/groups/a.c"
include '"core/check/groups/groups.h"' >"$tree/core/check/a.c"
include '"core/check/check.h"' >"$tree/core/cli/a.c"
include '<cadre/helpers.h>' >"$tree/core/sdk/a.c"
passes includes
rm "$tree"/core/{check/groups,check,cli,sdk}/a.c
include '"model.h"' | fails includes core/model/a.c 'write the path from the root'
include '"core/base/error.h"' | fails includes plugins/p/p.c 'a plugin sees'
include '<iniparser.h>' | fails includes plugins/p/p.c 'a plugin sees'
include '"plugins/q/q.h"' | fails includes plugins/p/p.c 'a plugin sees'
include '"core/base/error.h"' | fails includes include/cadre/a.h 'a public header sees'
include '<cuda_runtime.h>' | fails includes core/model/a.c 'GPU or MPI header'
printf '%s\n' "$spdx" '#ifdef HAVE_CUDA' '#endif' |
    fails includes core/model/a.c ':2: no conditional on CUDA'

echo 'int a;' | fails text core/base/a.c ':1: the first line'
printf '%s\n' "$spdx" '/* T''ODO: more */' | fails text core/base/a.c ':2:.*more'
printf '%s\n' "$spdx" 'x = json_loadb(t, n, 0, 0);' | fails text core/base/a.c ':2:.*loadb'
printf '%s\n' "$spdx" '/* see /h''ome/someone/file */' | fails text core/base/a.c ':2:.*file'

echo "$spdx" | fails tests core/base/untested.c 'untested.c:1: has no test_untested.c'
echo 'core/base/untested.c tests/base/test_good.c' >"$tree/covered"
echo "$spdx" >"$tree/core/base/untested.c"
passes tests
rm "$tree/core/base/untested.c"
mkdir -p "$tree"/{core,tests}/base/inner
: >"$tree/covered"
echo "$spdx" >"$tree/core/base/inner/deep.c"
echo "$spdx" >"$tree/tests/base/inner/test_deep.c"
passes tests
rm "$tree"/{core/base/inner/deep.c,tests/base/inner/test_deep.c}
echo 'core/base/untested.c tests/base/test_good.c' >"$tree/covered"
echo "$spdx" | fails tests core/base/other.c 'untested.c does not exist'
: >"$tree/covered"

printf '%s\n' "$spdx" '/* every wi''sh is kept */' | fails words core/base/a.c 'a.c:2:.*kept'
printf '%s\n' 'A plugin from a stran''ger.' | fails words docs/a.md 'a.md:1:'
echo "$spdx" | fails words core/base/a_impl.h 'a private header is called'
printf '%s\n' "$spdx" '/* ---- one ---- */' >"$tree/core/base/a.c"
passes words
printf '%s\n' "$spdx" '/* ---- one -------- */' | fails words core/base/a.c 'a.c:2:'
printf '%s\n' "$spdx" '/* ===== one ===== */' | fails words core/base/a.c 'a.c:2:'

if has git; then
    at() { git -C "$tree" -c user.name=test -c user.email=test@example.org "$@"; }
    commits() { # MESSAGE...: as one commit of 40 lines
        seq 40 | sed "s/^/$RANDOM /" >"$tree/lines"
        at add lines
        at commit -q "${@/#/-m}"
    }
    at init -q
    commits 'tests: begin'
    LINT_SINCE=$(at rev-parse HEAD)
    export LINT_SINCE
    commits 'area: say what' 'And why.'
    passes commits
    commits 'area: say what' # and not why
    echo "$spdx" | fails commits core/base/a.c '40 lines change and no body'
    at reset -q --hard HEAD~1
    commits 'No area' 'Why.'
    echo "$spdx" | fails commits core/base/a.c "expected 'area: imperative'"
    at reset -q --hard HEAD~1
    commits "area: $(printf '%060d' 0)" 'Why.'
    echo "$spdx" | fails commits core/base/a.c 'the subject has 66 characters'
    at reset -q --hard HEAD~1
    rm -rf "$tree/.git" "$tree/lines"
    unset LINT_SINCE
fi

if has clang-format-14; then
    passes format
    printf '%s\n' "$spdx" 'int  a;' | fails format core/base/a.h ':2: not formatted'
fi
if has cppcheck; then
    passes cppcheck
    printf '%s\n' "$spdx" 'int f(void);' 'int f(void)' '{' '    int a[2] = {0};' \
        '    return a[2];' '}' | fails cppcheck core/base/a.c 'a.c:6: .*arrayIndex'
fi
if has clang-tidy-14; then
    passes tidy
    printf '%s\n' "$spdx" '#include <stdlib.h>' 'int f(void);' 'int f(void)' '{' \
        '    int *a = malloc(4);' '    return *a;' '}' |
        fails tidy core/base/a.c 'a.c:[67].*(Malloc|uninitialized|garbage|undefined)'
fi
echo "every checker passes a clean tree and fails a bad one"
