#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong inputs: each ends with status 2 and does not hang, says so in one line that names what
# is wrong, and leaves no run folder. CADRE_TEST_SHOW=1 prints every line.
set -euo pipefail
cadre=$CADRE_BUILD/cadre
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
unset CADRE_MITDB CADRE_PLUGIN_PATH CADRE_MODULE_PATH CADRE_INIT CADRE_RANK \
    CADRE_WORLD_SIZE CADRE_LOCAL_RANK
count=0

# wrong PATTERN ARGUMENT...: `cadre ARGUMENT...` is refused with a line that has PATTERN.
wrong() {
    local pattern=$1 status=0 lines
    shift
    timeout $((60 * ${CADRE_TEST_PATIENCE:-1})) "$cadre" "$@" >said.out 2>said.err </dev/null || status=$?
    [ "${CADRE_TEST_SHOW:-0}" = 0 ] || sed "s/^/[$status] /" said.err
    lines=$(wc -l <said.err)
    if [ "$status" -ne 2 ] || [ "$lines" -ne 1 ] || [ -s said.out ] ||
        ! grep -qE "^cadre: .*($pattern)" said.err; then
        echo "FAIL: cadre $*"
        echo "  status $status, expected 2 and one line with '$pattern'; stderr, stdout:"
        cat said.err said.out
        failed=1
    fi
    if [ -e run ] || [ -e runs/first ]; then
        echo "FAIL: cadre $* left a run folder"
        rm -rf run runs/first
        failed=1
    fi
    count=$((count + 1))
}
failed=0

# train PATTERN [s.k=v]...: so is training with these settings.
train() {
    local pattern=$1 set args=()
    shift
    for set in "$@"; do
        args+=(--set "$set")
    done
    wrong "$pattern" train first.ini --out run "${args[@]}"
}

# conf PATTERN: so is an ini file that is stdin.
conf() {
    cat >bad.ini
    wrong "$1" train bad.ini --out run
}

seq 1 4000 >text.txt
cat >first.ini <<'INI'
[model]
layers = 1
channels = 32
heads = 2
context = 32
[data]
path = text.txt
cache = no
[train]
steps = 2
global_batch = 4
micro_batch = 2
eval_batches = 1
INI

# ---- the command line ----
wrong "expected a command"
wrong "no command 'trian', did you mean 'train'" trian first.ini
wrong "unknown flag '--st'.*--set" train first.ini --st train.steps=2
wrong "usage: cadre train" train
wrong "one argument too many" train first.ini second.ini
wrong "--set needs a value" train first.ini --set
wrong "expected section.key=value, found 'train.steps'" train first.ini --out run --set train.steps
wrong "no section \[run:fast\]" train first.ini --run fast
wrong "unknown flag '--prompt'" eval first.ini --prompt x
wrong "expected CONF with --ranks N" plan first.ini
wrong "cadre train RUN_FOLDER" resume first.ini
wrong "no command 'trian'" help trian
wrong "unknown flag '--sett', did you mean '--set'" train first.ini --sett=train.steps=2
wrong "unknown flag '-o'" train first.ini -o run
wrong "expected section.key=value, found 'train.steps'" train first.ini --out=run --set=train.steps
wrong "train.steps.*many" train first.ini --out=run --set=train.steps=many
wrong "train.steps.*many" train --out=run --set=train.steps=many -- first.ini
wrong "one argument too many" train first.ini -- --set
wrong "--dry-run takes no value" train first.ini --dry-run=yes
wrong "usage: cadre check" check
wrong "tensor-model-parallel-size of Megatron-LM is strategy.stack = tensor:N here.*--set" \
    train first.ini --tensor-model-parallel-size 2
wrong "training.seq_len of TorchTitan is model.context here" train first.ini --training.seq_len=8
wrong "set by --set optim.lr=VALUE" train first.ini --optim.lr=1

