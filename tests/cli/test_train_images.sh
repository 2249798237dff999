#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Images: learned, bit for bit the same under every strategy in exact mode, in either layout and
# after a resume; wrong files and settings are refused in one line. And tools/make-digits, which
# conf/mnist.ini names.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/train_lib.sh"

digits=$tmp/digits
CADRE_MNIST=/nowhere "$CADRE_SRC/tools/make-digits" "$digits" 250 >/dev/null
images=$digits/images-idx3-ubyte.gz labels=$digits/labels-idx1-ubyte.gz
[ "$(zcat "$images" | sha256sum | cut -c 1-16)" = 3d092ac62989f37d ] ||
    fail "make-digits draws other images than elsewhere"
[ "$(zcat "$labels" | sha256sum | cut -c 1-16)" = 3964c369a70a1f2a ] ||
    fail "make-digits draws other digits than elsewhere"

# img.ini takes the place of text.ini in `refused` too.
cat >"$tmp/text.ini" <<EOF
[model]
arch = vit
head = classify
layers = 2
channels = 32
heads = 2
patch = 7
[data]
format = idx
path = $images
mean = 0.1
std = 0.3
shift = 2
flip = yes
valid_fraction = 0.2
[train]
steps = 5
global_batch = 16
micro_batch = 2
eval_batches = 0
[optim]
lr = 3e-3
clip = 1
EOF

