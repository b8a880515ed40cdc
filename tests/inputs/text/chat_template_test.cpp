// SPDX-License-Identifier: Apache-2.0
// Chat templates. The expected texts are what Jinja gives for them in Transformers.
#include "inputs/text/chat_template.h"
#include "support/folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json/json.h"
#include "support/german_locale.h"
#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr const char* kMessages =
    R"([{"role": "user", "content": "  Hello, wörld!\nHow are you? "},
        {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nFine. "}])";

std::string rendered(const std::string& source, const ChatOptions& options = {},
                     std::string_view messages = kMessages) {
  return text::render_chat(source, messages, options, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}).text;
}

std::string error_of(const std::string& source, const ChatOptions& options = {},
                     std::string_view messages = kMessages) {
  try {
    return "no error: " + rendered(source, options, messages);
  } catch (const Error& error) {
    return error.what();
  }
}

struct Case {
  const char *source, *expected;
};

// clang-format off
constexpr Case kLanguage[] = {
    {"{{ [1,2,3] }} {{ (1,) }} {{ {'a': 1, \"b'\": 'x\\'y'} }} {{ none }} {{ true }} {{ 1.0 }} {{ 1e20 }} {{ 7//2 }} {{ -7//2 }} {{ -7 % 3 }} {{ 7/2 }} {{ 2**10 }} {{ 2**-1 }}",
     "[1, 2, 3] (1,) {'a': 1, \"b'\": \"x'y\"} None True 1.0 1e+20 3 -4 2 3.5 1024 0.5"},
    {"{% for x in [1,2,3] -%}\n  {{ x }}{{ ',' if not loop.last }}\n{%- endfor %}|",
     "1,2,3|"},
    {"a  \n   {% if true %}\n b \n   {% endif %}\n c",
     "a  \n b \n c"},
    {"a {%+ if true %} b {%+ endif %}\n c {# x #}\n d {#- y -#} e",
     "a  b  c  de"},
    {"   {{ 1 }}   \n  {{- 2 -}}   \n 3",
     "   123"},
    {"{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
     "1231"},
    {"{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
     "4"},
    {"{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c='z') }} {{ f(1,3) }}",
     "1-2-x 1-2-z 1-3-x"},
    {"{% macro g(n) %}{% if n > 0 %}{{ n }}{{ g(n-1) }}{% endif %}{% endmacro %}{{ g(5) }}",
     "54321"},
    {"{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{% endcall %}",
     "<in>"},
    {"{{ 'abc'[1:] }} {{ 'abc'[::-1] }} {{ 'abcdef'[-3:-1] }} {{ [1,2,3,4][::2] }} {{ 'x'*3 }} {{ [1]*2 }}",
     "bc cba de [1, 3] xxx [1, 1]"},
    {"{{ ' a b '.strip() }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a b c'.rsplit(' ',1) }}|{{ 'aXbX'.replace('X','-',1) }}",
     "a b|['a', 'b', '', 'c']|['a', 'b']|['a', 'b c']|['a b', 'c']|a-bX"},
    {"{{ 'hello world'.title() }} {{ 'HELLO'.capitalize() }} {{ 'Hello'|upper }} {{ 'x'.join(['a','b']) }} {{ 'abc'.find('c') }} {{ 'ab'.startswith(('x','a')) }}",
     "Hello World Hello HELLO axb 2 True"},
    {"{{ {'b':2,'a':1}|dictsort }} {{ {'b':2,'a':1}.items()|list }} {{ {'b':2}.get('x','d') }} {{ {'b':2}['b'] }} {{ {'b':2}.b }} {{ {'b':2}.keys()|list }}",
     "[('a', 1), ('b', 2)] [('b', 2), ('a', 1)] d 2 2 ['b']"},
    {"{{ [3,1,2]|sort }} {{ ['b','A','c']|sort }} {{ ['b','A']|sort(case_sensitive=true) }} {{ [3,1]|sort(reverse=true) }} {{ [1,2,3]|sum }} {{ [1,2]|max }}",
     "[1, 2, 3] ['A', 'b', 'c'] ['A', 'b'] [3, 1] 6 2"},
    {"{{ [{'r':'a','v':1},{'r':'b','v':2}]|selectattr('r','equalto','a')|map(attribute='v')|list }} {{ [1,2,3,4]|select('odd')|list }} {{ [0,1,'',2]|select|list }} {{ ['a','b']|map('upper')|join('+') }}",
     "[1] [1, 3] [1, 2] A+B"},
    {"{{ x|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ none|default('d') }} {{ x is defined }} {{ x is undefined }} {{ messages is defined }}",
     "d  d None False True True"},
    {"{{ '<a href=\"x\">'|e }} {{ {'a':[1,{'b':none}],'c':'é<>&'}|tojson }} {{ {'a':[1,{'b':none}],'e':[],'f':{}}|tojson(indent=2) }} {{ [1,2]|tojson(separators=(',',':')) }} {{ 'é'|tojson(ensure_ascii=true) }}",
     "&lt;a href=&#34;x&#34;&gt; {\"a\": [1, {\"b\": null}], \"c\": \"é<>&\"} {\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"e\": [],\n  \"f\": {}\n} [1,2] \"\\u00e9\""},
    {"{{ 1 if false }}{{ 'a' ~ 1 ~ none }} {{ 1 in [1,2] }} {{ 'a' not in 'abc' }} {{ not true or true and false }} {{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ '1' == 1 }}",
     "a1None True False False True True False"},
    {"{% for k, v in {'a':1,'b':2}.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}{% for x in [] %}{% else %}none{% endfor %}",
     "a=1;b=2;none"},
    {"{% for x in [1,2,3,4] if x is even %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}",
     "1:2/2 2:4/2 "},
    {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
     "0134"},
    {"{% for x in 'abc' %}{{ loop.cycle('o','e') }}{{ x }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex }}{% endfor %}",
     "oab3ebac2ocb1"},
    {"{% set t %}block {{ 1+1 }}{% endset %}{{ t|upper }} {% set u | trim %}  x  {% endset %}[{{ u }}]",
     "BLOCK 2 [x]"},
    {"{% filter upper %}abc{{ 'd' }}{% endfilter %}{% with a=1, b=2 %}{{ a+b }}{% endwith %}{{ a }}",
     "ABCD3"},
    {"{% raw %}{{ x }} {% if %}{% endraw %} {{ '{{' }}",
     "{{ x }} {% if %} {{"},
    {"{% generation %}abc{% endgeneration %}\nx",
     "abcx"},
    {"{{ messages[99] }}|",
     "|"},
    {"{{ {}.x }}|",
     "|"},
    {"{% if missing %}a{% else %}b{% endif %}",
     "b"},
    {"{{ [1] + [2] }}",
     "[1, 2]"},
    {"{{ '%s-%d-%.2f' % ('a', 3, 1.5) }} {{ '%s'|format('x') }} {{ '{} {}'.format(1,'b') }}",
     "a-3-1.50 x 1 b"},
    {"{{ 'line1\nline2\n\nline3'|indent(2) }}|{{ 'a\nb'|indent(4, true) }}|{{ 'a b c'|wordcount }} {{ 'abc'|length }} {{ 'abc'|first }} {{ [1,2]|last }} {{ 'abc'|reverse }} {{ [1,2]|reverse|list }}",
     "line1\n  line2\n\n  line3|    a\n    b|3 3 a 2 cba [2, 1]"},
    {"{{ 3.7|int }} {{ '12'|int }} {{ 'x'|int }} {{ '1.5'|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ -3|abs }} {{ 1|string + 'a' }} {{ 5|float }}",
     "3 12 0 1.5 2.0 2.57 3 1a 5.0"},
    {"{{ [1,1,2]|unique|list }} {{ [1,2,3,4,5]|batch(2)|list }} {{ [{'g':1,'n':'a'},{'g':2,'n':'b'},{'g':1,'n':'c'}]|groupby('g')|list|length }}",
     "[1, 2] [[1, 2], [3, 4], [5]] 2"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set d = dict(x=1, y='z') %}{{ d }} {{ d.x }}",
     "12 {'x': 1, 'y': 'z'} 1"},
    {"{{ 'é'|upper }} {{ 'ÀB'.lower() }} {{ 'straße'.upper() }} {{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'Ab'.isupper() }} {{ 'x'.center(5) }}|{{ '7'.zfill(3) }}",
     "É àb STRASSE True True False   x  |007"},
    {"{{ 1 is number }} {{ 'a' is string }} {{ [] is sequence }} {{ {} is mapping }} {{ 'a' is iterable }} {{ none is none }} {{ 4 is divisibleby 2 }} {{ true is true }} {{ 1 is sameas 1 }} {{ 3 is odd }} {{ 3 is not even }}",
     "True True True True True True True True True True True"},
    {"{{ ('a', 'b') | join(', ') }} {{ [1,2,3] | join }} {{ {'a':1}|length }} {{ {'a': 1}|items|list }} {{ (1, 2)|list }}",
     "a, b 123 1 [('a', 1)] [1, 2]"},
    {"{{ \"a\\tb\\u00e9\\x41\\\\\" }} {{ 'it''s' }} {{ 1_000 }}",
     "a\tbéA\\ its 1000"},
    {"{{ range(3)|list }} {{ range(1,7,2)|list }} {{ range(3,0,-1)|list }}",
     "[0, 1, 2] [1, 3, 5] [3, 2, 1]"},
    {"{{ 1 and 2 }} {{ 0 or 'x' }} {{ not 0 }}",
     "2 x True"},
    {"{{ messages[0].content[:3] }}{{ messages[0]['content'].split()[0] }}{{ messages[0].role == 'user' and messages|length > 0 }}",
     "  HHello,True"},
    {"{% set x = messages | map(attribute='role') | join(',') %}{{ x }} {{ messages|map(attribute='zzz', default='q')|list }}",
     "user,assistant ['q', 'q']"},
    {"{{ bos_token }}{{ eos_token if eos_token else 'no' }}{{ 'a' if messages else 'b' }}\n\n",
     "<s></s>a\n"},
    {"{% if messages[0].role == 'user' %}x{% elif foo %}y{% else %}z{% endif %}\r\nw\r\n",
     "xw"},
    {"{{ ['a','b'].index('b') }} {{ 'banana'.count('an') }} {{ 'a-b'.partition('-') }} {{ 'abc'.removeprefix('a') }} {{ 'x\ny'.splitlines() }}",
     "1 2 ('a', '-', 'b') bc ['x', 'y']"},
    {"{{ -1 }} {{ - 1 + 2 }} {{ 2 - -1 }} {{ -2 ** 2 }} {{ 2 * 3 ~ 4 }} {{ (1,2)[0] }} {{ -3|abs }} {{ 1 - 2|abs }}",
     "-1 1 3 4 64 1 3 -1"},
    {"{% set j = joiner(', ') %}{% for i in [1,2] %}{{ j() }}{{ i }}{% endfor %}",
     "1, 2"},
    {"{{ 10 % 3 }} {{ 10.5 // 2 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 100000000000000000000.0 }} {{ 1e-7 }}",
     "1 5.0 0.30000000000000004 0.3333333333333333 1e+20 1e-07"},
    {"{{ loop }}",
     ""},
    {"{% set loop = 1 %}{{ loop }}",
     "1"},
};