# ---- the ini file ----
wrong "none.ini" train none.ini --out run
mkdir folder.ini
wrong "folder.ini.*(directory|folder)" train folder.ini --out run
train "optim.lrr.*optim.lr" optim.lrr=1
train "train.steps.*many" train.steps=many
train "train.steps.*-1" train.steps=-1
train "data.valid_fraction.*0.9" data.valid_fraction=1.5
train "model.arch.*gpt2, llama" model.arch=gpt3
train "optim.lr.*nan" optim.lr=nan
conf "bad.ini:2.*modle.layers.*model.layers" <<<$'[modle]\nlayers = 2'
conf "bad.ini:2.*layres.*layers" <<<$'[model]\nlayres = 2'
conf "bad.ini:2" <<<$'[model]\nlayers two'
conf "bad.ini:3.*layers" <<<$'[model]\nlayers = 1\nlayers = 2'
conf "bad.ini" < <(printf '\000\001\002[model')
conf "bad.ini:2: unknown section .zeroo.*nearest is .zero" <<<$'[zeroo]\nstage = 3'
conf "bad.ini:2: unknown section .ddp@sit., the nearest is .ddp@site.:" \
    <<<$'[ddp@sit]\nlevel = 1\n[strategy]\nstack = ddp@site:2, ddp:2'
conf "bad.ini:2: unknown section .ddp@typo.: correct it" <<<$'[ddp@typo]\nlevel = 1'
conf "bad.ini:2: unknown option training.seq_len: .* of TorchTitan is model.context here" \
    <<<$'[training]\nseq_len = 8'
conf "bad.ini:2: unknown option optim.learning_rate: .*is optim.lr here" \
    <<<$'[optim]\nlearning_rate = 8'
conf "bad.ini:2: unknown option train.lr, the nearest is optim.lr" <<<$'[train]\nlr = 8'
conf "extends" <<<$'[run]\nextends = bad.ini'
conf "no-such.ini" <<<$'[run]\nextends = no-such.ini'

# ---- sizes that do not fit ----
train "model.heads|divide.*channels" model.heads=3
train "train.micro_batch = 1000000000.*memory" train.micro_batch=1000000000 \
    train.global_batch=1000000000 model.vocab=16777216
train "text.txt.*100000 tokens is left; lower model.context or data.valid_fraction, or" \
    model.context=100000
train "train.global_batch = 4.*train.micro_batch = 3" train.micro_batch=3
train "global_batch.*3" strategy.stack=ddp:3 train.global_batch=4 train.micro_batch=1
train "power of two" run.exact=yes train.global_batch=12 train.micro_batch=2 \
    strategy.stack=ddp:2
train "model.hidden = 4194304" model.channels=1048576 model.heads=1
train "kv_heads" model.arch=llama model.heads=4 model.kv_heads=3
train "head = classify.*lm" model.head=classify
train "data.task = beats.*wfdb.*text" data.task=beats model.head=classify
train "train.steps.*train.epochs|train.epochs.*train.steps" train.steps=0
train "optim.min_lr" optim.schedule=cosine optim.min_lr=1 optim.lr=1e-3

# ---- strategies ----
train "dpp.*ddp" strategy.stack=dpp:2
train "no plugin 'fsdp': FSDP is zero with zero.stage = 3" strategy.stack=fsdp:2
train "no plugin 'ZeRO-3': ZeRO-3 is zero with zero.stage = 3" strategy.stack=ZeRO-3:2
train "no plugin 'gpipe': .*pipeline.schedule = gpipe" strategy.stack=gpipe:2
train "no plugin 'tp': tensor parallelism is tensor" strategy.stack="tp:2, ddp:2"
train "'zero' and 'ddp' both reduce gradients along 'dp'" strategy.stack="zero:2, ddp:2"
train "single must be the only entry" strategy.stack="pipeline:2, single"
train "stack cannot divide evenly" strategy.stack="pipeline:2, zero:4"
train "zero.stage: .*from 1 to 3, found '4'" strategy.stack=zero:2 zero.stage=4
train "zero.stage: .*found 'two'" strategy.stack=zero:2 zero.stage=two
train "zero.stagee.*zero.stage" strategy.stack=zero:2 zero.stagee=3
train "zero.prefetch.*found '-1'" strategy.stack=zero:2 zero.prefetch=-1
train "zero.bucket_mb.*found '0'" strategy.stack=zero:2 zero.bucket_mb=0
train "zero.overlap.*yes or no" strategy.stack=zero:2 zero.overlap=perhaps
train "zero.offload.*none, optimizer" strategy.stack=zero:2 zero.offload=disk
train "zero.reduce.*step, microbatch" strategy.stack=zero:2 zero.reduce=never
train "microbatch with zero.stage = 1" strategy.stack=zero:2 zero.reduce=microbatch
train "power of two of data ranks, found 3" strategy.stack=zero:3 run.exact=yes \
    zero.stage=2 zero.reduce=microbatch train.global_batch=6 train.micro_batch=1
