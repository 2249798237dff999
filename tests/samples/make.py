#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/make.py DATA [TO]: makes the files of this folder anew, here or in TO.

DATA holds the sources that README.md names, whole and in the same layout. Most files are
copies. What is cut is read here by code of its own, not by Cadre: the annotations, format
212, the quantiser and GPT-2's merges. It stops where this code does not give the figures
that are known of the whole data. Those of the samples go into EXPECTED.json and cases.json,
and those that the tests state themselves are printed. Needs the Python module `regex`, for
the pattern of GPT-2.
"""
import collections
import hashlib
import json
import math
import pathlib
import shutil
import sys

import regex

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = {"119": 180}  # a test counts 160 beats of this record
DEFAULT_SECONDS = 60
RECORDS = ("100", "107", "109", "118", "119", "208", "209")
RATE = 360
WHOLE = 650000
AAMI = ("NLRBejn", "AaJS", "VEr", "F", "/fQ?")
BEATS = set("".join(AAMI))
TEXTS = {"tinyshakespeare.txt": 49152, "alice29.txt": 24576}
FOLDERS = ("golden", "gpt2_bpe", "ini", "instruct", "mitdb", "safetensors_cases", "text")
FOLDERS += ("weights", "wfdb_vectors")
COPIES = """
golden/gpt2_tiny_a.json
golden/llama_stories260K_a.json
golden/peer_ops.json
gpt2_bpe/LICENSE.openai-gpt-2
ini
safetensors_cases
weights/nutllm/LICENSE
weights/nutllm/nutllm_tiny.safetensors
weights/stories260K-hf
weights/stories260K/expected_greedy_200.txt
weights/stories260K/stories260K_greedy_ids.json
weights/stories260K/tok512.bin
weights/tiny_gpt2/LICENSE
weights/tiny_gpt2/config.json
weights/tiny_gpt2/model.safetensors
wfdb_vectors/100.sig1_f0.002_t30.rdsamp.txt
wfdb_vectors/LICENSE.wfdb-python
""".split()


def agree(what, got, want):
    if got != want:
        sys.exit(f"make.py: {what}: expected {want}, found {got}")


# ---- MIT-BIH ----------------------------------------------------------------------


def decode_212(raw):
    signals = ([], [])
    for i in range(0, len(raw), 3):
        low, mixed, high = raw[i : i + 3]
        for signal, value in zip(
            signals, (low | (mixed & 15) << 8, high | (mixed & 0xF0) << 4)
        ):
            signal.append(value - 4096 if value > 2047 else value)
    return signals


def annotation_starts(raw):
    """The time of each annotation and the byte that it starts at."""
    at = time = 0
    begin = None
    found = []
    while raw[at : at + 2] != b"\0\0":
        word = raw[at] | raw[at + 1] << 8
        code, interval = word >> 10, word & 1023
        begin = at if begin is None else begin
        at += 2
        if code == 59:  # SKIP: a time of 32 bits, its upper half first
            time += int.from_bytes(
                raw[at + 2 : at + 4] + raw[at : at + 2], "little", signed=True
            )
            at += 4
        elif code == 63:  # AUX, of the annotation before
            at += interval + interval % 2
            begin = None
        elif code in (60, 61, 62):  # NUM, SUB, CHN
            begin = None
        else:
            time += interval
            found.append((time, begin))
            begin = None
    return found


def expected_of(header, raw, listing):
    """What EXPECTED.json says of a record."""
    signals = decode_212(raw)
    lines = [line.split("\t") for line in listing.splitlines()]
    times = [int(line[0]) for line in lines if line[1] in BEATS]
    n = len(signals[0])
    return {
        "nsamp": n,
        "leads": [line.split()[-1] for line in header.splitlines()[1:3]],
        "init": [x[0] for x in signals],
        "cksum": [(sum(x) + 32768) % 65536 - 32768 for x in signals],
        "nann": len(lines),
        "beats": len(times),
        "counts": dict(collections.Counter(line[1] for line in lines)),
        "min": [min(x) for x in signals],
        "max": [max(x) for x in signals],
        "first": [int(lines[0][0]), lines[0][1], lines[0][5]],
        "last_t": int(lines[-1][0]),
        "sha256_int16le": [
            hashlib.sha256(
                b"".join(v.to_bytes(2, "little", signed=True) for v in x)
            ).hexdigest()
            for x in signals
        ],
        "beats_with_full_window": {
            str(w): sum(w // 2 <= t <= n - w + w // 2 for t in times)
            for w in (128, 256, 512, 1024)
        },
    }


def read_record(folder, name):
    return (
        (folder / f"{name}.hea").read_text("ascii"),
        (folder / f"{name}.dat").read_bytes(),
        (folder / f"{name}.ann.tsv").read_text("utf-8"),
    )


def cut_header(header, was, now):
    """The header with the length and the checksums of the cut record."""
    text = header.replace(f" {WHOLE}", f" {now['nsamp']}", 1)
    for old, new in zip(was["cksum"], now["cksum"]):
        text = text.replace(f" {old} 0 ", f" {new} 0 ", 1)
    return text


def make_records(source, target):
    published = json.loads((source / "EXPECTED.json").read_text())
    samples = {}
    for name in RECORDS:
        header, raw, listing = read_record(source, name)
        was = expected_of(header, raw, listing)
        agree(f"record {name}", was, published[name])
        frames = SECONDS.get(name, DEFAULT_SECONDS) * RATE
        annotations = (source / f"{name}.atr").read_bytes()
        starts = annotation_starts(annotations)
        times = [int(line.split("\t")[0]) for line in listing.splitlines()]
        agree(f"times of {name}", [time for time, _ in starts], times)
        end = next(begin for time, begin in starts if time >= frames)
        kept = listing.splitlines(True)[: sum(time < frames for time in times)]
        now = expected_of(header, raw[: 3 * frames], "".join(kept))
        samples[name] = now
        (target / f"{name}.dat").write_bytes(raw[: 3 * frames])
        (target / f"{name}.atr").write_bytes(annotations[:end] + b"\0\0")
        (target / f"{name}.ann.tsv").write_text("".join(kept), "utf-8")
        (target / f"{name}.hea").write_bytes(
            cut_header((source / f"{name}.hea").read_bytes().decode(), was, now).encode()
        )
    (target / "EXPECTED.json").write_text(json.dumps(samples, indent=1) + "\n")
    return published, samples


def windows_of(folder, name, size, levels, span):
    """Classes and tokens of the windows around the beats of the lead MLII."""
    header, raw, listing = read_record(folder, name)
    lead = [line.split()[-1] for line in header.splitlines()[1:3]].index("MLII")
    x = decode_212(raw)[lead]
    ordered = sorted(x)
    median = (ordered[(len(x) - 1) // 2] + ordered[len(x) // 2]) / 2
    for line in listing.splitlines():
        time, symbol = line.split("\t")[:2]
        first = int(time) - size // 2
        if symbol not in BEATS or first < 0 or first + size > len(x):
            continue
        tokens = []
        for value in x[first : first + size]:
            mv = min(max((value - median) / 200, -span), span)
            tokens.append(min(int((mv + span) / (2 * span) * levels), levels - 1))
        yield next(k for k, group in enumerate(AAMI) if symbol in group), tokens


def entropy(streams):
    pairs, firsts = collections.Counter(), collections.Counter()
    for stream in streams:
        pairs.update(zip(stream, stream[1:]))
        firsts.update(stream[:-1])
    total = sum(pairs.values())
    return -sum(n * math.log(n / firsts[a]) for (a, _), n in pairs.items()) / total


def beat_figures(folder):
    found = [
        window
        for name in ("119", "209")
        for window in windows_of(folder, name, 256, 64, 2.5)
    ]
    classes = collections.Counter(kind for kind, _ in found)
    return [classes[k] for k in range(5)], round(entropy(t for _, t in found), 6)


# ---- GPT-2's vocabulary -----------------------------------------------------------

WORDS = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)


def byte_letters():
    """The letter that stands for each byte, as in encoder.py of openai/gpt-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(plain))
    return letters