constexpr Case kErrors[] = {
    {"{{ missing.foo }}",
     "chat_template: line 1: 'missing' is undefined"},
    {"{{ missing + 1 }}",
     "chat_template: line 1: 'missing' is undefined"},
    {"{{ messages[99].x }}",
     "chat_template: line 1: 'list object' has no element 99"},
    {"{{ 'a' + 1 }}",
     "chat_template: line 1: unsupported operand type(s) for +: 'str' and 'int'"},
    {"{{ 1 + 'a' }}",
     "chat_template: line 1: unsupported operand type(s) for +: 'int' and 'str'"},
    {"{{ raise_exception('boom') }}",
     "chat_template: line 1: the template refuses: 'boom'"},
    {"{% if %}",
     "chat_template: line 1: expected an expression, found '%}'"},
    {"{% for x in %}{% endfor %}",
     "chat_template: line 1: expected an expression, found '%}'"},
    {"{{ 1 ",
     "chat_template: line 1: expected '}}' before the end of the template"},
    {"{% if true %}",
     "chat_template: line 1: expected 'endif' before the end of the template"},
    {"{% foo %}",
     "chat_template: line 1: the statement 'foo' is not known"},
    {"{{ x|nofilter }}",
     "chat_template: line 1: No filter named 'nofilter'"},
    {"{{ 1 is notest }}",
     "chat_template: line 1: No test named 'notest'"},
    {"{{ messages.append(1) }}",
     "chat_template: line 1: access to the method 'append' is unsafe: a template changes no value"},
    {"{{ {'a':1}.update({'b':2}) }}",
     "chat_template: line 1: access to the method 'update' is unsafe: a template changes no value"},
    {"{{ a.b.c }}",
     "chat_template: line 1: 'a' is undefined"},
    {"{{ none + 1 }}",
     "chat_template: line 1: unsupported operand type(s) for +: 'NoneType' and 'int'"},
    {"{{ {} < 1 }}",
     "chat_template: line 1: '<' not supported between instances of 'dict' and 'int'"},
    {"{{ 'a'.foo() }}",
     "chat_template: line 1: 'str object' has no attribute 'foo'"},
    {"{{ 'a'() }}",
     "chat_template: line 1: 'str' object is not callable"},
};
// clang-format on

