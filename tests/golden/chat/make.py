#!/usr/bin/env python3
"""Writes templates.json: templates of conversations, and what transformers 5.24 renders. python3 make.py

[{"template", "variables", "text"} or {..., "error": what the template gave to raise_exception, or null}], each as transformers renders it
(its sandbox, trim_blocks, lstrip_blocks, loop controls, the tag generation), at 2026-01-02 03:04:05.
"spans": what {% generation %} encloses, as pairs of characters.

Writes tools.json, too: [{"template", "line", "text", "counted"}], a line of jsonl with functions, what apply_chat_template makes of it, and
what of that is learned: what {% generation %} encloses, or what each answer adds to the messages before it and the head of an answer.
python3 make.py FOLDER writes FOLDER/tools.json for the templates FOLDER/templates/*.jinja, with the conversations of FOLDER.
"""
import datetime as dt
import json
import pathlib
import sys

import jinja2
import transformers
import transformers.utils.chat_template_utils as ctu

HERE = pathlib.Path(__file__).parent


class Frozen(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return dt.datetime(2026, 1, 2, 3, 4, 5)


M = [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Größe <b> 'x' \"y\"?"},
     {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": [2.0, None, True, -1e-7, 1e22]}}}]},
     {"role": "tool", "content": "3\n4"}, {"role": "assistant", "content": "So: 7"}]
V = {"messages": M, "tools": None, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "f": 2.5, "s": "ab cd", "d": {"b": 1, "a": {"k": [1, 2]}, "items": 3}, "l": [3, 1, 2, 1], "e": [], "z": ""}
CASES = [
    # blanks
    "a\n{% if n %}\nb\n{% endif %}\nc\n", "  {% if n %}x{% endif %}  \ny", "a {%- if n -%} b {%- endif -%} c", "{# c #}\nx{#- d -#} y", "  {# c #}  \nz", "a\n  {{ n }}\n  b", "{{- n -}}\n\n x",
    "x  {%+ if n %}y{% endif +%}\nz", "\r\na\r\n{% if n %}\r\nb\r\n{% endif %}", "a\n\n", "{{ '{{' }}{{ \"%}\" }}", "  {%- set x = 1 %}\n\n  {{ x }}", "a{% set x = 'q' %}\nb{{ x }}", "{{ {'a': {'b': 1}}['a']['b'] }}",
    # values
    "{{ n }} {{ f }} {{ s }} {{ none }} {{ true }} {{ l }} {{ d }} {{ missing }}", "{{ [1, 'a', \"it's\", '\"', '\\n\\t\\\\', 'é\\u200b', none, 2.0, {}] }}", "{{ 'a' 'b' \"c\" }} {{ '\\x41\\u00e9\\'\\q' }}", "{{ 1e3 }} {{ 1.50 }} {{ 1e22 }} {{ 1e-7 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }}",
    "{{ (1, 2)[1] }} {{ [] }} {{ {} }} {{ {'a': 1, 2: 'b'} }}",
    # operators
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 * 'ab' if false else 'ab' * 2 }} {{ [1] + [2] }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}", "{{ 'a' ~ 1 ~ none ~ [1] }} {{ 1 + 2 * 3 }} {{ -n + 1 }} {{ - 2 | abs }} {{ +3 }}",
    "{{ 1 < 2 <= 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ [1, {'a': 2}] == [1, {'a': 2}] }} {{ 'b' in s }} {{ 9 not in l }} {{ 'a' in d }} {{ n != 7 }}", "{{ not n and z or 'x' }} {{ n and s }} {{ z or e or none }} {{ not not n }} {{ 1 if z }}|{{ 'y' if n else 'n' }} {{ 'q' if z else 'r' if e else 't' }}",
    "{{ s[0] }}{{ s[-1] }} {{ s[1:] }} {{ s[::-1] }} {{ l[:2] }} {{ l[-2:] }} {{ l[::2] }} {{ l[3:0:-1] }} {{ l[9:] }} {{ l[1] }} {{ s[9] }}|{{ 'größe'[1:4] }}",
    "{{ d.b }} {{ d['b'] }} {{ d.a.k.1 }} {{ d['items'] }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.get('q', 'w') }} {{ d.get('q') }} {{ messages[0].role }} {{ messages[2].content is defined }} {{ messages[2].thinking }}",
    "{{ n is odd }} {{ 4 is even }} {{ 6 is divisibleby 3 }} {{ n is number }} {{ f is float }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ l is iterable }} {{ q is undefined }} {{ z is not none }} {{ none is none }} {{ true is boolean }} {{ n is eq 7 }} {{ n is in [7] }} {{ 3 is gt(2) }} {{ true is true }} {{ 'a' is lower }} {{ 'A' is upper }} {{ d is callable }} {{ 1 is integer }} {{ s is sameas s }} {{ 2 is ne 3 }} {{ 1 is lt 2 and 2 is le 2 and 2 is ge 2 }}",
    # filters
    "{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ l | length }} {{ s | count }} {{ q | default('w') }} {{ z | default('w') }}|{{ z | d('w', true) }} {{ l | join('-') }} {{ d | list }} {{ s | first }}{{ l | last }} {{ e | first }}|",
    "{{ 'hello wORLD-x (ab)' | title }} {{ 'hello wORLD' | capitalize }} {{ 'Ab' | upper }} {{ 'ÄÖ' | lower }} {{ 'a.b.c' | replace('.', '/', 2) }} {{ 12 | string | length }} {{ '12' | int + 1 }} {{ 'x' | int }} {{ 3.7 | int }} {{ '1.5' | float }} {{ -3 | abs }} {{ 'x' | safe }}",
    "{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | selectattr('tool_calls', 'defined') | map(attribute='role') | list }} {{ messages | rejectattr('content', 'defined') | list | length }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ [' a ', 'b '] | map('trim') | join }} {{ l | unique | list }} {{ l | reverse | list }} {{ 'abc' | reverse }}",
    "{{ d | dictsort }} {{ d | items | list }} {{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ [1, 2] | map('string') | list }} {{ [{'x': {'y': 5}}] | map(attribute='x.y') | list }} {{ [{}] | map(attribute='q', default='w') | list }}",
    "{{ messages | tojson }}", "{{ messages[2] | tojson(indent=2) }}", "{{ [[], {}, [{}]] | tojson(indent=4) }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}{{ 'é🙂\\u007f\\u0001\"/\\\\' | tojson }}{{ 'é🙂' | tojson(ensure_ascii=true) }}",
    # methods
    "{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ '<t>x<t>'.strip('<t>') }} {{ ' x '.lstrip() }}|{{ ' x '.rstrip() }}| {{ 'aXb'.upper() }} {{ \"they're ok\".title() }} {{ 'aab'.replace('a', 'b') }} {{ 'abcb'.find('b') }} {{ 'abab'.count('ab') }} {{ '-'.join(['a', 'b']) }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'prefix'.removeprefix('pre') }} {{ '12'.isdigit() }} {{ 'x'.capitalize() }} {{ 'a b c d'.split(none, 2) }} {{ 'straße'.upper() }}",
    # statements
    "{% for x in l %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}{% for x in e %}x{% else %}none{% endfor %}", "{% for x in l if x != 1 %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.previtem }}{{ loop.nextitem }}{{ x }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}{% for c in s %}{{ c }}.{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for x in missing %}x{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }} {% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set a, b = [1, 2] %}{{ a }}{{ b }} {% set t %}x{{ n }}{% endset %}{{ t }} {% set u | upper | trim %} q {% endset %}[{{ u }}]",
    "{% macro m(a, b='z', c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }} {{ m('x') | upper }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% set y = 5 %}{% macro g() %}{{ y }}{{ n }}{% endmacro %}{{ g() }}",
    "{% for a in [1, 2] %}{% for b in [1, 2] %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{% endfor %}", "{{ range(3) | list }} {{ range(1, 9, 3) | list }} {{ dict(a=1)['a'] }} {{ strftime_now('%d %b %Y %H:%M %A') }}", "{% if z %}a{% elif n > 9 %}b{% elif n %}c{% else %}d{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}{{ m.content or 'call' }}{{ eos_token }}{% endgeneration %}\n{% else %}<{{ m.role }}>{{ m.content | trim }}{% endif %}{% endfor %}",
    "{{ bos_token }}{%- for m in messages -%}\n{{ '<' + m['role'] + '>' }}{%- if m.content is string -%}{{ m.content }}{%- endif -%}{%- endfor -%}",
    # faults
    "{{ raise_exception('no ' ~ n) }}", "{{ 'a' + 1 }}", "{{ 'a' + missing }}", "{{ missing.x }}", "{{ missing.x.y }}", "{{ n.x.y }}", "{{ 1 / 0 }}", "{{ 1 < 'a' }}", "{{ n() }}", "{% for x in n %}{% endfor %}", "{{ missing | tojson }}", "{% set n.x = 1 %}", "{{ 'x'.append(1) }}", "{{ l.append(1) }}", "{{ ''.__class__.__mro__ }}", "{% set a, b = [1] %}",
]