class Vocabulary:
    def __init__(self, ids, merges):
        self.ids, self.merges = ids, merges
        self.rank = {merge: i for i, merge in enumerate(merges)}
        self.letters = byte_letters()
        self.words = {}
        self.used = set()

    def word(self, word):
        if word in self.words:
            return self.words[word]
        parts = [self.letters[byte] for byte in word.encode()]
        while True:
            pairs = [p for p in zip(parts, parts[1:]) if p in self.rank]
            if not pairs:
                break
            best = min(pairs, key=self.rank.get)
            self.used.add(best)
            joined, i = [], 0
            while i < len(parts):
                if tuple(parts[i : i + 2]) == best:
                    joined.append(best[0] + best[1])
                    i += 2
                else:
                    joined.append(parts[i])
                    i += 1
            parts = joined
        self.words[word] = parts
        return parts

    def tokens(self, text):
        return [part for word in WORDS.findall(text) for part in self.word(word)]

    def encode(self, text):
        return [self.ids[token] for token in self.tokens(text)]


def read_vocabulary(folder):
    merges = (folder / "vocab.bpe").read_text("utf-8").splitlines()[1:]
    return Vocabulary(
        json.loads((folder / "encoder.json").read_text("utf-8")),
        [tuple(line.split(" ")) for line in merges if line],
    )