# ---- every strategy has the bits of single ----
exact="run.exact=yes checkpoint.every=5"
# shellcheck disable=SC2086
{
    train text single 0 $exact
    stacks="ddp:2 zero:2+1 zero:2+3 pipeline:2"
    [ "$lean" = 1 ] || stacks="$stacks zero:2+2 ddp:4 pipeline:2,ddp:2"
    for stack in $stacks; do
        stage=1
        [ "${stack%+*}" = "$stack" ] || stage=${stack#*+}
        train text "$stack" 0 $exact "strategy.stack=${stack%+*}" "zero.stage=$stage"
        same single "$stack"
    done
    train text parts 0 $exact run.exact_parts=2
    train text tensor 0 $exact run.exact_parts=2 strategy.stack=tensor:2
    same parts tensor
    train text rows 0 $exact run.exact_parts=2 strategy.stack=tensor:2 \
        tensor.sequence_parallel=yes
    same parts rows
    train text nhwc 0 $exact data.layout=nhwc
    same single nhwc
    train text again 0 $exact train.recompute=block device.threads=2 data.prefetch=0
    same single again
    train text other-seed 0 $exact run.seed=7
    ! cmp -s <(losses single) <(losses other-seed) || fail "the seed changes nothing"
    train text still 0 $exact data.shift=0 data.flip=no
    ! cmp -s <(losses single) <(losses still) || fail "data.shift and flip change nothing"
    train text half 0 train.precision=bf16 train.steps=2
}
# A resume in the second epoch, under another strategy.
train text long 0 run.exact=yes train.steps=16 checkpoint.every=16
train text resumed 0 run.exact=yes train.steps=16 checkpoint.every=8
rm -r "$(last resumed)"
train text resumed 0 run.exact=yes train.steps=16 checkpoint.every=8 checkpoint.resume=auto \
    strategy.stack=ddp:2
same long resumed

# ---- accuracy, where it is said ----
grep -q '"valid_accuracy": *[0-9]' "$tmp/single/metrics.jsonl" || fail "no accuracy in metrics"
grep -q '"valid_accuracy": *[0-9]' "$tmp/single/summary.json" || fail "no accuracy in the summary"
grep -q '"valid_samples": *50' "$tmp/single/summary.json" || fail "not a fifth is held back"
runs eval 0 "$cadre" eval "$tmp/single/config.ini" --from "$(last single)" --json
accuracy() { sed -nE 's/.*"(valid_)?accuracy": ?([0-9.e-]+).*/\2/p' "$1" | tail -n 1; }
[ "$(accuracy "$tmp/eval.out")" = "$(accuracy "$tmp/single/summary.json")" ] ||
    fail "eval and the run's last evaluation differ"
[ ! -e "$(last single)/config.json" ] || fail "no Hugging Face model has this form"
# ---- it learns ----
if [ "$lean" != 1 ]; then
    train text learned 0 train.steps=150 train.micro_batch=16 data.shift=0 data.flip=no
    awk -v a="$(accuracy "$tmp/learned/summary.json")" 'BEGIN { exit !(a >= 0.5) }' ||
        fail "accuracy $(accuracy "$tmp/learned/summary.json") after 150 steps"
fi

# ---- wrong files ----
# bad NAME PATTERN FILE [s.k=v]...
bad() {
    refused "$1" "$2" "data.path=$3" "data.labels=$labels" "${@:4}"
}
zcat "$images" >"$tmp/plain"
head -c 30000 "$images" >"$tmp/short.gz"
head -c 1000 "$tmp/plain" >"$tmp/short"
(cat "$tmp/plain" && printf x) >"$tmp/more"
(head -c 40000 "$images" && printf 'damaged' && tail -c +40008 "$images") >"$tmp/damaged.gz"
bad short-gz 'short.gz": .*(cut off|ends inside)' "$tmp/short.gz"
bad short 'short": expected 196000 bytes after the header, found 984' "$tmp/short"
bad more 'more": expected 196000 bytes .*, found more' "$tmp/more"
bad damaged 'damaged.gz": its compressed data is damaged' "$tmp/damaged.gz"
bad magic 'labels-idx1-ubyte.gz": expected the magic number 0x00000803.*0x00000801' "$labels"
bad name 'text.txt": expected the magic number' "$tmp/text.txt"
refused label 'labels-idx1-ubyte.gz": label [0-9]+ is [0-9], .*data.classes = 5' data.classes=5
refused labels 'images-idx3-ubyte.gz": expected the magic number 0x00000801' \
    "data.labels=$images"
CADRE_MNIST=/nowhere "$CADRE_SRC/tools/make-digits" "$tmp/few" 10 >/dev/null
refused count '10 labels for the 250 images' "data.labels=$tmp/few/labels-idx1-ubyte.gz"
refused unnamed 'has no "images-idx3" in its name' "data.path=$tmp/plain"
refused missing "cannot open" "data.path=$tmp/none-images-idx3"

# ---- wrong settings ----
refused patch 'model.patch = 5 does not divide images of 28 x 28 pixels' model.patch=5
refused shift 'data.shift = 28, expected less than the 28 pixels' data.shift=28
refused mean 'data.mean = 0.1,0.2, expected one number' data.mean=0.1,0.2
refused std 'data.std = 0, expected one positive number' data.std=0
refused head 'model.head = lm, but images have classes' model.head=lm
refused gpt2 'data.format = idx are images, which take model.arch = vit' model.arch=gpt2
refused context 'model.context = 20 .*make it 17; leave' model.context=20
refused experts 'model.experts' model.experts=2
refused text 'model.arch = vit takes images' data.format=text "data.path=$tmp/text.txt"

# ---- folders ----
refused folder 'cannot read the folder' data.format=images "data.path=$tmp/none"
mkdir "$tmp/one" "$tmp/one/only"
refused classes 'has 1 folders, expected one for each of 2' data.format=images \
    "data.path=$tmp/one"
mkdir "$tmp/one/other"
refused empty 'one/only": expected pictures of its class' data.format=images "data.path=$tmp/one"
cp "$tmp/text.txt" "$tmp/one/only/p.png"
refused picture 'one/only/p.png": expected a PNG or JPEG file' data.format=images \
    "data.path=$tmp/one"

# ---- on CUDA, played by the stand-in ----
standin=$CADRE_BUILD/tests/support/cuda_host/.libs
if [ -e "$standin/device_cuda.so" ]; then
    export XDG_CACHE_HOME=$tmp/xdg
    small="train.steps=2 train.global_batch=4 train.micro_batch=2 data.valid_fraction=0
        model.layers=1 model.patch=14 train.precision=fp64"
    # shellcheck disable=SC2086 # words
    {
        train text on-cpu 0 device.kind=cpu $small checkpoint.every=2
        for layout in nchw nhwc; do
            CADRE_MODULE_PATH=$standin train text "on-$layout" 0 device.kind=cuda $small \
                checkpoint.every=2 "data.layout=$layout"
            close_to on-cpu "on-$layout" 1e-12 1e-9
        done
    }
else
    echo "CUDA's stand-in was not built (no C++ compiler): images on CUDA are not tried"
fi

# ---- a comparison of the layouts is of the same training ----
cat >>"$tmp/text.ini" <<EOF
[compare]
baseline = planes
runs = planes, pixels
[run:planes]
data.layout = nchw
[run:pixels]
data.layout = nhwc
EOF
compare layouts 0 train.steps=2
grep -q 'All runs trained the same, to the last bit' "$tmp/layouts.out" ||
    fail "the layouts are not compared as the same training"
