# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the benches of this folder: shapes, ini files, data to train on, and numbers out
# of the JSON that a run writes. $tmp is a folder that is removed at the end; $top the tree.
# shellcheck disable=SC2034 # what is set here is used where this is sourced
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
# both would slow the libraries down, and some shells set them
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
exec 3>&2 # for what fails where stderr goes elsewhere

fail() {
    echo "${0##*/}: $*" >&3
    exit 1
}

# arch layers channels heads kv_heads hidden vocab T micro_batch
shape() {
    case $1 in
    small) echo gpt2 6 384 6 6 1536 256 256 16 ;;
    124M-64) echo gpt2 12 768 12 12 3072 50257 64 4 ;;
    124M-256) echo gpt2 12 768 12 12 3072 50257 256 4 ;;
    124M-1024) echo gpt2 12 768 12 12 3072 50257 1024 1 ;;
    350M-256) echo gpt2 24 1024 16 16 4096 50257 256 1 ;;
    ecg) echo gpt2 4 128 4 4 512 64 256 8 ;; # conf/ecg-foundation.ini
    llama) echo llama 4 512 8 2 1376 32000 256 8 ;;
    124M) echo gpt2 12 768 12 12 3072 50304 1024 16 ;;
    350M) echo gpt2 24 1024 16 16 4096 50304 1024 16 ;;
    774M) echo gpt2 36 1280 20 20 5120 50304 1024 8 ;;
    1.5B) echo gpt2 48 1600 25 25 6400 50304 1024 8 ;;
    llama-1B) echo llama 16 2048 32 8 8192 32000 1024 8 ;;
    tiny) echo gpt2 2 64 2 2 256 512 64 2 ;;
    *) return 1 ;;
    esac
}

take() { # SHAPE: its numbers
    read -r arch layers channels heads kv hidden vocab time micro <<<"$(shape "$1")" &&
        [ -n "$micro" ] || fail "no shape '$1'"
}

# pytorch ARGUMENT...: gpt2_torch.py on the shape taken last, by $python, at $device (auto is
# cuda) and $precision.
pytorch() {
    "$python" "$here/gpt2_torch.py" --arch "$arch" --channels "$channels" --heads "$heads" \
        --kv-heads "$kv" --hidden "$hidden" --vocab "$vocab" --batch "$micro" \
        --time "$time" --device "${device/auto/cuda}" --precision "$precision" "$@"
}

# write_ini FILE SECTION.KEY=VALUE...; a key that comes twice has its last value.
write_ini() {
    local file=$1
    shift
    printf '%s\n' "$@" | awk '
        { key = substr($0, 1, index($0, "=") - 1); section = key; sub(/\..*/, "", section)
          if (!(section in keys)) sections[++n] = section
          if (!(key in value)) keys[section] = keys[section] " " key
          value[key] = substr($0, index($0, "=") + 1) }
        END {
            for (i = 1; i <= n; i++) {
                print "[" sections[i] "]"
                count = split(keys[sections[i]], part, " ")
                for (k = 1; k <= count; k++) {
                    print substr(part[k], length(sections[i]) + 2) " = " value[part[k]]
                }
            }
        }' >"$file"
}

# write_shape FILE [SECTION.KEY=VALUE]...: the shape taken last, on the tokens in $tmp/tokens.
write_shape() {
    local file=$1
    shift
    write_ini "$file" "model.arch=$arch" "model.layers=$layers" "model.channels=$channels" \
        "model.heads=$heads" "model.kv_heads=$kv" "model.hidden=$hidden" \
        "model.context=$time" "model.vocab=$vocab" data.format=tokens \
        "data.path=$tmp/tokens" train.steps=1000000 "train.global_batch=$micro" \
        "train.micro_batch=$micro" train.eval_batches=1 device.kind=cpu checkpoint.every=0 "$@"
}

# write_tokens N MOST: N random tokens of 16 bits below MOST, in $tmp/tokens.
write_tokens() {
    LC_ALL=C awk -v n="$1" -v most="$2" 'BEGIN {
        x = 1
        for (i = 0; i < n; i++) {
            x = (x * 69069 + 12345) % 4294967296
            t = int(x / 65536) % most
            printf "%c%c", t % 256, int(t / 256)
        }
    }' >"$tmp/tokens"
}

# The model of the tables that are of bytes, on a text. [SECTION.KEY=VALUE]...
write_letters() {
    awk 'BEGIN {
        x = 7
        for (i = 0; i < 4000; i++) {
            x = (x * 1103 + 12345) % 65536
            printf "%c%s", 97 + x % 26, (x % 97 == 0) ? ".\n" : " "
        }
    }' >"$tmp/text.txt"
    write_ini "$tmp/run.ini" model.layers=6 model.channels=384 model.heads=6 \
        model.context=16 "data.path=$tmp/text.txt" "data.cache=$tmp/cache" \
        train.global_batch=4 train.micro_batch=1 train.eval_batches=1 "$@"
}

# settings [SECTION.KEY=VALUE]...: as arguments, in $sets.
settings() {
    local set
    sets=()
    for set in "$@"; do
        sets+=(--set "$set")
    done
}

# train INI FOLDER [SECTION.KEY=VALUE]...: an independent run in $tmp/FOLDER.
train() {
    local ini=$1 out=$tmp/$2 sets
    shift 2
    settings "$@"
    rm -rf "$out"
    "$cadre" train "$ini" --out "$out" "${sets[@]}" >/dev/null 2>"$tmp/log" ||
        fail "$*: $(cat "$tmp/log")"
}

# field KEY [FILE]: numbers out of lines of JSON, of a file or of stdin.
field() { sed -nE "s/.*\"$1\": *([0-9.e+-]+).*/\1/p" "${@:2}"; }

# Likewise strings.
text() { sed -nE "s/.*\"$1\": *\"([^\"]*)\".*/\1/p" "${@:2}"; }

# total FOLDER KEY: a number of a run's summary, not of one of its parts.
total() { sed -nE "s/^  \"$2\": *([0-9.e+-]+).*/\1/p" "$tmp/$1/summary.json"; }

# The median of the numbers on stdin, of two the lower.
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }

# ---- of runs in $tmp that are compared by the time to a loss ----

# Processor seconds of a run that `time` has measured into NAME.cpu.
cpu() { # NAME
    awk 'NF == 2 { s += $1 + $2 } END { print s }' "$tmp/$1.cpu"
}

# The lower quartile of the steps after the first two, in ms.
quartile() { # NAME
    field step_s "$tmp/$1/metrics.jsonl" | tail -n +3 | sort -g |
        awk '{ v[NR] = $1 } END { printf "%.1f", 1000 * v[int((NR + 3) / 4)] }'
}

# Steps and the mean loss of 8 steps, from the eighth on.
smooth() { # NAME
    field loss "$tmp/$1/metrics.jsonl" | awk '{ v[NR] = $1; s += $1 - (NR > 8 ? v[NR - 8] : 0) }
        NR >= 8 { print NR, s / 8 }'
}
