#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files of a run, a second run in the same folder, and full disks.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

train text first 0 train.steps=4 strategy.stack=ddp:2
for file in config.ini metrics.jsonl summary.json checkpoints/step-00000004/state.json; do
    [ -e "$tmp/first/$file" ] || fail "a run leaves no $file"
done
grep -q "^first\|4 steps with ddp:2 done" "$tmp/first.out" || fail "no line on stdout"
[ "$(wc -l <"$tmp/first/metrics.jsonl")" -eq 4 ] || fail "not a line a step"

# config.ini is the run again.
cp "$tmp/first/config.ini" "$tmp/again.ini"
train again again 0
same first again

# It is, too, where the file is elsewhere and its paths were relative: under its own name, and
# with the same file of data.
sed 's|^path = .*|path = text.txt|; s|^cache = .*|cache = cache|' "$tmp/text.ini" >"$tmp/near.ini"
(cd "$tmp" && runs near 0 "$cadre" train near.ini --out near --set train.steps=4)
(cd / && runs far 0 "$cadre" train "$tmp/near/config.ini" --out "$tmp/far")
same near far
grep -q "^near: 4 steps" "$tmp/far.out" || fail "run.name is lost: $(cat "$tmp/far.out")"
grep -qx "path = $tmp/text.txt" "$tmp/near/config.ini" || fail "data.path is not absolute"
diff <(grep -v '^#' "$tmp/near/config.ini") <(grep -v '^#' "$tmp/far/config.ini") ||
    fail "the config.ini of a config.ini has other values"
diff <("$cadre" inspect "$tmp/near/config.ini") <("$cadre" inspect "$tmp/far/config.ini") ||
    fail "the config.ini of a config.ini has other defaults"

# A run that begins from a folder has the folder's model in its config.ini, of whatever form
# and length of context; it is run again, evaluated and generated from.
train text base 0 train.steps=2 model.arch=llama model.kv_heads=1 model.layers=3 \
    model.context=48 model.norm_eps=3e-6
cat >"$tmp/tune.ini" <<EOF
[model]
init = $(last base)
[data]
path = $tmp/text.txt
cache = $tmp/cache
[train]
steps = 3
eval_batches = 0
EOF
train tune tuned 0
cp "$tmp/tuned/config.ini" "$tmp/retune.ini"
train retune retuned 0
same tuned retuned
for line in 'arch = llama' 'layers = 3' 'kv_heads = 1' 'context = 48' 'hidden = 96' \
    'vocab = 256' 'norm_eps = 3e-06' 'tied = no'; do
    grep -qxF "$line" "$tmp/tuned/config.ini" || fail "config.ini of a tuned run lacks $line"
done
grep -q '"tokens": 384,' "$tmp/tuned/metrics.jsonl" || # 8 sequences of 48
    fail "sequences are not as long as the context of model.init: $(cat "$tmp/tuned/metrics.jsonl")"
runs eval-tuned 0 "$cadre" eval "$tmp/tuned/config.ini" --from "$tmp/tuned"
valid=$(sed -nE 's/.*"valid_loss": ?([0-9.]+).*/\1/p' "$tmp/tuned/metrics.jsonl")
awk -v run="$valid" '$1 == "loss" { d = $2 - run; ok = d < 1e-6 && d > -1e-6 }
    END { exit !ok }' "$tmp/eval-tuned.out" ||
    fail "eval of config.ini says $(grep ^loss "$tmp/eval-tuned.out"), the run said $valid"
# without --from too: the run's parameters, not those that it began from
runs eval-left 0 "$cadre" eval "$tmp/tuned/config.ini"
diff <(grep -v "^named by" "$tmp/eval-tuned.out") <(grep -v "^named by" "$tmp/eval-left.out") ||
    fail "eval of config.ini took other parameters"
# ... and eval says which: of the file that began the run, those of model.init
runs eval-init 0 "$cadre" eval "$tmp/tune.ini"
grep -q "^parameters  *$(last base)\$" "$tmp/eval-init.out" || fail "$(cat "$tmp/eval-init.out")"
for pair in tuned=--from "left=the run, as its newest checkpoint" init=model.init; do
    grep -qx "named by  *${pair#*=}" "$tmp/eval-${pair%%=*}.out" || fail "eval does not say ${pair#*=}"
done
runs eval-json 0 "$cadre" eval "$tmp/tuned/config.ini" --json
grep -qx ' *"named_by": "run",' "$tmp/eval-json.out" || fail "$(cat "$tmp/eval-json.out")"
grep -q "^parameters  *$(last tuned)\$" "$tmp/eval-left.out" || fail "$(cat "$tmp/eval-left.out")"
runs say-tuned 0 "$cadre" generate "$tmp/tuned/config.ini" --from "$tmp/tuned" --prompt the \
    --tokens 4

cp -r "$tmp/first" "$tmp/before"
refused first "holds a run already .*checkpoint.resume=auto"
diff -r "$tmp/before" "$tmp/first" || fail "a refused run changed the folder"
refused first "done 4 steps already, train.steps = 4" train.steps=4 checkpoint.resume=auto \
    strategy.stack=ddp:2
refused no-plugin "nosuch" strategy.stack=nosuch:2
refused uneven "train.global_batch.*divide evenly over 3" strategy.stack=ddp:3
refused key "optim.lrr.*optim.lr" optim.lrr=1
refused number "train.steps" train.steps=many
refused batch "train.global_batch = 16.*train.micro_batch = 3" train.micro_batch=3
refused exact "power of two" run.exact=yes train.global_batch=24 strategy.stack=ddp:2 \
    train.micro_batch=4
