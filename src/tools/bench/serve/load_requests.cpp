// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/serve/load_requests.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

constexpr int64_t kMostTokens = 10'000'000;

// Common words, each of which most vocabularies hold as one token.
constexpr const char* kWords[] = {
    "the",  "of",    "and",   "to",    "in",     "is",    "that",  "for",    "was",   "with",  "as",    "on",
    "by",   "at",    "from",  "his",   "an",     "were",  "are",   "which",  "this",  "also",  "be",    "had",
    "or",   "has",   "first", "their", "after",  "its",   "new",   "but",    "who",   "not",   "they",  "have",
    "her",  "she",   "two",   "been",  "other",  "when",  "time",  "during", "there", "into",  "all",   "more",
    "one",  "city",  "about", "year",  "school", "only",  "over",  "world",  "state", "later", "some",  "most",
    "area", "river", "house", "music", "people", "water", "work",  "team",   "book",  "day",   "group", "family",
    "life", "name",  "band",  "local", "high",   "old",   "small", "road",   "north", "south", "war",   "game"};

int64_t draw(const LengthRange& range, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(range.least, range.most)(random);
}

std::string random_words(int64_t count, std::mt19937_64& random) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[std::uniform_int_distribution<size_t>(0, std::size(kWords) - 1)(random)];
  }
  return text;
}

int64_t tokens_of(const Tokenizer* tokenizer, const std::string& text) {
  if (!tokenizer) return 0;
  return static_cast<int64_t>(tokenizer->encode(text, std::nullopt, {.add_special_tokens = false}).ids.size());
}

// A text of exactly `count` tokens, or as close as the tokenizer's decodings come: what is encoded anew may join at a
// cut.
std::string text_of_length(int64_t count, std::mt19937_64& random, const Tokenizer* tokenizer) {
  std::string text = random_words(count, random);
  if (!tokenizer) return text;
  for (int round = 0; round < 8; ++round) {
    std::vector<int64_t> ids = tokenizer->encode(text, std::nullopt, {.add_special_tokens = false}).ids;
    if (static_cast<int64_t>(ids.size()) == count) break;
    if (static_cast<int64_t>(ids.size()) < count) {
      text += " " + random_words(count - static_cast<int64_t>(ids.size()), random);
      continue;
    }
    ids.resize(static_cast<size_t>(count));
    text = tokenizer->decode(ids);
  }
  return text;
}

std::string text_field(const Json& object, const char* name, const std::string& where) {
  if (!object[name].is_string()) fail("{}: {}: expected a string, found {}", where, name, quoted(object[name].dump()));
  return object[name].get<std::string>();
}

int64_t length_field(const Json& object, const std::string& where) {
  for (const char* name : {"output_tokens", "max_completion_tokens", "max_tokens"}) {
    if (!object.contains(name) || object[name].is_null()) continue;
    const Json& value = object[name];
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMostTokens)
      fail("{}: {}: expected a number from 1 to {}, found {}", where, name, kMostTokens, quoted(value.dump()));
    return value.get<int64_t>();
  }
  return 0;
}

// One request of a line; `output_tokens` 0 where the line has none.
LoadRequest request_of_line(const Json& line, const std::string& where, const Tokenizer* tokenizer) {
  LoadRequest request;
  if (!line.is_object()) fail("{}: expected an object with \"prompt\" or \"messages\"", where);
  if (line.contains("messages")) {
    if (!line["messages"].is_array() || line["messages"].empty())
      fail("{}: messages: expected a list of messages", where);
    request.prompt = line["messages"].dump();
    request.messages = true;
  } else if (line.contains("prompt")) {
    request.prompt = text_field(line, "prompt", where);
    request.prompt_tokens = tokens_of(tokenizer, request.prompt);
  } else {
    fail("{}: expected \"prompt\" or \"messages\", found neither", where);
  }
  request.output_tokens = length_field(line, where);
  return request;
}