TEST(ChatTemplate, SpeaksJinja) {
  for (const auto& [source, expected] : kLanguage) EXPECT_EQ(rendered(source), expected) << source;
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  for (const auto& [source, expected] : kErrors) EXPECT_EQ(error_of(source), expected) << source;
  EXPECT_EQ(error_of("a\n\n{{ messages[0].missing.x }}"),
            "chat_template: line 3: 'dict object' has no attribute 'missing'");
}

TEST(ChatTemplate, RunsThoseOfModels) {
  const std::filesystem::path folder = std::filesystem::path(test::source_folder()) / "tests/fuzz/corpus/chat_template";
  const auto source = [&](const char* name) {
    std::ifstream file(folder / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  constexpr const char* kConversation =
      R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi "}])";
  ChatOptions options;
  options.add_generation_prompt = true;
  EXPECT_EQ(rendered(source("llama2.jinja"), options, kConversation),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]");
  EXPECT_EQ(rendered(source("zephyr.jinja"), options, kConversation),
            "<|system|>\nBe brief.</s>\n<|user|>\nHi </s>\n<|assistant|>\n");
  EXPECT_EQ(rendered(source("gemma3.jinja"), options, kConversation),
            "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n");
  options.variables = R"({"enable_thinking": false})";
  EXPECT_EQ(rendered(source("qwen3.jinja"), options, kConversation),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n"
            "<think>\n\n</think>\n\n");
  options = {};
  options.tools = R"([{"type": "function", "function": {"name": "sum", "description": "a & b"}}])";
  EXPECT_EQ(rendered(source("mistral_tools.jinja"), options, R"([{"role": "user", "content": "Hi"}])"),
            "<s>[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": {\"name\": \"sum\", \"description\": \"a & "
            "b\"}}][/AVAILABLE_TOOLS][INST] Hi[/INST]");
  EXPECT_NE(error_of(source("llama2.jinja"), {}, R"([{"role": "assistant", "content": "Hi"}])").find("must alternate"),
            std::string::npos);
}

TEST(ChatTemplate, GoesOnWithTheLastMessage) {
  ChatOptions options;
  options.continue_final_message = true;
  constexpr const char* kSource =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim if trimmed else m.content }}</>{% endfor %}";
  constexpr const char* kConversation =
      R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}])";
  EXPECT_EQ(rendered(kSource, options, kConversation), "<user>Hi</><assistant>Well, ");
  options.variables = R"({"trimmed": true})";
  EXPECT_EQ(rendered(kSource, options, kConversation), "<user>Hi</><assistant>Well,");
  options.add_generation_prompt = true;
  EXPECT_NE(error_of(kSource, options, kConversation).find("exclude each other"), std::string::npos);
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  const std::string nested(100000, '(');
  std::string chain = "{{ a", filters = "{{ 'a'", ifs;
  for (int i = 0; i < 20000; ++i) chain += ".b", filters += "|upper", ifs += "{% if true %}";
  for (const std::string& source :
       {"{{ " + nested, chain + " }}", filters + " }}", ifs,
        std::string("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"),
        std::string("{% set ns = namespace(t='x') %}{% for a in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}"),
        std::string("{{ 'x' * 1000000000000 }}"), std::string("{{ [1] * 1000000000 }}"),
        std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), std::string("{{ range(1000000000) }}"),
        std::string("{% set x = range(99999)|list %}{% for i in range(9999) %}{{ x == x|list }}{% endfor %}"),
        std::string("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"),
        std::string("{{ 9223372036854775807 + 1 }}"), std::string("{{ (-9223372036854775807 - 1) // -1 }}"),
        std::string("{{ 10 ** 10 ** 10 }}"), std::string("{{ '%99999999d' % 1 }}"),
        std::string("{{ 'x'|center(99999999999)|length }}{{ boom.x }}")}) {
    EXPECT_EQ(error_of(source).rfind("chat_template: line 1: ", 0), 0u) << source.substr(0, 80);
  }
}