def halves(vocabulary, text):
    """Ids of the first nine tenths and of the rest, which the tests encode apart."""
    at = len(text) * 9 // 10
    return [len(vocabulary.encode(part)) for part in (text[:at], text[at:])]


def make_vocabulary(data, target):
    """The merges that the cases and the sample texts use, in GPT-2's order: these texts
    then fall into GPT-2's own tokens, and an id is a token's place among those kept."""
    whole = read_vocabulary(data / "gpt2_bpe")
    cases = json.loads((data / "gpt2_bpe/cases.json").read_text("utf-8"))
    for case in cases["cases"]:
        agree(f"ids of {case['text']!r}", whole.encode(case["text"]), case["ids"])
    text = (data / "text/tinyshakespeare.txt").read_bytes().decode()
    counts = cases["tinyshakespeare_counts"]
    agree(
        "tokens of tinyshakespeare.txt",
        halves(whole, text),
        [counts["train_tokens"], counts["val_tokens"]],
    )
    whole.used, whole.words = set(), {}
    texts = [(target / "text" / name).read_bytes().decode() for name in sorted(TEXTS)]
    for case in cases["cases"]:
        whole.tokens(case["text"])
    shakespeare = halves(whole, texts[sorted(TEXTS).index("tinyshakespeare.txt")])
    for one in texts:
        whole.tokens(one)
    merges = sorted(whole.used, key=whole.rank.get)
    kept = {a + b for a, b in merges}
    order = sorted(whole.ids.items(), key=lambda item: item[1])
    names = [n for n, i in order if i < 256 or n in kept] + ["<|endoftext|>"]
    small = Vocabulary({name: i for i, name in enumerate(names)}, merges)
    for case in cases["cases"]:
        agree("tokens", small.tokens(case["text"]), whole.tokens(case["text"]))
        case["ids"] = small.encode(case["text"])
    for one in texts:
        agree("tokens of a text", small.tokens(one), whole.tokens(one))
    cases["tinyshakespeare_counts"] = {
        "source": "make.py with the whole vocabulary, which gives nanoGPT's counts",
        "split": counts["split"],
        "train_tokens": shakespeare[0],
        "val_tokens": shakespeare[1],
    }
    folder = target / "gpt2_bpe"
    (folder / "encoder.json").write_text(json.dumps(small.ids) + "\n")
    (folder / "vocab.bpe").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), "utf-8"
    )
    (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    return len(names), shakespeare


# ---- all of it --------------------------------------------------------------------


def copy(data, target):
    for name in COPIES:
        found = data / name
        files = [found] if found.is_file() else sorted(found.rglob("*"))
        for file in files:
            if file.is_file():
                to = target / file.relative_to(data)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)
    shutil.copyfile(  # by its whole name it is a C file to tools
        data / "weights/stories260K/LICENSE.llama2.c",
        target / "weights/stories260K/LICENSE.llama2",
    )
    for file in sorted((data / "wfdb_vectors").glob("binformats.*")):
        shutil.copyfile(file, target / "wfdb_vectors" / file.name)


