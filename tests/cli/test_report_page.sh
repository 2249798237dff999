#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report.html in a browser, on a phone and on a desk, light and dark: nothing is wider than the
# screen, what was found is on the first one, letters can be read, none lies on another, the
# parts of a step are a row. The same of a run's page, of that of several runs and of a plan's.
# CADRE_TEST_KEEP=DIR keeps pictures of the page there.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

browser=
for name in chromium chromium-browser google-chrome; do
    browser=${browser:-$(command -v "$name" || true)}
done
[ -n "$browser" ] || skip "no chromium, chromium-browser or google-chrome to lay a page out"

# browse NAME DARK OPTIONS... URL
browse() {
    local dark=$2
    timeout -k 5 "$hang" "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --no-first-run --disable-dev-shm-usage --disable-extensions --disable-sync \
        --disable-background-networking --allow-file-access-from-files \
        --user-data-dir="$tmp/profile" --blink-settings=preferredColorScheme=$((1 - dark)) \
        "${@:3}" >"$tmp/$1.dom" 2>"$tmp/$1.err" || {
        tail -n 5 "$tmp/$1.err"
        fail "$1: the browser failed"
    }
}

echo '<!DOCTYPE html><html><body>It starts.</body></html>' >"$tmp/start.html"
if ! (browse start 0 --dump-dom "file://$tmp/start.html") >"$tmp/said" 2>&1 ||
    ! grep -q 'It starts' "$tmp/start.dom"; then
    skip "$browser does not start here: $(tail -n 1 "$tmp/start.err")"
fi

# ---- a comparison with all that a page shows ----
cat >>"$tmp/text.ini" <<EOT
[run]
name = what a page shows
[device]
threads = 1
[compare]
perturb = no
piece = 0.02
rounds = 6
time = yes
[run:single]
[run:ddp]
strategy.stack = ddp:2
[run:pipeline]
strategy.stack = pipeline:2
[run:tensor-with-a-long-name]
strategy.stack = tensor:2
compare.time = no
[run:four]
strategy.stack = ddp:2, pipeline:2
compare.time = no
[run:exact]
run.exact = yes
compare.time = no
[run:slower-rate]
optim.lr = 1e-3
compare.time = no
[run:again]
compare.time = no
EOT
runs compared 0 "$cadre" compare "$tmp/text.ini" --out "$tmp/out" --set train.steps=6 \
    --archive "$tmp/paper.tar"
page=$tmp/out/report.html
# who was not there reads in it what was compared, and the archive has the times
grep -q '<h1>Comparison: what a page shows' "$page" || fail "run.name is not the title"
for item in date command build model parameters data 'training samples' tokens seed precision machine; do
    grep -q "<dt>$item" "$page" || fail "the box has no $item: $(grep -o '<dt>[^<]*' "$page" | tr '\n' ' ')"
done
tar -tf "$tmp/paper.tar" | grep -x 'paper/comparison-1/pieces.jsonl' >/dev/null ||
    fail "no pieces in the archive: $(tar -tf "$tmp/paper.tar")"
[ -s "$page" ] || fail "no report.html"
! grep -q '<script' "$page" || fail "the page has a script"