train "5 stages.*3 units.*fewer stages" strategy.stack=pipeline:5
train "schedule.*nearest: 1f1b" strategy.stack=pipeline:2 pipeline.schedule=1f2b
train "pipeline.chunks = 2.*expected 1" strategy.stack=pipeline:2 pipeline.chunks=2
train "pipeline.chunks = 1.*2 or more" strategy.stack=pipeline:2 pipeline.chunks=1 \
    pipeline.schedule=interleaved
train "6 chunks.*3 units" strategy.stack=pipeline:2 pipeline.chunks=3 \
    pipeline.schedule=interleaved
for balance in countd "" "0 3" "3 0" "-1 4" "1 x" "1,2" "1.5 1.5" "99999999999999999999 1"; do
    train "pipeline.balance: expected counted, measured" strategy.stack=pipeline:2 \
        pipeline.balance="$balance"
done
for balance in "3" "2 2" "1 1 1"; do
    train "pipeline.balance = $balance is .*expected 2 chunks .*3 units" \
        strategy.stack=pipeline:2 pipeline.balance="$balance"
done
train "model.heads = 2 is not a multiple .*= 4" strategy.stack=tensor:4
train "model.hidden = 33 is not a multiple" strategy.stack=tensor:2 model.hidden=33
train "model.vocab = 257 is not a multiple" strategy.stack=tensor:2 model.vocab=257
train "model.kv_heads = 1 is not" strategy.stack=tensor:2 model.arch=llama model.kv_heads=1
train "sequence_parallel.*yes or no" strategy.stack=tensor:2 tensor.sequence_parallel=maybe
train "divide the 1 tokens.*2 ranks" strategy.stack=tensor:2 tensor.sequence_parallel=yes \
    model.context=1 train.micro_batch=1
for compress in topk:0 topk:2 topk: topk:nan topk:0.5x; do
    train "$compress: expected a ratio" strategy.stack=ddp:2 ddp.compress=$compress
done
for compress in powersgd: powersgd:0 powersgd:1025 powersgd:1.5; do
    train "$compress: expected a whole rank" strategy.stack=ddp:2 ddp.compress=$compress
done
for compress in topk powersgd bf17 BF16 int8:3 ""; do
    train "ddp.compress: expected none, bf16.*found '$compress'" strategy.stack=ddp:2 \
        ddp.compress=$compress
done
train "ddp.compress.*run.exact = yes forbids" strategy.stack=ddp:2 ddp.compress=bf16 run.exact=yes
train "log.trace_steps.*found '0'" log.trace_steps=0
train "checkpoint.async.*yes or no" checkpoint.async=perhaps
train "strategy.stack" strategy.stack=ddp:0
train "strategy.stack" strategy.stack=ddp:two
train "ddp" strategy.stack="ddp:2, ddp:2"
train "strategy.stack" strategy.stack=,
train "ddp.bucket_mbs.*ddp.bucket_mb" strategy.stack=ddp:2 ddp.bucket_mbs=1
train "ddp.bucket_mb" strategy.stack=ddp:2 ddp.bucket_mb=-1
cp text.txt text.so
train "text.so.*ELF" strategy.stack=./text.so:2
real=$(find "$CADRE_BUILD/plugins" -name ddp.so | head -1)
head -c 2000 "$real" >short.so
train "short.so.*(truncated|short)" strategy.stack=./short.so:2
train "none.so" strategy.stack=./none.so:2