WEATHER = {"type": "function", "function": {"name": "weather", "description": "Wetter für \"heute\" & <morgen>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}, "required": ["city"]}}}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}}}
ASK, RESULT, END = {"role": "user", "content": "Is it cold in Århus?"}, {"role": "tool", "name": "weather", "tool_call_id": "c1", "content": "{\"t\": -3.5}"}, \
    {"role": "assistant", "content": "Yes, -3.5."}


def call(name, arguments, **more):
    return {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]} | more


LINES = [
    {"messages": [ASK, call("weather", {"city": "Århus", "days": 2, "x": [1.0, None, True, -1e-7]}, content=""), RESULT, END], "tools": [WEATHER]},
    {"messages": [{"role": "system", "content": "Be brief."}, ASK, call("weather", "{\"city\": \"Rom\"}", content=None), RESULT, END], "tools": [WEATHER, ADD]},
    {"tools": json.dumps([ADD]), "messages": [{"role": "user", "content": "1+2?"}, call("add", {"a": 1, "b": 2}, content="I add."), {"role": "tool", "content": "3"},
                                              {"role": "assistant", "content": "3", "weight": 1}]},
    {"messages": [ASK, call("weather", {}, weight=0, content="no"), RESULT, END, {"role": "user", "content": "Thanks"}, call("add", {"b": 2}, content="")], "tools": [WEATHER]},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "reasoning_content": "a greeting"}], "tools": [ADD]},
    {"messages": [ASK, call("add", {"a": {"b": []}}), {"role": "tool", "content": "x"}, {"role": "tool", "content": "y"}, END]},
]
TOOLS = [
    # calls as JSON, functions in front
    "{%- if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>"
    "{{ m.role }}\n{% if m.role == 'tool' %}{{ m.name or '' }}={% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} "
    "{{ c.function.arguments | tojson if c.function.arguments is mapping else c.function.arguments }}</call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    # what is learned is marked; arguments one by one
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m.role == 'assistant' %}{% generation %}{% if m.reasoning_content %}({{ m.reasoning_content }}) {% endif %}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c['function']['name'] }}:{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}"
    "{% for k, v in c.function.arguments | items %}{{ k }}={{ v if v is string else v | tojson }};{% endfor %}{% endif %}{% endfor %}{% endif %}{{ m.content or '' }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}{% if tools is not none %}{{ tools | length }}{% endif %}"
]