[ ! -e "$tmp/uneven" ] || fail "a refused run made its folder"

# A loss that is not finite ends the run, saying which step.
train text huge 1 optim.name=sgd optim.lr=1000 optim.clip=0 train.steps=200
says huge "not finite at step [0-9]+"
train text huge-2 1 optim.name=sgd optim.lr=1000 optim.clip=0 train.steps=200 \
    strategy.stack=ddp:2 comm.ranks=processes
says huge-2 "not finite at step [0-9]+"
no_orphan huge-2

# Metrics that have no end are not read, and a checkpoint that is not there is named.
mkdir "$tmp/endless"
ln -s /dev/zero "$tmp/endless/metrics.jsonl"
train text endless 2 checkpoint.resume=auto
says endless "metrics.jsonl' is no regular file"
train text nowhere 2 checkpoint.resume="$tmp/none"
says nowhere "none"

# A disk that is full.
if [ "$(id -u)" -eq 0 ] && mkdir "$tmp/small" && mount -t tmpfs -o size=1064k none "$tmp/small"; then
    trap 'umount "$tmp/small"; clean_up' EXIT
    # status pages and the first checkpoint fit, a second one does not
    train text small/run 1 train.steps=4 checkpoint.every=2 checkpoint.keep=0 \
        strategy.stack=ddp:2
    says small/run "[Nn]o space|full"
    left=$(ls -A "$tmp/small/run/checkpoints")
    [ "$left" = step-00000002 ] || fail "the checkpoints of a full disk are: $left"
    "$cadre" inspect "$(last small/run)" >"$tmp/said" 2>&1 || cat "$tmp/said"
    train text rest 0 train.steps=4 "checkpoint.resume=$(last small/run)"
else
    echo "SKIP: no small file system (needs root and tmpfs)"
fi

# the run's own config.ini names every option, also those that are found from the data
train text zero 0 train.steps=2 model.vocab=0
"$cadre" eval "$tmp/zero/config.ini" --from "$tmp/zero" >"$tmp/eval.out" 2>&1 ||
    fail "a run's own config.ini does not fit its checkpoint: $(cat "$tmp/eval.out")"

train text whole 0 train.steps=1 data.valid_fraction=0
runs whole-seen 0 "$cadre" eval "$tmp/zero/config.ini" --from "$tmp/whole"
grep -q "step-00000001' was trained on all of this data; name other data" "$tmp/whole-seen.log" ||
    fail "$(cat "$tmp/whole-seen.log")"

# A checkpoint knows the records that it was trained on, and eval says where it meets them.
train ecg beats 0 train.steps=2
runs unseen 0 "$cadre" eval "$tmp/ecg.ini" --from "$tmp/beats"
! grep -q "trained on" "$tmp/unseen.out" "$tmp/unseen.log" || fail "119 was not trained on"
runs seen 0 "$cadre" eval "$tmp/ecg.ini" --from "$tmp/beats" --set "data.valid_records=100, 119"
grep -q "^of these, trained on  *100$" "$tmp/seen.out" || fail "eval does not say 100 was trained on"
grep -q "step-00000002' was trained on these validation records: 100;" "$tmp/seen.log" ||
    fail "eval does not warn: $(cat "$tmp/seen.log")"
runs seen-json 0 "$cadre" eval "$tmp/ecg.ini" --from "$tmp/beats" --json \
    --set data.valid_records=107,208
grep -q '"trained_records": "107, 208"' "$tmp/seen-json.out" || fail "$(cat "$tmp/seen-json.out")"
! grep -q "of these, trained on" "$tmp/eval.out" || fail "eval met training data as it was divided"
runs half 0 "$cadre" eval "$tmp/zero/config.ini" --from "$tmp/zero" --set data.valid_fraction=0.5
grep -q "^of these, trained on  *about 80 %$" "$tmp/half.out" || fail "$(cat "$tmp/half.out")"
grep -q "was trained on 80 % of the validation data; .*data.valid_fraction = 0.1," "$tmp/half.log" ||
    fail "$(cat "$tmp/half.log")"

# ... also of the run that it started from, whose data is met here and not in its own training
seen=$(last beats)
train ecg warm 0 train.steps=1 "model.init=$seen" "data.valid_records=100, 119"
runs carried 0 "$cadre" eval "$tmp/ecg.ini" --from "$tmp/warm" --set data.valid_records=100
grep -q "^of these, trained on  *100$" "$tmp/carried.out" ||
    fail "what model.init was trained on is forgotten: $(cat "$tmp/carried.out")"
train text warm-text 0 train.steps=1 "model.init=$(last zero)" data.valid_fraction=0.5
runs later-half 0 "$cadre" eval "$tmp/zero/config.ini" --from "$tmp/warm-text" --set data.valid_fraction=0.5
grep -q "^of these, trained on  *about 80 %$" "$tmp/later-half.out" ||
    fail "what model.init was trained on is forgotten: $(cat "$tmp/later-half.out")"

# ... each division of the data once, however often it was trained on
train text third 0 train.steps=1 "model.init=$(last warm-text)" data.valid_fraction=0.5
for run in warm-text third; do
    sed -nE 's/^ *"holdout": "([^"]*)".*/\1/p' "$(last "$run")/state.json" >"$tmp/$run.kept"
    [ "$(tr ';' '\n' <"$tmp/$run.kept" | grep -c .)" -eq 2 ] || fail "$run keeps $(cat "$tmp/$run.kept")"
done