# ---- what this build does not have ----
train "train.loss_scale = 3.*power of two" train.loss_scale=3
train "comm.backend = mpi is for ranks that mpirun.*starts" comm.backend=mpi strategy.stack=ddp:2
train "comm.backend = nccl needs a GPU.*device.kind = cpu" comm.backend=nccl device.kind=cpu
train "cuda.*(cpu|auto)" device.kind=cuda
train "comm.link" comm.link=fast

# ---- ranks of an external launcher ----
export CADRE_RANK=0
train "CADRE_RANK is set, but CADRE_INIT is not"
export CADRE_INIT=tcp://localhost:1
train "CADRE_WORLD_SIZE is not set.*CADRE_INIT is .tcp://localhost:1.*a number from 1"
export CADRE_WORLD_SIZE=2
train "CADRE_LOCAL_RANK is not set"
export CADRE_LOCAL_RANK=0
train "makes 1 ranks.*launcher started 2"
train "comm.backend = nccl needs a GPU.*device.kind = cpu" strategy.stack=ddp:2 device.kind=cpu comm.backend=nccl
wrong "cadre compare starts all ranks.*rank 0 of 2 by CADRE_INIT" compare first.ini --out run
export CADRE_RANK=2
train "CADRE_RANK is .2.*from 0 to 1"
export CADRE_INIT=localhost:1
train "CADRE_INIT is .localhost:1.*tcp://host:port or file:///path"
unset CADRE_RANK CADRE_INIT CADRE_WORLD_SIZE CADRE_LOCAL_RANK

# ---- text and tokens ----
train "data.path" data.path=
train "data.path: .*none.txt" data.path=none.txt
train "folder.ini" data.path=folder.ini
: >empty.txt
train "empty.txt.*(empty|0 )" data.path=empty.txt
echo short >short.txt
train "short.txt" data.path=short.txt
train "tokenizer.*none" data.tokenizer=none
head -c 4001 text.txt >odd.bin
train "odd.bin.*(even|odd|2 bytes|multiple of 2|16)" data.format=tokens data.path=odd.bin
train "model.vocab" model.vocab=10
head -c 4000 text.txt >ids.bin # 16-bit ids of two letters each
printf '\377\177' >>ids.bin # the last one, 32767, is above them all
train "ids.bin.*token 2000 has the id 32767.*model.vocab = 32700" data.format=tokens \
    data.path=ids.bin model.vocab=32700

# ---- checkpoints ----
"$cadre" train first.ini --out good >/dev/null 2>&1
step=good/checkpoints/step-00000002
wrong "good' holds a run already.*resume=auto" train first.ini --out good
train "checkpoint.resume.*no folder 'none'" checkpoint.resume=none
train "checkpoint.resume.*folder.ini/state.json" checkpoint.resume=folder.ini
train "done 2 steps already.*train.steps = 2" checkpoint.resume=$step
"$cadre" train first.ini --out later --set train.steps=3 --set checkpoint.every=1 \
    >/dev/null 2>&1
wrong "later/.*step-00000003' is later than the 2 steps" train first.ini --out later \
    --set checkpoint.resume=later/checkpoints/step-00000002 --set train.steps=4