def learned(tokenizer, messages, tools, whole, template):
    """The texts that count in the loss, joined."""
    if "{% generation %}" in template:
        plain = [{k: v for k, v in m.items() if v is not None} for m in ctu._alias_reasoning_fields(messages)]
        _, spans = ctu._render_with_assistant_indices(ctu._compile_jinja_template(template), plain, tools, None, False)
        counts = [m.get("weight", 1) for m in messages if m["role"] == "assistant"]
        return "".join(whole[a:b] for (a, b), c in zip(spans, counts) if c)
    out = ""
    for i, m in enumerate(messages):
        if m["role"] == "assistant" and m.get("weight", 1):
            before, up_to = (tokenizer.apply_chat_template(messages[:n], tools=tools, tokenize=False, chat_template=template, add_generation_prompt=head)
                             for n, head in ((i, True), (i + 1, False)))
            if not (whole.startswith(before) and whole.startswith(up_to)):
                return None
            out += up_to[len(before):]
    return out


def write_tools(folder, templates, lines):
    from tokenizers import Tokenizer, models
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    cases = []
    for template in templates:
        for line in lines:
            tools = line.get("tools")
            tools = json.loads(tools) if isinstance(tools, str) else tools
            try:
                text = tokenizer.apply_chat_template(line["messages"], tools=tools, tokenize=False, chat_template=template)
                counted = learned(tokenizer, line["messages"], tools, text, template)
            except Exception:  # the template refuses it
                text = counted = None
            cases.append({"template": template, "line": json.dumps(line, ensure_ascii=False), "text": text, "counted": counted})
    text = json.dumps({"transformers": transformers.__version__, "cases": cases}, separators=(",", ":"))
    (folder / "tools.json").write_text(text.replace('{"template"', '\n{"template"') + "\n")
    print(len(cases), "lines with functions")


def main():
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
        all_lines = [{"messages": c["messages"], "tools": c["tools"]} for c in json.loads((folder / "conversations.json").read_text()) if (c["tools"] or any("tool_calls" in m or m["role"] == "tool" for m in c["messages"]))
                     and any(m["role"] == "assistant" for m in c["messages"]) and not c.get("kwargs")]
        write_tools(folder, [p.read_text().removesuffix("\n") for p in sorted((folder / "templates").glob("*.jinja"))], all_lines)
        return
    write_tools(HERE, TOOLS, LINES)
    ctu.datetime = Frozen
    out = []
    for template in CASES:
        compiled = ctu._compile_jinja_template(template)
        variables = {k: v for k, v in V.items()}
        messages = [{k: v for k, v in m.items() if v is not None} for m in ctu._alias_reasoning_fields(json.loads(json.dumps(M)))]
        case = {"template": template}
        try:
            if "generation" in template:
                text, spans = ctu._render_with_assistant_indices(compiled, messages, None, None, False, **{k: v for k, v in variables.items() if k not in ("messages", "tools")})
                case |= {"text": text, "spans": [list(s) for s in spans]}
            else:
                case["text"] = compiled.render(**variables | {"messages": messages})
        except jinja2.exceptions.TemplateError as e:
            case["error"] = str(e) if type(e) is jinja2.exceptions.TemplateError else None
        except Exception:
            case["error"] = None
        out.append(case)
    text = json.dumps({"transformers": transformers.__version__, "variables": V, "cases": out}, ensure_ascii=True, indent=None, separators=(",", ":"))
    (HERE / "templates.json").write_text(text.replace('{"template"', '\n{"template"') + "\n")
    print(len(out), "templates,", sum("error" in c for c in out), "with errors")


if __name__ == "__main__":
    main()
