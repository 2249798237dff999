#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cadre plan --html FILE`: a page of the list that is whole by itself, says of its figures that
# they are predicted or simulated, has a drawing of the first pipeline or why there is none, and
# escapes what it is given; files of others are kept, and a path that cannot be written is one
# line and status 2.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/plan_lib.sh"
conf=$CADRE_SRC/conf
h100=(--hardware "$conf/hardware/h100.ini")
cd "$tmp"

cat >small.ini <<'END'
[model]
layers = 4
channels = 64
heads = 2
context = 64
[data]
path = data.txt
[train]
global_batch = 16
precision = bf16
END
seq 1 4000 >data.txt

page() { # FILE ARGUMENT...
    "$cadre" plan "${@:2}" --html "$1" >out 2>err || {
        cat err
        fail "cadre plan ${*:2} --html $1 ends with status $?"
    }
    ! [ -s err ] || fail "--html says: $(cat err)"
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1" || fail "$1 is not well-formed"
    fi
    ! grep -qiE '<script|<link|<img|src=|href="?http|@import|url\(' "$1" ||
        fail "$1 needs something besides itself"
}

has() { # FILE PATTERN
    grep -qE -- "$2" "$1" || fail "$1 has no '$2'"
}

# ---- a page of a pipeline ----
page plan.html small.ini --ranks 4 "${h100[@]}" --top 3 --set strategy.stack=single
has out '^Page: plan.html$'
has out '^forecast, not measured: '
has plan.html '<title>Cadre plan: small.ini on 4 x h100</title>'
has plan.html 'Predicted, not measured: nothing was run'
has plan.html '<dt>figures</dt><dd>predicted, none is measured<'
has plan.html '<dt>accounting</dt><dd>cadre: '
has plan.html '<dt>hardware file</dt><dd>.*/h100.ini<'
has plan.html '<dt>command</dt><dd>cadre plan small.ini --ranks 4 .*--html plan.html<'
has plan.html '<title>Predicted time of a step, by its parts</title>'
has plan.html '<title>Predicted memory, at least, by its parts</title>'
has plan.html 'Stacks of which nothing can run'
sed 's/not measured//gI; s/none is measured//g' plan.html | (! grep -qi 'measured') ||
    fail "a figure that could be read as measured"

# ---- the figures are those of --json, and sum ----
"$cadre" plan small.ini --ranks 4 "${h100[@]}" --json >plan.json
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail "the page has other figures than --json"
import json, re
page, plan = open("plan.html").read(), json.load(open("plan.json"))
best = plan["candidates"][:3]
def bars(title):
    svg = page[page.index("<title>" + title):]
    svg = svg[:svg.index("</svg>")]
    rows = {}
    for place, kind, value, share in re.findall(
            r"<title>place (\d+), ([^:]*): ([0-9.e+-]+) \w+, ([0-9.]+) %</title>", svg):
        rows.setdefault(int(place), {})[kind] = (float(value), float(share))
    return rows
time, memory = bars("Predicted time"), bars("Predicted memory")
assert sorted(time) == sorted(memory) == [1, 2, 3], (time, memory)
for i, c in enumerate(best, 1):
    assert f"{i}: {c['stack']}<" in page, c["stack"]
    assert f">{c['step_s']:.4g}<" in page
    total, asked = c["bytes_at_least"]["total"] / 2**30, c["bytes_asked"] / 2**30
    assert f">{'at least ' if asked >= total else ''}{total:.4g}<" in page, (total, asked)
    assert f">{asked:.4g}<" in page and f">{asked:.4g} GiB</text>" in page
    assert abs(sum(v for v, _ in time[i].values()) / c["step_s"] - 1) < 2e-3
    for cause, seconds in c["seconds"].items():
        if seconds > 0:
            assert abs(time[i][cause][0] / seconds - 1) < 1e-3, (cause, seconds)
    assert abs(sum(v for v, _ in memory[i].values()) - 80) < 0.05, memory[i]
    assert abs(sum(s for _, s in memory[i].values()) - 100) < 0.5
END
else
    echo "SKIP: no python3 to compare the page with --json"
fi