TEST(ChatTemplate, IsChosenByName) {
  const std::string json =
      R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}], "model": {"type": "WordLevel",
          "vocab": {"hi": 0, "<s>": 1, "<unk>": 2}, "unk_token": "<unk>"}, "pre_tokenizer": {"type": "WhitespaceSplit"}})";
  const Tokenizer plain = Tokenizer::from_json(json);
  EXPECT_FALSE(plain.has_chat_template());
  EXPECT_THROW(plain.apply_chat_template(kMessages), Error);
  const Tokenizer tokenizer = Tokenizer::from_json(
      json, R"({"bos_token": "<s>", "chat_template": [{"name": "default", "template": "{{ bos_token }} hi"},
                {"name": "tool_use", "template": "tools"}, {"name": "rag", "template": "{{ documents[0].title }}"}]})");
  EXPECT_TRUE(tokenizer.has_chat_template());
  const std::string text = tokenizer.apply_chat_template(kMessages);
  EXPECT_EQ(text, "<s> hi");
  EncodeOptions without;
  without.add_special_tokens = false;
  EXPECT_EQ(tokenizer.encode(text, std::nullopt, without).ids, (std::vector<int64_t>{1, 0}));
  ChatOptions options;
  options.tools = "[{}]";
  EXPECT_EQ(tokenizer.apply_chat_template(kMessages, options), "tools");
  options.chat_template = "rag", options.documents = R"([{"title": "A", "text": "a"}])";
  EXPECT_EQ(tokenizer.apply_chat_template(kMessages, options), "A");
  options.chat_template = "{{ messages | length }}";
  EXPECT_EQ(tokenizer.apply_chat_template(kMessages, options), "2");
}