std::vector<LoadRequest> requests_of_share_gpt(const std::string& text, const std::string& file,
                                               const Tokenizer* tokenizer) {
  const Json list = parse_json(text, file);
  std::vector<LoadRequest> requests;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}: entry {}", file, i);
    const Json& entry = list[i];
    if (!entry.is_object() || !entry.contains("conversations") || !entry["conversations"].is_array()) {
      requests.push_back(request_of_line(entry, where, tokenizer));
      continue;
    }
    const Json& turns = entry["conversations"];
    if (turns.size() < 2) continue;  // nobody answered
    for (size_t turn = 0; turn < 2; ++turn)
      if (!turns[turn].is_object() || !turns[turn].contains("value"))
        fail("{}: conversations: expected turns with \"value\"", where);
    LoadRequest request{.prompt = text_field(turns[0], "value", where)};
    const std::string answer = text_field(turns[1], "value", where);
    request.prompt_tokens = tokens_of(tokenizer, request.prompt);
    // Without a tokenizer a token counts four bytes, as English has them.
    request.output_tokens = tokenizer ? tokens_of(tokenizer, answer) : static_cast<int64_t>(answer.size() / 4);
    if (request.prompt.empty() || request.output_tokens < 1) continue;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<LoadRequest> requests_of_lines(const std::string& text, const std::string& file, bool plain,
                                           const Tokenizer* tokenizer) {
  std::vector<LoadRequest> requests;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::string where = fmt::format("{}:{}", file, number);
    if (plain) requests.push_back({.prompt = line, .prompt_tokens = tokens_of(tokenizer, line)});
    else requests.push_back(request_of_line(parse_json(line, where), where, tokenizer));
  }
  return requests;
}

}  // namespace

LengthRange parse_length_range(const std::string& text, const std::string& where) {
  LengthRange range;
  const size_t colon = text.find(':');
  const auto number = [&](const std::string& part) {
    int64_t value = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || read.ec != std::errc() || read.ptr != part.data() + part.size() || value < 1 ||
        value > kMostTokens)
      fail(ErrorKind::kUsage, "{}: expected a length such as 128, or a range such as 64:256, found {}", where,
           quoted(text));
    return value;
  };
  range.least = number(text.substr(0, colon));
  range.most = colon == text.npos ? range.least : number(text.substr(colon + 1));
  if (range.least > range.most)
    fail(ErrorKind::kUsage, "{}: expected the smaller length first, found {}", where, quoted(text));
  return range;
}

std::vector<LoadRequest> random_requests(const RandomTexts& texts, const Tokenizer* tokenizer) {
  std::mt19937_64 random(texts.seed);
  const std::string prefix = texts.prefix > 0 ? text_of_length(texts.prefix, random, tokenizer) + " " : "";
  std::vector<LoadRequest> requests;
  for (int64_t i = 0; i < texts.count; ++i) {
    const int64_t input = draw(texts.input, random), output = draw(texts.output, random);
    LoadRequest request{.prompt = prefix + text_of_length(input, random, tokenizer), .output_tokens = output};
    request.prompt_tokens = tokens_of(tokenizer, request.prompt);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<LoadRequest> requests_of_file(const std::filesystem::path& file, int64_t count, LengthRange output,
                                          uint64_t seed, const Tokenizer* tokenizer) {
  const std::string text = read_file(file, uint64_t{4} << 30);
  const size_t first = text.find_first_not_of(" \t\r\n");
  std::vector<LoadRequest> all;
  if (first != text.npos && text[first] == '[') all = requests_of_share_gpt(text, file.string(), tokenizer);
  else all = requests_of_lines(text, file.string(), file.extension() == ".txt", tokenizer);
  if (all.empty()) fail("{}: expected prompts, found none", file.string());
  std::mt19937_64 random(seed);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<LoadRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    LoadRequest request = all[order[static_cast<size_t>(i) % order.size()]];
    const int64_t drawn = draw(output, random);
    if (request.output_tokens == 0) request.output_tokens = drawn;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<double> arrival_times(size_t count, double request_rate, double burstiness, uint64_t seed) {
  std::vector<double> times(count, 0.0);
  if (count == 0 || std::isinf(request_rate)) return times;
  // A stream of its own: prompts of another kind arrive at the same times.
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15ULL);
  std::gamma_distribution<double> gap(burstiness, 1 / (request_rate * burstiness));
  double now = 0;
  for (double& time : times) time = now += std::isinf(burstiness) ? 1 / request_rate : gap(random);
  const double scale = now > 0 ? static_cast<double>(count) / request_rate / now : 1;
  for (double& time : times) time *= scale;
  return times;
}

}  // namespace transom