def cut_texts(data, target):
    for name, size in TEXTS.items():
        raw = (data / "text" / name).read_bytes()[:size]
        (target / "text" / name).write_bytes(raw[: raw.rindex(b"\n") + 1])


def cut_instruct(data, target):
    """The first few short records of each file, in its own form."""
    for name, size, count in (
        ("alpaca_en_demo.json", 400, 24),
        ("dpo_en_demo.json", 700, 4),
        ("v1_sft_demo.jsonl", 300, 24),
        ("v1_dpo_demo.jsonl", 1600, 2),
    ):
        text = (data / "instruct" / name).read_text(encoding="utf-8")
        if name.endswith(".json"):
            rows = [r for r in json.loads(text) if len(json.dumps(r)) < size]
            kept = json.dumps(rows[:count], indent=2, ensure_ascii=False) + "\n"
        else:
            rows = [line for line in text.splitlines(True) if len(line) < size]
            kept = "".join(rows[:count])
        (target / "instruct" / name).write_text(kept, encoding="utf-8")
    shutil.copyfile(
        data / "safetensors_cases/LICENSE.apache-2.0",
        target / "instruct/LICENSE.apache-2.0",
    )


def validation_entropy(folder):
    """Bigrams of bytes of the last tenth, in samples of 50 and their next."""
    raw = (folder / "text/tinyshakespeare.txt").read_bytes()
    kept = raw[len(raw) * 9 // 10 :]
    return round(entropy(kept[i : i + 51] for i in range(0, len(kept) - 50, 50)), 6)


def write_sums(target):
    """Of what is made here: all files in the folders, less those of checkpoints."""
    lines = []
    for file in sorted(target.rglob("*/*"), key=str):
        name = file.relative_to(target).as_posix()
        if file.is_file() and name.split("/")[0] in FOLDERS:
            lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n")
    (target / "SHA256SUMS").write_text("".join(lines))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: tests/samples/make.py DATA [TO]")
    data = pathlib.Path(sys.argv[1])
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else HERE
    for folder in FOLDERS:
        (target / folder).mkdir(parents=True, exist_ok=True)
    copy(data, target)
    cut_texts(data, target)
    cut_instruct(data, target)
    published, samples = make_records(data / "mitdb", target / "mitdb")
    variant = (data / "wfdb_vectors/100_commented_variant.hea").read_bytes().decode()
    (target / "wfdb_vectors/100_commented_variant.hea").write_bytes(
        cut_header(variant, published["100"], samples["100"]).encode()
    )
    agree(
        "beats of 119 and 209, whole",
        beat_figures(data / "mitdb"),
        ([4164, 383, 445, 0, 0], 0.840219),
    )
    agree("bigram entropy of the text, whole", validation_entropy(data), 2.37355)
    vocab, tokens = make_vocabulary(data, target)
    write_sums(target)
    beats = beat_figures(target / "mitdb")
    print("beats of 119 and 209 by class, bigram entropy:", *beats)
    print("bigram entropy of the text:", validation_entropy(target))
    print("vocabulary and tokens of the text:", vocab, *tokens)


main()
