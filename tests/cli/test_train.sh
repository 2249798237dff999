#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run leaves, what a second run in the same folder meets, and full disks.
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
if [ "$(id -u)" -eq 0 ] && mkdir "$tmp/small" && mount -t tmpfs -o size=700k none "$tmp/small"; then
    trap 'umount "$tmp/small"; clean_up' EXIT
    # the first checkpoint fits, a second one beside it does not
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