# links lead to files
grep -o 'href="[^"]*"' "$page" | sed 's/^href="//; s/"$//' |
    while read -r link; do
        [ -e "$tmp/out/$(printf '%b' "${link//%/\\x}")" ] || fail "link to '$link', which is not there"
    done

# ---- as it is laid out ----
# The page in a frame of that size, as a window has a least width, with a script of the test.
with_script() { # PAGE
    sed 's#</body>.*##' "$1"
    echo "<script>"
    cat "$CADRE_SRC/tests/cli/report_page.js"
    echo "</script></body></html>"
}
runs several 0 "$cadre" report "$tmp/out" --out "$tmp/several"
with_script "$page" >"$tmp/out/measured.html"
with_script "$tmp/out/runs/pipeline/run.html" >"$tmp/out/run.html"
with_script "$tmp/several/report.html" >"$tmp/out/several.html"
runs plan 0 "$cadre" plan "$CADRE_SRC/conf/plan-70b.ini" --ranks 64 \
    --hardware "$CADRE_SRC/conf/hardware/h100.ini" --html "$tmp/plan.html"
with_script "$tmp/plan.html" >"$tmp/out/plan.html"

# value NAME KEY: what was measured.
value() {
    sed -n "s/^= $2 //p" "$tmp/$1.lines"
}

# at_least NAME KEY LEAST
at_least() {
    awk -v v="$(value "$1" "$2")" -v least="$3" 'BEGIN { exit !(v != "" && v + 0 >= least) }' ||
        fail "$1: $2 is '$(value "$1" "$2")', expected $3 or more"
}

at_most() {
    awk -v v="$(value "$1" "$2")" -v most="$3" 'BEGIN { exit !(v != "" && v + 0 <= most) }' ||
        fail "$1: $2 is '$(value "$1" "$2")', expected $3 or less"
}

none() { # NAME KEY
    [ -z "$(value "$1" "$2")" ] || fail "$1: $2: $(value "$1" "$2")"
}

# frame NAME WIDTH HEIGHT FILE
frame() {
    echo "<iframe id='$1' src='$4' width='$2' height='$3' style='border:0'></iframe>"
}

# picture NAME WIDTH DARK: the whole page, for whoever looks at it.
picture() {
    local tall
    tall=$(value "$1" page)
    mkdir -p "$CADRE_TEST_KEEP"
    {
        echo '<!DOCTYPE html><html><body style="margin:0">'
        frame "$1" "$2" "$tall" report.html
        echo '</body></html>'
    } >"$tmp/out/picture.html"
    browse "$1-picture" "$3" --window-size="$2,$tall" \
        --screenshot="$CADRE_TEST_KEEP/$1.png" "file://$tmp/out/picture.html"
    cp -r "$tmp/out" "$tmp/$1.lines" "$CADRE_TEST_KEEP/"
}

check_layout() { # NAME WIDTH DARK: what holds of every page
    sed -n "s/^$1: //p" "$tmp/scheme-$3.dom" | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' \
        >"$tmp/$1.lines"
    [ "$(value "$1" width)" = "$2" ] || fail "$1: the page is not $2 wide:
$(cat "$tmp/scheme-$3.err" "$tmp/$1.lines")"
    at_most "$1" overflow 0
    none "$1" wide
    none "$1" shade
    none "$1" lost
    none "$1" broken
    at_least "$1" letters 9
    none "$1" overlap
    none "$1" cut
    at_least "$1" texts 20
    none "$1" faint
}

check_form() { # NAME WIDTH HEIGHT DARK
    check_layout "$1" "$2" "$4"
    [ -z "${CADRE_TEST_KEEP:-}" ] || picture "$1" "$2" "$4"
    at_most "$1" verdict "$(($3 / 2))"
    at_least "$1" schedules 1
    at_least "$1" box 12
    [ "$(value "$1" stacks)" = 1 ] || fail "$1: not one chart of a step's parts"
    at_least "$1" bars 1
    none "$1" gap
    at_least "$1" fillings 8
}

for dark in 0 1; do
    suffix=$([ $dark = 0 ] || echo -dark)
    {
        echo '<!DOCTYPE html><html><body style="margin:0">'
        frame "phone$suffix" 400 800 measured.html
        frame "desk$suffix" 1280 900 measured.html
        for of in run several plan; do
            frame "phone-$of$suffix" 400 800 $of.html
            frame "desk-$of$suffix" 1280 900 $of.html
        done
        cat <<'EOT'
<pre id="o"></pre><script>
window.onload = () => {
    for (const f of document.querySelectorAll("iframe"))
        document.getElementById("o").textContent += f.contentDocument
            .getElementById("measured").textContent.replace(/^=/gm, `${f.id}: =`);
};
</script></body></html>
EOT
    } >"$tmp/out/frames.html"
    browse "scheme-$dark" "$dark" --window-size=1800,1000 --virtual-time-budget=5000 \
        --dump-dom "file://$tmp/out/frames.html"
    check_form "phone$suffix" 400 800 "$dark"
    check_form "desk$suffix" 1280 900 "$dark"
    at_least "phone$suffix" scrolled 400
    for of in run several plan; do
        check_layout "phone-$of$suffix" 400 "$dark"
        check_layout "desk-$of$suffix" 1280 "$dark"
    done
    for form in phone-several desk-several; do
        [ "$(value "$form$suffix" stacks)" = 1 ] || fail "$form: not one chart of a step's parts"
    done
    for form in phone-plan desk-plan; do
        [ "$(value "$form$suffix" stacks)" = 2 ] || fail "$form: not two charts of parts"
        at_least "$form$suffix" bars 10
        none "$form$suffix" gap
        at_least "$form$suffix" schedules 1
    done
done
for name in phone desk; do
    [ "$(value $name paper)" != "$(value $name-dark paper)" ] || fail "$name: dark is light"
    [ "$(value $name ink)" != "$(value $name-dark ink)" ] || fail "$name: one ink"
done

# on paper: the whole page, of a few sheets
for of in "$page" "$tmp/out/runs/pipeline/run.html" "$tmp/several/report.html" "$tmp/plan.html"; do
    browse paper 0 --no-pdf-header-footer --print-to-pdf="$tmp/page.pdf" "file://$of"
    sheets=$(grep -ac '/Type */Page$' "$tmp/page.pdf" || true)
    [ "$(head -c 5 "$tmp/page.pdf")" = "%PDF-" ] || fail "paper: no PDF of $of"
    if [ "$sheets" -lt 1 ] || [ "$sheets" -gt 12 ]; then
        fail "paper: $sheets sheets of $of"
    fi
done
