// SPDX-License-Identifier: Apache-2.0
// Bodies of requests: JSON, and what handlers read out of it before a model is asked. The first byte chooses the
// reader.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/anthropic/chat_of_messages.h"
#include "apps/serve/api/request_json.h"
#include "apps/serve/chat/chat_prompt.h"
#include "apps/serve/http/message.h"
#include "apps/serve/http/multipart.h"
#include "apps/serve/http/own_host.h"
#include "apps/serve/inference/media.h"
#include "apps/serve/tools/argument_places.h"
#include "apps/serve/tools/json_text.h"
#include "apps/serve/tools/long_numbers.h"
#include "apps/serve/tools/tool_calls.h"
#include "apps/serve/tools/tool_choice.h"
#include "base/json/json.h"
#include "base/text/percent.h"
#include "transom/error.h"
#include "work/generation/constraint/grammar/gbnf.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/json_schema.h"
#include "work/generation/constraint/structural_tags.h"
#include "work/generation/constraint/tokens/token_masks.h"

namespace {

// The tokens that a grammar allows behind a few of them, found in short turns.
void follow_grammar(const std::string& text) {
  using namespace transom::constraint;
  static const std::vector<std::string> kTokens{"",   "a",   "b", "ab", "ba", "abab", "1", "12",
                                                "\"", "\"a", "{", "}",  " ",  "\n",   "é", "\xc3"};
  static const auto kTrie = std::make_shared<const TokenTrie>(kTokens);
  constexpr int kMostTokens = 12, kMostTurns = 100;
  const CompiledGrammar compiled(parse_gbnf(text), kTrie);
  Stacks stacks;
  Places places = start_of(compiled.grammar(), stacks);
  for (size_t n = 0; n < kMostTokens; ++n) {
    MaskSearch search(places);
    std::shared_ptr<const Mask> mask;
    for (int turn = 0; turn < kMostTurns && !mask; ++turn) {
      WorkTime none(0);
      mask = compiled.go_on(search, stacks, none);
    }
    if (!mask) return;
    size_t token = 0;
    for (size_t i = 0; i < kTokens.size() && token == 0; ++i)
      if (const size_t each = (i + n) % kTokens.size(); mask->at(0) >> each & 1) token = each;
    if (token == 0) return;
    for (const char byte : kTokens[token])
      places = behind(compiled.grammar(), stacks, places, static_cast<uint8_t>(byte));
    if (places.dead()) std::abort();  // the mask has allowed what the grammar does not
  }
}

void read_request(char which, const std::string& text) {
  using namespace transom;
  using namespace transom::serve;
  switch (which) {
    case 'm': {
      LongNumbers numbers;
      normalised_messages(parse_request_json(text), numbers, nullptr);
      return;
    }
    case 'a': {
      const Json body = parse_request_json(text);
      RequestFields fields(body);
      const ChatOfMessages chat = read_chat_of_messages(fields);
      LongNumbers numbers;
      if (chat.origins.size() != chat.body["messages"].size()) std::abort();
      normalised_messages(chat.body["messages"], numbers, nullptr);
      return;
    }
    case 'j':
      constraint::structural_tags_grammar(parse_request_json(text));
      return;
    case 'u':
      if (scan_json(completed_arguments(text)).state != JsonSpan::kWhole) std::abort();
      return;
    case 's':
      constraint::json_schema_grammar(parse_request_json(text));
      return;
    case 'g':
      constraint::parse_gbnf(text);
      return;
    case 'k':
      follow_grammar(text);
      return;
    case 'b':
      media_bytes(text, "inputs");
      return;
    case 'h':
      percent_decoded(text), header_parameter(text, "boundary");
      return;
    case 'p': {  // the header is the first line
      const size_t line = std::min(text.find('\n'), text.size());
      parse_multipart(std::string_view(text).substr(std::min(line + 1, text.size())), text.substr(0, line));
      return;
    }
    case 't': {
      HttpRequest request;
      request.target = text;
      read_target(request);
      is_own_name(text, "localhost"), request_id(&text), trace_id(&text);
      return;
    }
    case 'r': {
      constraint::GrammarBuilder builder;
      const uint32_t root = builder.add_rule();
      builder.define(root, constraint::regex_part(builder, text));
      builder.finish("pattern");
      return;
    }
    case 'c': {
      static const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
      parse_tool_calls(text, kTools);
      ToolCallParser parser(std::make_shared<const KnownTools>(kTools), true);  // as a stream, byte by byte
      for (const char c : text) parser.add({&c, 1}, c == '|');
      parser.finish();
      return;
    }
    default: {
      const Json body = parse_request_json(text);
      RequestFields fields(body);
      read_tool_choice(fields);
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 20'000) return 0;
  try {
    read_request(static_cast<char>(data[0]), std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const transom::Error&) {
  }
  return 0;
}
