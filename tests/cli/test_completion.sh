#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Completion as the build made it. bash's function is called as readline would, in a shell of
# its own: with the line divided into words at blanks, "=" and ":". zsh, where it is, reads its
# file, and completes a line on a terminal.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"
manual=$CADRE_BUILD/manual
unset CADRE_PLUGIN_PATH
mkdir "$tmp/here"
cd "$tmp/here"
mkdir -p runs/one folder
printf '[compare]\n[run:fast]\nx.y=1\n[run:slow]\n' >some.ini
touch some.txt mine.so

# completes LINE WANT...: with the cursor behind LINE, exactly these words are offered (in any
# order).
completes() {
    local line=$1 got want
    shift
    # shellcheck disable=SC2016 # for the shell that is started
    got=$(PATH=$CADRE_BUILD:$PATH bash --norc -c '
        . "$1"
        COMP_LINE=$2
        rest=$2 COMP_WORDS=()
        while [[ -n $rest ]]; do
            if [[ $rest =~ ^[[:blank:]]+ ]]; then
                rest=${rest:${#BASH_REMATCH}}
                [[ -n $rest ]] || COMP_WORDS+=("")
            elif [[ $rest =~ ^[=:]+ || $rest =~ ^[^=:[:blank:]]+ ]]; then
                COMP_WORDS+=("$BASH_REMATCH")
                rest=${rest:${#BASH_REMATCH}}
            fi
        done
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _cadre
        printf "%s\n" "${COMPREPLY[@]}"' - "$manual/cadre.bash" "$line" 2>"$tmp/log" | sort)
    [ ! -s "$tmp/log" ] || fail "'$line': $(cat "$tmp/log")"
    want=$(printf '%s\n' "$@" | sort)
    [ "$got" = "$want" ] || fail "'$line' is completed by:
$got
expected:
$want"
}

completes "cadre tr" train
completes "cadre --v" --version
completes "cadre mi" mig
completes "cadre nothing " ""
completes "cadre train --dr" --dry-run
completes "cadre train some" some.ini
completes "cadre train " some.ini folder runs
completes "cadre inspect some" some.ini some.txt
completes "cadre train some.ini --out f" folder
completes "cadre train some.ini --out=f" folder
completes "cadre train some.ini --run " fast slow
completes "cadre train some.ini --run=s" slow
completes "cadre train some.ini --set run.e" run.elastic= run.exact= run.exact_parts= run.extends=
completes "cadre train some.ini --set=run.ex" run.exact= run.exact_parts= run.extends=
completes "cadre train some.ini --set ddp.bu" ddp.bucket_mb=
completes "cadre train some.ini --set run.exact=" yes no
completes "cadre train some.ini --set=run.exact=y" yes
completes "cadre train some.ini --set model.arch=l" llama
completes "cadre train some.ini --set run.name=" ""
completes "cadre new mine --role s" schedule
completes "cadre new mine --role=o" observer optimizer
completes "cadre check dd" ddp
completes "cadre check mi" mig mine.so
completes "cadre check ddp --on" --only
completes "cadre help insp" inspect

# Every command of the help, and every option of each.
commands=$("$cadre" help --json | sed -n 's/^      "name": "\(.*\)",$/\1/p')
# shellcheck disable=SC2086 # words
completes "cadre " $commands mig --help --version
for command in $commands; do
    # shellcheck disable=SC2046
    completes "cadre $command --" --help \
        $("$cadre" "$command" --help | grep -oE '^  --[a-z-]+' || true)
done

if ! command -v zsh >/dev/null; then
    echo "SKIP: no zsh"
    exit 0
fi
zsh -n "$manual/_cadre"
# A shell on a terminal of its own gets lines with a TAB behind them and ^T, which writes what
# the line is then into a file.
cat >"$tmp/start.zsh" <<EOF
fpath=($manual \$fpath)
autoload -Uz compinit
compinit -u -d $tmp/dump
show() { print -r -- \$BUFFER >>$tmp/shown; BUFFER= }
zle -N show
bindkey '^T' show
bindkey '^I' complete-word
EOF
cat >"$tmp/drive.zsh" <<EOF
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "TERM=dumb; . $tmp/start.zsh"
for text in "cadre ins" "cadre train --dr" "cadre train some.ini --set run.ela" \
    "cadre train some.ini --set=run.exact=y" "cadre new mine --role=sch" "cadre check dd"; do
    zpty -w -n shell \$text\$'\t\x14'
done
until [[ -e $tmp/shown && \$(wc -l <$tmp/shown) -ge 6 ]]; do
    zpty -r -t shell line
    sleep 0.02
done
EOF
PATH=$CADRE_BUILD:$PATH timeout "$hang" zsh -f "$tmp/drive.zsh" || fail "zsh: $(cat "$tmp/shown")"
sed -i 's/ *$//' "$tmp/shown"
diff "$tmp/shown" - <<'EOF' || fail "zsh completes otherwise"
cadre inspect
cadre train --dry-run
cadre train some.ini --set run.elastic=
cadre train some.ini --set=run.exact=yes
cadre new mine --role=schedule
cadre check ddp
EOF
echo "ok: zsh"