train "train.global_batch" checkpoint.resume=$step train.steps=4 train.global_batch=8
train "run.seed" checkpoint.resume=$step train.steps=4 run.seed=2
train "optim.name" checkpoint.resume=$step train.steps=4 optim.name=sgd
train "other data" checkpoint.resume=$step train.steps=4 data.valid_fraction=0.2
train "wte.weight.*shape \[256, 64\], found \[256, 32\]" checkpoint.resume=$step train.steps=4 model.channels=64
cp -r $step damaged
printf 'damage' | dd of=damaged/model.safetensors bs=1 seek=80000 conv=notrunc 2>/dev/null
train "damaged/model.safetensors.*tensor 'transformer.*bytes \[0" checkpoint.resume=damaged train.steps=4
cp -r $step short
head -c 5000 $step/model.safetensors >short/model.safetensors
train "short.*model.safetensors" checkpoint.resume=short train.steps=4
mkdir bare
train "bare.*config.json" model.init=bare
train "model.channels = 64.*has 32" model.init=$step model.channels=64
train "model.init: there is no folder 'none'" model.init=none
train "model.init: 'later' is the folder of a run.*newest checkpoint, later/checkpoints/step-00000003$" \
    model.init=later
mkdir begun
cp good/config.ini begun
train "model.init: 'begun' is the folder of a run.*name another, as it has no whole checkpoint" \
    model.init=begun
mkdir empty
cp $step/config.json empty
train "empty.*safetensors" model.init=empty
cp short/model.safetensors empty
train "empty/model.safetensors.*truncated" model.init=empty
hf=$CADRE_SRC/tests/samples/weights/stories260K-hf
sed '/^layers\|^channels\|^heads\|^context/d' first.ini >plain.ini
for command in "train --out run --set model.init=$hf" "eval --from $hf" \
    "generate --prompt 1 --from $hf"; do
    # shellcheck disable=SC2086 # words
    wrong "vocabulary of 512 tokens, and data.tokenizer is byte by default, of 256" \
        $command plain.ini
done
echo '{}' >tokenizer.json
train "tokenizer.json.: there is no .model.: this is no tokenizer.json of Hugging Face's tokenizers" \
    data.tokenizer=tokenizer.json
touch sp.model
train "sp.model.: expected the protobuf of a SentencePiece model" data.tokenizer=sp.model
head -c 5000 "$CADRE_SRC/tests/samples/tokenizers/sp-bpe/tokenizer.model" >sp.model
train "sp.model.: expected the protobuf of a SentencePiece model: .* truncated" data.tokenizer=sp.model
head -c 5000 "$CADRE_SRC/tests/samples/tokenizers/qwen2/tokenizer.json" >tokenizer.json
train "model.vocab: .*tokenizer.json.: line 1: .*truncated" data.tokenizer=tokenizer.json
sed 's/"type":"BPE"/"type":"WordPiece"/' "$CADRE_SRC/tests/samples/tokenizers/qwen2/tokenizer.json" >tokenizer.json
train "model.type = .WordPiece. is not supported: expected BPE" data.tokenizer=tokenizer.json
mkdir nul
printf '{"\\u0000": 0, "a": 1}' >nul/vocab.json
train "nul/vocab.json.: id 0: .* does not spell bytes as GPT-2 does: .* another kind" data.tokenizer=nul
touch file
wrong "--out: cannot make folder 'file'" train first.ini --out file/run
wrong "--out: cannot make folder 'file'" train first.ini --out file

