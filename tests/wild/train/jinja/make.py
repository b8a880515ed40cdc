# SPDX-License-Identifier: Apache-2.0
"""Makes templates.json anew: templates of rarer features of Jinja, random expressions among them, and what
transformers 5.24 (jinja2 3.1) makes of each; null where it refuses.

    python make.py
"""
import copy
import json
import os
import random

from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {"s": "a B c", "t": "Straße 9", "n": 7, "f": 2.5, "neg": -3, "l": [3, 1, 2], "w": ["b", "A", "c"],
             "d": {"k": 1, "z": "x"}, "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": []}]}, {"v": 4, "c": []}],
             "none": None, "yes": True, "empty": [], "msgs": [{"role": "u", "content": "hi"}]}
FIXED = [
    "{{ 3|round }}", "{{ 2.5|round }}", "{{ 25|round(-1) }}", "{{ 35|round(-1) }}", "{{ 3|round(method='ceil') }}",
    "{{ 2.345|round(2) }}", "{{ -7|round }}", "{{ 1234.5|round(-2) }}", "{{ true|round }}",
    "{{ 'a b&c/d?ü'|urlencode }}", "{{ {'a b': 'c/d', 'x': 1}|urlencode }}", "{{ [('a', 1), ('b', 'c d')]|urlencode }}",
    "{{ 5|urlencode }}", "{{ [1,2,3]|slice(2)|list }}", "{{ [1,2,3,4,5]|slice(3, 'x')|list }}",
    "{{ [1]|slice(3, 0)|list }}", "{{ 'abc'|slice(2)|list }}", "{{ '{:>5}|{:.2f}'.format('a', 1.239) }}",
    "{{ '{0}-{1}-{0}'.format(1, 'b') }}", "{{ '{a!r:>6}|{b:+d}'.format(a='x', b=5) }}", "{{ '{:05d}'.format(42) }}",
    "{{ '{:,}'.format(1234567) }}", "{{ '{:_}'.format(1234567) }}", "{{ '{:x}|{:#x}|{:b}|{:o}|{:X}'.format(255, 255, 5, 8, 171) }}",
    "{{ '{:^9}|'.format('mid') }}", "{{ '{:*<7}|'.format('ab') }}", "{{ '{:e}'.format(12345.678) }}",
    "{{ '{:.1%}'.format(0.256) }}", "{{ '{:.3}'.format('abcdef') }}", "{{ '{:{w}}|'.format('a', w=4) }}",
    "{{ '{x[k]} {y[1]}'.format(x=d, y=l) }}", "{{ '{:g} {:.3g}'.format(0.0001, 123456) }}", "{{ '{:.2f}'.format(3) }}",
    "{{ '{:=+6d}'.format(3) }}", "{{ '{} {}'.format(true, none) }}", "{{ '{:d}'.format(true) }}", "{{ '{:s}'.format(3) }}",
    "{{ '{:d}'.format('x') }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{{}}'.format(1) }}", "{{ '{}'.format() }}",
    "{{ 'tojson' is filter }}", "{{ 'nothing' is filter }}", "{{ 'odd' is test }}", "{{ 'nope' is test }}", "{{ 3 is filter }}",
    "{% block a %}x{{ s }}{% endblock %}", "{% for i in l %}{% block a %}[{{ i }}]{% endblock %}{% endfor %}",
    "{% for i in l %}{% block a scoped %}[{{ i }}]{% endblock a %}{% endfor %}",
    "{% set q = 4 %}{% block a %}{{ q }}{% set q = 5 %}{% endblock %}{{ q }}",
    "{% block a %}1{% endblock %}{% block a %}2{% endblock %}",
    "{% for a in tree recursive %}{{ loop.depth }}:{{ a.v }}{% if a.c %}({{ loop(a.c) }}){% endif %};{% endfor %}",
    "{% for a in [1,2] recursive %}{{ a }}{% endfor %}", "{% for a in tree recursive %}{{ a.v }}{{ loop(a.c) }}{% else %}-{% endfor %}",
    "{% for a in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}/{{ b }};{% endmacro %}{{ m(*[1, 5]) }}{{ m(**{'a': 3}) }}{{ m(4, **{'b': 6}) }}{{ m(*[7], b=8) }}",
    "{{ range(*[1, 4])|list }}", "{{ dict(**{'a': 1}, b=2) }}", "{{ s.encode is defined }}", "{{ s.foo is defined }}",
    "{{ s.swapcase() }}", "{{ t.isascii() }}{{ s.isascii() }}", "{{ 'a\tb'.expandtabs(4) }}", "{{ s.translate is defined }}",
    "{{ s.strip is callable }}", "{{ l.append is defined }}", "{{ d.pop is defined }}", "{{ d.get is defined }}", "{{ l.append(1) }}",
    "{{ d.update({'a': 1}) }}", "{{ l.append }}|", "{{ (1, 2).append is defined }}", "{{ 'abcdefghij klm'|truncate(9) }}",
    "{{ 'abc def ghi jkl'|truncate(9, leeway=0) }}", "{{ 'abc def ghi jkl'|truncate(9, true, leeway=0) }}",
    "{{ 'abc def'|truncate(5, end='..', leeway=0) }}", "{{ 13000|filesizeformat }}", "{{ 1|filesizeformat }}",
    "{{ 999|filesizeformat }}", "{{ 4100000|filesizeformat(true) }}", "{{ 1e12|filesizeformat }}", "{{ '<b>'|e }}", "{{ s is escaped }}",
    "{{ l|sort|first }}", "{{ w|sort(case_sensitive=true) }}", "{{ w|map('upper')|join('-') }}", "{{ '%05.1f|%-4s|%x'|format(3.14159, 'a', 255) }}",
    "{{ 'x'.center(5, '*') }}", "{{ d|dictsort }}", "{{ d.items()|list }}", "{{ [1, 2]|tojson }}", "{{ none|default('q') }}",
    "{{ none|default('q', true) }}", "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 7 / 2 }}", "{{ 'a' ~ 1 ~ none }}",
    "{{ s[::-1] }} {{ l[-1] }} {{ s[1:3] }}", "{{ 'a' in s }} {{ 4 in l }} {{ 'k' in d }}", "{{ l is iterable }} {{ n is number }} {{ d is mapping }}",
    "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}", "{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{% else %}no{% endfor %}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% call(x) m2() %}{{ x }}{% endcall %}", "{% include 'x' %}", "{% extends 'x' %}",
    "{% macro c() %}[{{ caller('u') }}]{% endmacro %}{% call(x) c() %}{{ x }}!{% endcall %}", "{% do l.append(1) %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{{ msgs[0].role }}{{ msgs[0]['content'] }}{{ msgs[0].nope }}|", "{{ nope.nope }}", "{{ nope }}|", "{{ lipsum is defined }}",
]
VALUES = ["s", "t", "n", "f", "neg", "l", "w", "d", "none", "yes", "empty", "'x y'", "3", "2.5", "0", "nope", "''", "[1, 'a']",
          "(1, 2)", "{'a': 2}", "'Zz'", "-1", "s.split()", "l|length", "'12'", "' pad '"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "sort", "reverse|list", "join('+')",
           "string", "int", "float", "abs", "round", "round(1)", "tojson", "default('d')", "default('d', true)", "unique|list",
           "sum", "min", "max", "replace('a', 'q')", "batch(2)|list", "slice(2)|list", "urlencode", "wordcount", "indent(2)",
           "truncate(4, true, '', 0)", "map('string')|list", "select|list", "reject('none')|list", "center(7)", "items|list",
           "int(default=9)", "format(1)", "escape", "dictsort", "attr('upper')", "tojson(indent=1)", "filesizeformat", "groupby(0)|list"]