// Of Transformers 4 and of 5: an object beside the lists, and tokens that have names of their own.
TEST(ChatTemplate, SeesTokensThatTheConfigurationNames) {
  const std::string json =
      R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}], "model": {"type": "WordLevel",
          "vocab": {"hi": 0, "<s>": 1, "<unk>": 2}, "unk_token": "<unk>"}, "pre_tokenizer": {"type": "WhitespaceSplit"}})";
  for (const char* key : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(
        json, std::string(R"({"chat_template": {"default": "{{ image_token }} hi", "tool_use": "tools"}, ")") + key +
                  R"(": {"image_token": "<img>"}})");
    EXPECT_EQ(tokenizer.apply_chat_template(kMessages), "<img> hi") << key;
    EXPECT_EQ(tokenizer.encode("hi<img>").ids, (std::vector<int64_t>{0, 3})) << key;
    ChatOptions options;
    options.tools = "[{}]";
    EXPECT_EQ(tokenizer.apply_chat_template(kMessages, options), "tools") << key;
  }
}

TEST(ChatTemplates, HaveNumbersWithPointsInEveryLocale) {
  const char* source = "{{ 0.7 }} {{ '0.7'|float }} {{ '2.9'|int }} {{ 3.14159|round(2) }} {{ 1234567 }}";
  const std::string expected = "0.7 0.7 2 3.14 1234567";
  EXPECT_EQ(rendered(source), expected);
  const test::GermanLocale locale;
  if (!locale.of_c) GTEST_SKIP() << "this system cannot make the locale de_DE";
  EXPECT_EQ(rendered(source), expected);
}

// What stands between {% generation %} and {% endgeneration %}, as bytes of the text.
TEST(ChatTemplate, TellsWhatTheAssistantWrites) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}<{% generation %}{{ m.content }}.{% endgeneration %}>{% "
      "else %}"
      "{{ m.content }}{% endif %}{% endfor %}";
  const std::string messages =
      R"([{"role": "user", "content": "ä"}, {"role": "assistant", "content": "öö"}, {"role": "assistant", "content": ""}])";
  const ChatText chat = text::render_chat(source, messages, {.mark_generated = true}, {});
  EXPECT_EQ(chat.text, "ä<öö.><.>");
  ASSERT_EQ(chat.generated.size(), 2u);
  EXPECT_EQ(chat.text.substr(chat.generated[0].first, chat.generated[0].second - chat.generated[0].first), "öö.");
  EXPECT_EQ(chat.text.substr(chat.generated[1].first, chat.generated[1].second - chat.generated[1].first), ".");
  EXPECT_TRUE(text::render_chat(source, messages, {}, {}).generated.empty());
}

// A place in the text of a macro, or of a block that is set or filtered, is none in the text of the template.
TEST(ChatTemplate, RefusesMarksWhosePlaceIsNotKnown) {
  const std::string mark = "{% generation %}x{% endgeneration %}";
  for (const std::string& source :
       {"{% macro f() %}" + mark + "{% endmacro %}{{ f() }}", "{% set y %}" + mark + "{% endset %}{{ y }}",
        "{% filter upper %}" + mark + "{% endfilter %}"}) {
    EXPECT_NE(test::message_of([&] { text::render_chat(source, "[]", {.mark_generated = true}, {}); }).find("macro"),
              std::string::npos)
        << source;
    EXPECT_FALSE(text::render_chat(source, "[]", {}, {}).text.empty()) << source;
  }
}

}  // namespace
}  // namespace transom
