#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/tokenizers/make.py [TO]: makes the files of this folder anew, here or in TO.

Small tokenizers of each kind that Cadre reads, trained on the texts of tests/samples/text and
the odd strings of strings.json, and what the reference implementations make of these: NAME/ids
has the ids of one string a line, and NAME/text.json what they decode to where that is not the
string. Made with tokenizers 0.23.3 and sentencepiece 0.2.3.
"""
import io
import json
import pathlib
import random
import sys

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).resolve().parent
TO = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
COUNT = 300
BEFORE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
AFTER = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

FIXED = [
    "", " ", "  ", "   ", "\n", "\r\n", "\n\n \n", "\t\tx", " a", "a ", "  a  b  ", "a\nb",
    "x \n y", "x\u00a0y", "\u3000\u3000x", "\u2003 x", "\u200b", "\u180ex", "\u0085x", "\u001cx",
    "Hello, world!", "Once upon a time, there", "HELLO'S don't I'll we've they're I'm you'd",
    "DON'T I'LL WE'VE THEY'RE", "it'\u017f", "'\u017fo", "'s's's", "''s", "'", "'S'T'RE'VE'M'LL'D",
    "a's1's", "1234567890", "12 345 6789", "3.14159", "1,000,000", "x1y22z333", "\u0661\u0662\u0663\u0664",
    "\u00bd\u00b2\u2460", "\u2167\u216b", "\u0967\u0968\u0969\u096a", "!!!", "... ---", "!\n?\r\n",
    " !!\n\n", "?!\n ", "a.b.c", "foo(bar)[baz]{}", "<html>&amp;</html>", "a_b__c", "C++ & C#",
    "\u00e9\u00e8\u00ea", "e\u0301e\u0300e\u0302", "A\u030a\u0301", "q\u0323\u0307", "q\u0307\u0323",
    "\u1e69", "s\u0307\u0323", "\u212b", "\u2126", "\u0344", "\u0958", "\u09cb", "\u09c7\u09be",
    "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab",
    "\ufb1d\ufb2c", "\u05d0\u05b7\u05d1", "\U0001d15e", "\U0002f800", "\uf900", "\u304b\u3099",
    "\u65e5\u672c\u8a9e", "\u4f60\u597d\uff0c\u4e16\u754c", "\u041f\u0440\u0438\u0432\u0435\u0442",
    "\u03b5\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f",
    "\U0001f44d\U0001f3fd ok", "a\U0001f600b", "\U0001d400\U0001d7d8", "\ue000", "\uffff", "\ufffe",
    "\ufffd", "\U0010ffff", "\U000e0041", "\u202eabc\u202c", "\ufeffbom", "\u00adsoft", "\x00",
    "a\x00b", "\x01\x02\x1f", "\x7f", "\x80\x9f", "\u2581", "\u2581\u2581a", " \u2581 a", "a\u2581b",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|", "<|im_start|>user\nhi<|im_end|>\n",
    "<|begin_of_text|>x<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\nHi", "<s>", "</s>",
    "a</s>b", "a </s> b", "x <s> y", "<unk>", "a<unk>b", "<0x41>", "<0x0A>", "<0xZZ>", "[MASK]",
    "a [MASK] b", "a  [MASK]  b", "[MASK][MASK]", "\u00e9[MASK]\u0301", "<tool>", "<tool>x</tool>",
    "<tool_call>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 40, "\n" * 9, " x" * 20, "-" * 70,
    "The quick brown fox jumps over the lazy dog.", "if (x == 1) {\n    return y;\n}\n",
    "\tif x:\n\t\ty = 1\r\n", "http://example.org/a?b=c&d=%20", "e=mc\u00b2", "\u00bfQu\u00e9?",
    "na\u00efve fa\u00e7ade", "Stra\u00dfe", "\u0130\u0131", "\ufb01\ufb02", "\u01c4\u01c6", "\u2028x\u2029",
]
POOLS = [
    "abcdefghijklmnopqrstuvwxyz", "ABC XYZ the and ", "0123456789", "  \t\n\r\u00a0\u3000\u2009", "'\"`",
    ".,;:!?-_()[]{}<>|/\\@#$%^&*+=~", "\u00e9\u00fc\u00f1\u00df\u00f8\u0142", "\u0300\u0301\u0308\u0323\u0327\u0345\u05b0\u0334",
    "\u4e00\u4e8c\u4e09\u65e5\u672c", "\u3042\u30a2\u3099\uff71", "\u1100\u1161\u11a8\uac00\ud7a3",
    "\u0410\u0411\u0432\u0491", "\u0391\u03b1\u03ac\u1f80", "\u0905\u093c\u094d\u0915\u0958", "\u0627\u0644\u0651\u0661",
    "\U0001f600\U0001f3fd\u200d\ufe0f\U0001f1e6", "\x00\x01\x1b\x7f\x80\u200b\ufeff\u2581", "\u00bd\u2167\u0661\U0001d7d9",
    "\U00020000\U0010fffd\ue000\ufffd\uffff",
]
WORDS = ["the", "time", "'s", "'LL", "<s>", "</s>", "<|endoftext|>", "<|im_end|>", "[MASK]", " ", "  ", "\n\n",
         "\u2581", "12345", "once", "<tool>", "<|eot_id|>"]


def strings():
    rng = random.Random(19)
    out = list(dict.fromkeys(FIXED))
    while len(out) < COUNT:
        parts = []
        for _ in range(rng.randint(2, 5)):
            if rng.random() < 0.2:
                parts.append(rng.choice(WORDS))
            else:
                pool = rng.choice(POOLS)
                parts.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 4))))
        text = "".join(parts)
        if text not in out:
            out.append(text)
    return out


def corpus():
    texts = HERE.parent / "text"
    for name in ("alice29.txt", "tinyshakespeare.txt"):
        yield from (texts / name).read_text().splitlines()[:400]
    yield from ["na\u00efve \u00e9t\u00e9 \u65e5\u672c\u8a9e \u65e5\u672c \U0001f600 123 456 1999"] * 30


def save(name, tokenizer, config=None):
    folder = TO / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text + "\n")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    same = Tokenizer.from_file(str(folder / "tokenizer.json"))
    record(folder, lambda t: same.encode(t, add_special_tokens=False).ids,
           lambda ids: same.decode(ids, skip_special_tokens=False))


def record(folder, encode, decode):
    lines, other = [], {}
    for i, text in enumerate(STRINGS):
        ids = encode(text)
        lines.append(" ".join(map(str, ids)))
        if decode(ids) != text:
            other[str(i)] = decode(ids)
    (folder / "ids").write_text("\n".join(lines) + "\n")
    (folder / "text.json").write_text(json.dumps(other, separators=(",\n", ":")) + "\n")


def byte_level(name, pattern, special, size=520, normalizer=None, change=None, post=None, config=None):
    tokenizer = Tokenizer(models.BPE())
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(special)
    if post:
        tokenizer.post_processor = post(tokenizer)
    if change:
        data = json.loads(tokenizer.to_str())
        change(data)
        tokenizer = Tokenizer.from_str(json.dumps(data))
    save(name, tokenizer, config)


def pieces(name, fallback, normalizer=None, metaspace=None, decoder=None, special=(), config=None,
           post=None, size=460):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    first = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=first, limit_alphabet=70))
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["id"] < 3]
    data["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(data))
    if metaspace:
        tokenizer.pre_tokenizer = metaspace
    if not fallback:
        tokenizer.decoder = decoder
    else:
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                               decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_tokens(list(special))
    if post:
        tokenizer.post_processor = post(tokenizer)
    save(name, tokenizer, config)


def bos(token):
    return lambda t: processors.TemplateProcessing(
        single=f"{token}:0 $A:0", pair=f"{token}:0 $A:0 {token}:1 $B:1",
        special_tokens=[(token, t.token_to_id(token))])


def sentence(name, **options):
    folder = TO / name
    folder.mkdir(parents=True, exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(corpus())), model_writer=model, minloglevel=2,
        normalization_rule_name="identity", num_threads=1, **options)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    record(folder, sp.encode, sp.decode)


STRINGS = strings()
TO.mkdir(parents=True, exist_ok=True)
(TO / "strings.json").write_text(json.dumps(STRINGS, separators=(",\n", ":")) + "\n")

special = AddedToken
byte_level("gpt2", None, [special("<|endoftext|>", special=True, normalized=True)],
           config={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})
byte_level("llama3", BEFORE + r"\p{N}{1,3}" + AFTER,
           ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
           change=lambda d: d["model"].update(ignore_merges=True),
           post=lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=True),
                                               bos("<|begin_of_text|>")(t)]),
           config={"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}})
byte_level("qwen2", BEFORE + r"\p{N}" + AFTER,
           ["<|endoftext|>", "<|im_start|>", "<|im_end|>",
            special("[MASK]", lstrip=True, rstrip=True, special=True), special("<tool>", special=False)],
           normalizer=normalizers.NFC(),
           config={"bos_token": None, "eos_token": "<|im_end|>", "add_bos_token": False})
pieces("llama2", True, normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                        normalizers.Replace(" ", "\u2581")]),
       post=bos("<s>"), config={"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "LlamaTokenizer",
                                "add_bos_token": True, "add_eos_token": False},
       special=[special("<tool>", normalized=False), special("[MASK]", normalized=True, lstrip=True)])
pieces("mistral", True, metaspace=pre_tokenizers.Metaspace(prepend_scheme="first", split=False), post=bos("<s>"),
       special=[special("<tool>", normalized=False), special("[MASK]", normalized=True, lstrip=True)])
pieces("metaspace", False, metaspace=pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
       decoder=decoders.Metaspace(), size=360)
sentence("sp-bpe", vocab_size=560, model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False,
         character_coverage=0.995, split_digits=True, user_defined_symbols=["<tool>", "<tool_call>"])
sentence("sp-unigram", vocab_size=420, model_type="unigram", user_defined_symbols=["<tool>", "[MASK]"],
         character_coverage=0.995)
sentence("sp-bytes", vocab_size=560, model_type="unigram", byte_fallback=True, add_dummy_prefix=False,
         remove_extra_whitespaces=False, character_coverage=0.995)
