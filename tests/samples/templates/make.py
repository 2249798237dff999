#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/samples/templates/make.py: makes cases.json and ids.json beside it.

The templates here are our own, in the shapes of Llama 2 and 3, Mistral, Qwen 2.5 and 3,
ChatML and Gemma. What transformers makes of them, and of the small ones below, on odd
dialogues: each case has the template's name or its text, the context (else that of the head),
and the output, or raises where transformers raises. ids.json: what apply_chat_template(tokenize=True)
gives of dialogues by these templates and the tokenizers of tests/samples/tokenizers. Made with
transformers 5.24.0 and jinja2 3.1.6.
"""
import json
import pathlib
import shutil
import tempfile

from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def chat(*texts, system=None):
    head = [{"role": "system", "content": system}] if system is not None else []
    roles = ("user", "assistant")
    return head + [
        {"role": roles[i % 2], "content": text} for i, text in enumerate(texts)
    ]


DIALOGUES = [
    chat("Hello"),
    chat("Hello", "Hi."),
    chat("Hello", "Hi.", system="Be kind."),
    chat("a", "b", "c", "d", "e", system="  blanks around\n"),
    chat("  one\n\n", "\ttwo \u3000", "three\u00a0"),
    chat("", "", system=""),
    chat("Ünïcödé 猫 \U0001f600", "e\u0301\u200d \u2028 end", "\x00\x1f\x7f"),
    chat("<|im_end|>{{ messages }}{% if %}", "[/INST]</s> \\n 'q' \"q\""),
    chat("2+2?", "<think>\nfour\n</think>\n\n4", "3+3?", "<think>six</think>6"),
    chat("x", "<think>unclosed", "<tool_response>y</tool_response>", "z"),
    [{"role": "assistant", "content": "first"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "critic", "content": "a"}],
    [],
    [{"role": "user", "content": [{"type": "text", "text": " a "},
                                  {"type": "image"},
                                  {"type": "text", "text": "b"}]}],
    [{"role": "user"}],
    [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {
                "name": "look", "arguments": {"at": "Köln \"x\"\n", "n": 3,
                                              "deep": [1, True, None, {"a": []}]}}}]},
        {"role": "tool", "content": "rain"},
        {"role": "tool", "content": "sun"},
        {"role": "assistant", "content": "both"},
    ],
]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "properties": {"at": {"type": "string"}, "é\t": []}, "required": [], "n": -1}}}]

# Jinja's ways, a line each; the context has xs, d, s, n, u (none) and messages.
CONTEXT = {
    "xs": [3, 1, 2],
    "d": {"b": 1, "a": "two", "items": 3},
    "s": "  Hällo wörld\n",
    "n": 7,
    "none_": None,
    "messages": chat("Hello", "Hi.", "Bye"),
}
SMALL = r"""
{{ s|trim }}|{{ s|length }}|{{ s|trim|replace('l', 'L') }}|{{ 'aXa'|replace('a', 'bb', 1) }}
{{ 'abc'[1] }}{{ 'häß'[-1] }}{{ 'häß'[::-1] }}{{ 'abcdef'[1:5:2] }}{{ 'abc'[5:] }}{{ 'abc'[-2:] }}|{{ 'abcdefg'[5:0:-2] }}
{{ xs[0] }}{{ xs[-1] }}{{ xs[9] }}{{ xs[1:]|length }}{{ xs[::-1]|join }}{{ (xs + [4])|join(', ') }}{{ xs[:-1]|join('') }}
{{ n // 2 }} {{ -n // 2 }} {{ n % 3 }} {{ -n % 3 }} {{ n * 2 - 1 }} {{ - n }} {{ 2 * (n + 1) }}
{{ 'a' ~ 1 ~ none ~ true ~ missing ~ 'b' }}|{{ 'a' 'b' }}|{{ "it's" }}|{{ 'say "x"' }}|{{ 'tab\tnl\\n\x41\u00e9\q' }}
{{ 1 == true }} {{ 0 == false }} {{ '1' == 1 }} {{ none == false }} {{ [1, true] == [1, 1] }} {{ missing == missing2 }} {{ missing == none }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ 3 >= 3 }} {{ not 1 == 2 }} {{ not (1 in xs) }} {{ 4 not in xs }}
{{ 'a' in 'cat' }} {{ '' in 'cat' }} {{ 'b' in d }} {{ 'z' in d }} {{ 2 in xs }} {{ 'x' in missing }} {{ missing in xs }}
{{ x is defined }} {{ n is defined }} {{ none_ is defined }} {{ none_ is none }} {{ d.b is defined }} {{ d.q is undefined }} {{ d['q'] is defined }}
{{ s is string }} {{ n is number }} {{ n is string }} {{ d is mapping }} {{ xs is sequence }} {{ s is iterable }} {{ n is iterable }} {{ true is boolean }} {{ 1 is boolean }} {{ none is not none }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is equalto 7 }} {{ n is eq(8) }} {{ n is in xs }} {{ true is true }} {{ 1 is true }} {{ -7 is odd }}
{{ 'yes' if n else 'no' }} {{ 'yes' if missing else 'no' }} {{ 'only' if 0 }}| {{ 'a' if 0 else 'b' if 0 else 'c' }}
{{ 0 or 'x' }} {{ 1 and 'y' }} {{ '' or [] or none }} {{ missing or 'z' }} {{ 1 and 0 or 3 }}
{{ missing|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ none|d('e') }} {{ 0|d('f', boolean=true) }} {{ missing|default }}|
{{ d.a }} {{ d['b'] }} {{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d['items'] }} {{ d|length }} {{ d|list|join(',') }}
{% for k, v in d.items() %}{{ k }}={{ v }}{{ ';' if not loop.last }}{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{{ d.keys()|join }}|{{ d.values()|list|length }}|{% for k, v in d|items %}{{ k }}{% endfor %}
{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.first }}{{ loop.last }} {% else %}none{% endfor %}|{% for x in [] %}x{% else %}empty{% endfor %}
{% for x in xs %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for x in xs %}{% for y in 'ab' %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}|{% for i in range(3) %}{{ i }}{% endfor %}{{ range(5, 0, -2)|join }}
{% set a = 1 %}{% for x in xs %}{% set a = a + x %}{{ a }},{% endfor %}{{ a }}|{% for i in [1, 2] %}{% if i == 1 %}{% set z = 'leak' %}{% endif %}{{ z }}.{% endfor %}
{% set ns = namespace(a=0, b='x') %}{% for x in xs %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns is defined }}{{ ns['a'] }}
{% set t %}in {{ n }} block{% endset %}{{ t|upper }}|{% set t = 1, 2 %}{{ t|length }}|{{ (1, 2)[1] }}|{{ ()|length }}|{{ (3,)|length }}
{% if n > 10 %}a{% elif n > 5 %}b{% else %}c{% endif %}|{% if 0 %}x{% endif %}|{% if none_ is none and n in [7, 8] %}ok{% endif %}
{{ 'hello world'|upper }} {{ 'Hello'|lower }} {{ 'heLLo wORLD'|capitalize }} {{ 'heLLo wORLD-x (y)'|title }} {{ 'x'.upper() }}{{ ' y '.strip() }}{{ 'xxyxx'.strip('x') }}{{ 'xxyxx'.lstrip('x') }}{{ 'xyz'.rstrip('zy') }}
{{ 'a,b,,c'.split(',')|join('|') }} {{ ' a  b c '.split()|join('|') }} {{ 'a,b,c'.split(',', 1)|join('|') }} {{ 'a b c '.split(none, 1)|join('|') }} {{ ','.join(['x', 'y']) }} {{ 'aba'.find('b') }} {{ 'äbä'.find('ä') }} {{ 'x'.find('y') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith('abcd') }} {{ 'abab'.replace('a', 'c') }} {{ 'abab'.replace('a', 'c', 1) }}
{{ xs|first }} {{ xs|last }} {{ []|first }}| {{ xs|reverse|list|join }} {{ 'abc'|reverse }} {{ '12'|int + 1 }} {{ true|string }} {{ 5|string ~ 'x' }} {{ xs|count }}
{{ xs|tojson }} {{ d|tojson }} {{ s|tojson }} {{ none|tojson }} {{ [true, none, {'k': 'é<>&\''}]|tojson }} {{ []|tojson }} {{ {}|tojson }} {{ '\x01\x7f"\\/'|tojson }}
{{ {'a': [1, {'b': []}], 'c': {}}|tojson(indent=2) }}{{ xs|tojson(indent=none) }}{{ [1]|tojson(indent=0) }}
{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|tojson }} {{ messages|rejectattr('role', 'eq', 'user')|list|length }} {{ xs|select('odd')|list|tojson }} {{ xs|reject('eq', 1)|join }} {{ ['a', 'b']|map('upper')|join }} {{ messages|selectattr('content')|list|length }}
{{ 'one\ntwo\n\nthree'|indent }}|{{ 'one\ntwo'|indent(2, true) }}|{{ 'one\n'|indent(width=3) }}|
{{ messages[-1]['content'] }}{{ messages[-1].role }}{{ messages[1:][0].content }}{{ messages.0.role }}{{ (messages|last).content }}{{ messages[n - 5]['role'] }}
{{ 'a' + 'b' * 1 if false else 'c' + 'd' }} {{ 'x' ~ 'y' + 'z' }} {{ 1 + 2 * 3 - 1 }} {{ 'q' is string and 'q' ~ 'r' is string }} {{ not x is defined and true }} {{ 'abc'|length > 2 }} {{ (n + 1)|string|length }}
{%- set q = 'strip' -%}   {{- q -}}   | x {# comment #} y {#- c -#}  z {{ '{{' }} {{ "%}" }} {% if 1 -%}   a   {%- endif %} b
{{ [1, 2, 3][1:]|join }} {{ {'a': {'b': 'deep'}}.a.b }} {{ {'a': {'b': 'deep'}}['a']['b'] }} {{ [[1], [2, 3]][1][0] }} {{ {'x y': 1}['x y'] }}{{ { 'a': 1, }.a }}{{ [1, 2,]|length }}
{% macro m(a, b=2, c=b) %}{{ a }}{{ b }}{{ c }}{{ n }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(a=4, c=5) }}|{{ m() }}|{% for x in xs %}{% set n = 0 %}{{ m(x) }}{% endfor %}{{ m(1)|length }}
{{ strftime_now is defined }}{{ raise_exception is defined }}{{ namespace is defined }}{{ True }}{{ False }}{{ None }}{{ none }}
{{ raise_exception('no') }}
{{ missing.x }}
{{ missing + 'a' }}
{{ 'a' + 1 }}
{{ 1 < 'a' }}
{{ n.x }}|{{ n['x'] }}|{{ s.x is defined }}|{{ xs.foo }}|{{ none_.x is defined }}
{{ none_['x'] }}
{{ 1 // 0 }}
{% for x in 5 %}{% endfor %}
{% if x %}
{{ 'open }}
{{ 1 + }}
{% endif %}
{{ (1 }}
{# open
{{ missing() }}
{{ ''.split('') }}
{{ 'a' in 5 }}
{{ m.n.o }}
{{ xs|length(1) }}
"""
MULTI = [
    "  {% if true %}\n    in\n  {% endif %}\n  after\n",
    "a\n  {# note #}\nb\n   {{ n }}\nc",
    "a {% if true %}b{% endif %} c\n\n",
    "  {%+ if true %} kept{% endif +%}\nnext",
    "x\r\n{% for i in [1] %}\r\n  y\r\n{% endfor %}\r\nz\r\n\r\n",
    "{% set x = 1 %}   {% set y = 2 %}\n{{ x }}{{ y }}  \n  {%- if x %} q {% endif -%}  \n r",
    "\u2003{%- if true %}\u2003\n \u2003{% endif %}\n\u00a0{%- if 1 -%} \u3000 z{% endif %}",
    "   {% if true %}first{% endif %}\n\t {% if true %}\n  two\n\t{% endif %} x",
    "{{ '''' }}",
    "a{{ n -}}\n\n  {% if 1 %}b{% endif %}",
    "a{{- n }}   \n{#- x #}\n  {# y #}\n{{+ n }}",
]


PAIRS = [("gpt2", "qwen2"), ("llama2", "llama2"), ("llama3", "llama3"), ("metaspace", "llama2"),
         ("mistral", "mistral"), ("qwen2", "gemma"), ("qwen2", "qwen2"), ("qwen2", "qwen3")]
CHATS = [
    chat("Hello", "Hi."),
    chat("Hello", "Hi.", system="Be kind."),
    chat("a", "b", "c", "d", system="  blanks around\n"),
    chat("  one\n\n", "\ttwo \u3000", "three\u00a0", " four "),
    chat("\u00dcn\u00efc\u00f6d\u00e9 \u732b \U0001f600", "e\u0301\u200d end", "DON'T I'LL", "12 345 6789"),
    chat("<|im_end|> [/INST] </s> <tool>", "<|eot_id|> [MASK] <|endoftext|>"),
    chat("2+2?", "<think>\nfour\n</think>\n\n4"),
    chat("if (x) {\n    y;\n}\n", "\tif x:\n\t\ty = 1\r\n"),
]
OTHERS = {"bos_token": "<s>", "eos_token": "</s>"} # where a tokenizer names none


def begins_with_parts(made, dialogue):
    """Does the text of a dialogue begin with that of each prompt, and of each answer behind it?"""
    def text(messages, prompt=False):
        return made.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt,
                                        date_string="26 Jul 2024")
    whole = text(dialogue)
    return all(whole.startswith(text(dialogue[:at], True)) and whole.startswith(text(dialogue[:at + 1]))
               for at, message in enumerate(dialogue) if message["role"] == "assistant")


def ids_of(tokenizer, template):
    """The cases of one tokenizer with one template."""
    folder = HERE.parent / "tokenizers" / tokenizer
    kept = folder / "tokenizer_config.json"
    config = json.loads(kept.read_text()) if kept.exists() else dict(OTHERS)
    with tempfile.TemporaryDirectory() as at:
        shutil.copy(folder / "tokenizer.json", at)
        made = PreTrainedTokenizerFast(tokenizer_file=f"{at}/tokenizer.json", **{
            key: config[key]["content"] if isinstance(config[key], dict) else config[key]
            for key in ("bos_token", "eos_token")})
    made.chat_template = (HERE / f"{template}.jinja").read_text().rstrip("\n")
    for dialogue in CHATS:
        if not begins_with_parts(made, dialogue):
            continue # the template changes earlier messages: refused here
        # the date that the template has where no clock is given, as in training
        ids = made.apply_chat_template(dialogue, tokenize=True, return_dict=False,
                                       date_string="26 Jul 2024")
        yield {"tokenizer": tokenizer, "template": f"{template}.jinja", "config": config,
               "messages": dialogue, "ids": ids}


def case(template, context, text=None):
    one = {"template": template, "context": context}
    try:
        one["output"] = _compile_jinja_template(text or template).render(**context)
    except Exception:
        one["raises"] = True
    if "[{'" in one.get("output", ""):  # Python's own writing of a list: refused here
        del one["output"]
    return one


def main():
    cases = []
    for path in sorted(HERE.glob("*.jinja")):
        text = path.read_text()
        for dialogue in DIALOGUES:
            for prompt in (False, True):
                context = {"messages": dialogue, "add_generation_prompt": prompt,
                           "tools": None, "documents": None, **TOKENS,
                           "date_string": "27 Nov 2026"}
                cases.append(case(path.name, context, text))
        context = dict(cases[-1]["context"], messages=DIALOGUES[2], tools=TOOLS,
                       enable_thinking=False)
        cases.append(case(path.name, context, text))
    for text in SMALL.strip("\n").split("\n") + MULTI:
        cases.append(case(text, CONTEXT))
        del cases[-1]["context"]
    lines = [json.dumps(one, ensure_ascii=False) for one in cases]
    head = f'{{"context": {json.dumps(CONTEXT, ensure_ascii=False)},\n"cases": [\n'
    (HERE / "cases.json").write_text(head + ",\n".join(lines) + "\n]}\n")
    lines = [json.dumps(one, ensure_ascii=False) for pair in PAIRS for one in ids_of(*pair)]
    (HERE / "ids.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    raised = sum("raises" in one for one in cases)
    print(f"{len(cases)} cases, {raised} of them raise")


main()