# ---- a drawing: tensor ranks alone cannot be drawn, a pipeline is ----
page drawn.html "$conf/plan-70b.ini" --ranks 64 "${h100[@]}" --top 1
has drawn.html '<h2>Simulated: the fastest schedule</h2>'
has drawn.html 'Simulated, not measured: place 1, pipeline:8, zero:2, tensor:4'
has drawn.html 'of [0-9]+ micro-batches of one of 2 data ranks'
has drawn.html '<title>Simulated passes of a step</title>'
has drawn.html 'forward of micro-batch 0, chunk 0: [0-9.]+ ms'
[ "$(grep -c 'forward of micro-batch 0, chunk 0' drawn.html)" = 8 ] ||
    fail "not a first pass of each of 8 stages"
has drawn.html 'needs at least [0-9.]+ GiB, 76.0 are there'
page one.html small.ini --ranks 1 "${h100[@]}"
! grep -q 'Simulated' one.html || fail "a drawing of one rank"
page why.html small.ini --ranks 4 "${h100[@]}" --set data.format=instruct --set model.vocab=300
has why.html 'Not drawn: data.format = instruct cannot be simulated'

# ---- nothing fits; more ranks than are asked ----
sed 's/^memory_gib = .*/memory_gib = 4.0001/' "$conf/hardware/h100.ini" >tiny.ini
page none.html small.ini --ranks 2 --hardware tiny.ini
has none.html 'No candidate is predicted to fit and run'
page many.html "$conf/plan-70b.ini" --ranks 2048 "${h100[@]}" --top 1
has many.html 'Plugins were not asked'

# ---- what is escaped ----
cp small.ini 'a<b>&"c.ini'
sed 's/^name = .*/name = <i>h\&100/' "$conf/hardware/h100.ini" >"it's.ini"
page escaped.html 'a<b>&"c.ini' --ranks 2 --hardware "it's.ini" --json
[ "$(head -c 1 out)" = '{' ] && ! grep -q '^Page' out || fail "--json is not JSON alone"
has escaped.html 'a&lt;b&gt;&amp;&quot;c.ini on 2 x &lt;i&gt;h&amp;100'
has escaped.html "&#39;it&#39;\\\\&#39;&#39;s.ini&#39;"

# ---- files that are there ----
page plan.html small.ini --ranks 2 "${h100[@]}" # its own page is replaced
has plan.html 'small.ini on 2 x h100'
echo "mine" >mine.html
refused "'mine.html' is no page of a plan" small.ini --ranks 2 "${h100[@]}" --html mine.html
[ "$(cat mine.html)" = mine ] || fail "somebody's own file was replaced"
cp "$conf/hardware/h100.ini" keep.ini
refused "'keep.ini' is no page of a plan" small.ini --ranks 2 "${h100[@]}" --html keep.ini
cmp -s keep.ini "$conf/hardware/h100.ini" || fail "a hardware file was replaced"
mkfifo pipe
refused "'pipe' is no regular file" small.ini --ranks 2 "${h100[@]}" --html pipe
refused "'none' is no folder; make it first" small.ini --ranks 2 "${h100[@]}" --html none/p.html
refused "'\\.' is a folder" small.ini --ranks 2 "${h100[@]}" --html .
refused "'mine.html' is no folder" small.ini --ranks 2 "${h100[@]}" --html mine.html/p.html
if [ "$(id -u)" != 0 ]; then
    mkdir shut
    chmod 555 shut
    refused "cannot write 'shut/p.html'" small.ini --ranks 2 "${h100[@]}" --html shut/p.html
else
    echo "SKIP: root writes into every folder"
fi
refused "--html: .*File name too long" small.ini --ranks 2 "${h100[@]}" \
    --html "$(printf 'n%.0s' {1..300}).html"
[ -z "$(find . -name '*.tmp*' -o -name 'nnn*')" ] || fail "something is left over"

# ---- it is of the list ----
for other in "--explain 1 2" "--what-if link.bandwidth=+10%" --fit "--cost --tokens 1e9" \
    --simulate; do
    # shellcheck disable=SC2086
    refused "--html is a page of the list of candidates; leave ${other%% *} out" \
        small.ini --ranks 2 "${h100[@]}" --html p.html $other
done
refused "leave FIRST..LAST of --ranks out" small.ini --ranks 1..4 "${h100[@]}" --html p.html
refused "leave --replay out" --replay x.csv --html p.html
[ ! -e p.html ] || fail "a page of another question"
echo "ok: plan --html"