TESTS = ["defined", "none", "string", "number", "mapping", "sequence", "iterable", "odd", "even", "true", "false", "boolean",
         "integer", "float", "lower", "upper", "eq(3)", "in l", "divisibleby(2)", "callable", "gt(2)", "sameas(none)", "undefined"]
METHODS = ["upper()", "strip()", "split()", "split('a')", "startswith('a')", "count('a')", "find('B')", "title()", "isdigit()",
           "get('k')", "keys()|list", "items()|list", "values()|list", "index(1)", "copy()", "replace('a', 'b')", "zfill(5)",
           "rjust(8)", "partition(' ')", "splitlines()", "join(w)", "isalpha()", "swapcase()", "format(1, 2)", "encode"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "**"]


def expression(draw, depth):
    kind = draw.random()
    if depth == 0 or kind < 0.25:
        return draw.choice(VALUES)
    inner = expression(draw, depth - 1)
    if kind < 0.5:
        return f"({inner})|{draw.choice(FILTERS)}"
    if kind < 0.62:
        return f"({inner} is {draw.choice(['', 'not '])}{draw.choice(TESTS)})"
    if kind < 0.75:
        return f"({inner}).{draw.choice(METHODS)}"
    if kind < 0.92:
        return f"({inner} {draw.choice(BINARY)} {expression(draw, depth - 1)})"
    if kind < 0.96:
        return f"({inner} if {expression(draw, depth - 1)} else {expression(draw, depth - 1)})"
    return f"({inner})[{draw.choice(['0', '-1', '1:', '::2', '5', repr('k')])}]"


def render(template):
    try:
        return _compile_jinja_template(template).render(**copy.deepcopy(VARIABLES))  # += of a filter changes lists
    except Exception:
        return None


def main():
    draw = random.Random(7)
    templates = list(FIXED)
    while len(templates) < len(FIXED) + 900:
        templates.append("{{ " + expression(draw, draw.choice([1, 2, 2, 3])) + " }}")
    rows = [{"template": each, "result": render(each)} for each in dict.fromkeys(templates)]
    rows = [row for row in rows if row["result"] is None or ("<" not in row["result"] or "object" not in row["result"])]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"variables": VARIABLES})[:-1] + ', "templates": [\n')
        file.write(",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]}\n")


if __name__ == "__main__":
    main()