# ---- eval, generate, inspect ----
wrong "no trained parameters.*--from" eval first.ini
wrong "--from: there is no folder 'none'" eval first.ini --from none
wrong "bare" eval first.ini --from bare
wrong "damaged" eval first.ini --from damaged
wrong "no validation|valid" eval first.ini --from good --set data.valid_fraction=0
wrong "needs a value" generate first.ini --from good --prompt
wrong "--prompt TEXT is missing or empty" generate first.ini --from good
wrong "--prompt TEXT is missing or empty" generate first.ini --from good --prompt ""
wrong "--tokens 'many'" generate first.ini --from good --prompt 1 --tokens many
wrong "--tokens '0'" generate first.ini --from good --prompt 1 --tokens 0
wrong "'nowhere' does not exist" inspect nowhere
wrong "folder.ini" inspect folder.ini
wrong "text.so.*ELF" inspect text.so
wrong "short.*model.safetensors" inspect short
wrong "compare|\[run:" compare first.ini
mkdir report
touch report/report.json
wrong "damaged, or another kind of file: 'report/report.json' line 1: expected JSON" inspect report
echo '{"baseline": "a", "runs": [{"name": "a", "failure": null}]}' >report/report.json
wrong "report' has a report.json, but no certificate" inspect report
printf '{"version": 1, "run": {' >report/certificate-a.json
wrong "report/certificate-a.json' is no certificate: it is damaged" inspect report
wrong "damaged, or another kind of file: 'report/certificate-a.json' line 1: expected JSON" inspect report/certificate-a.json
cat first.ini - >two.ini <<'INI'
[run:a]
strategy.stack = single
[run:b]
strategy.stack = zero:2
zero.stage = 4
INI
wrong "run b: two.ini:.*zero.stage.*found '4'" compare two.ini --out run
# the run and the section that have it, not those that stand before them
for bad in 'optim.lr = many' 'optim.lrr = 1' 'optim.lr = 9000' 'run.exact = maybe' \
    'compare.rounds = 3'; do
    sed "s/^zero.stage.*/$bad/; s/^\[run:b\]/[run:broken]/" two.ini >broken.ini
    line=$(grep -n -F "$bad" broken.ini | sed 's/:.*//')
    wrong "run broken: broken.ini:$line, \[run:broken\]: .*${bad%% *}" \
        compare broken.ini --out run
    wrong "broken.ini:$line, \[run:broken\]: .*${bad%% *}" \
        train broken.ini --out run --run broken
done
sed -i 's/^zero.stage.*//' two.ini
wrong "no run 'bb', did you mean 'b'|no run 'bb'; the runs are a, b" \
    compare two.ini --out run --fail-if 'speedup(bb) < 0.9'
wrong "no figure 'sped', did you mean 'speedup'|no figure 'sped'; expected speedup" \
    compare two.ini --out run --fail-if 'speedup(b) < 0.9' --fail-if 'sped(b) < 0.9'
wrong "expected FIGURE.RUN. < NUMBER.*found '== 1'" \
    compare two.ini --out run --fail-if 'speedup(b) == 1'
wrong "run b has no price" compare two.ini --out run --fail-if 'price(b) > 0.1'
wrong "needs a report" compare two.ini --out run --list --fail-if 'speedup(b) < 1'
wrong "needs a value" compare two.ini --out run --fail-if

# ---- ECG ----
sed -i 's/^path.*/format = wfdb\npath = ecg\nwindow = 32/' first.ini
mkdir ecg
cp "$CADRE_SRC"/tests/samples/mitdb/1[01]*.{hea,dat,atr} ecg
chmod u+w ecg/*
train "data.lead.*\"V9\".*MLII, V1" data.lead=V9 log.level=error
train "valid_records.*999" data.valid_records=999
train "data.window = 512 gives samples of 511.*model.context = .*; change one of them" \
    data.window=512
train "head = lm.*classify" data.task=vbd
train "data.path|CADRE_MITDB" data.path=
rm -rf bad && cp -r ecg bad && truncate -s 10000 bad/100.dat
train "100.dat" data.path=bad
rm -rf bad && cp -r ecg bad && printf 'x' |
    dd of=bad/100.dat bs=1 seek=1000 conv=notrunc 2>/dev/null
train "100.*checksum" data.path=bad
rm -rf bad && cp -r ecg bad && rm bad/100.dat
train "100.dat" data.path=bad
rm -rf bad && cp -r ecg bad && sed -i 's/100.dat/..\/..\/100.dat/' bad/100.hea
train "100.hea" data.path=bad
rm -rf bad && cp -r ecg bad && echo "nonsense" >bad/100.hea
train "100.hea" data.path=bad
rm -rf bad && cp -r ecg bad && truncate -s 101 bad/100.atr
train "100.atr" data.path=bad
echo "$count wrong inputs"
exit $failed
