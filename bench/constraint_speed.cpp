// SPDX-License-Identifier: Apache-2.0
// What a constraint costs a token, at the vocabularies of large models: random texts that each grammar allows.
//   constraint_speed [--tokenizer DIR] [--vocabulary 128000] [--texts 200] [--warm_up 20]
// Without a tokenizer the tokens are random: bytes, words with and without a space before, digits, runs of punctuation.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <iostream>
#include <random>
#include <set>

#include "base/error.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/engine/mask_turns.h"

namespace transom {
namespace {

using constraint::Kind;

struct Options {
  std::string tokenizer;
  int64_t vocabulary = 128'000, texts = 200, warm_up = 20;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto next = [&]() -> std::string { return i + 1 < count ? words[++i] : ""; };
    if (word == "--tokenizer") options.tokenizer = next();
    else if (word == "--vocabulary") options.vocabulary = std::atoll(next().c_str());
    else if (word == "--texts") options.texts = std::atoll(next().c_str());
    else if (word == "--warm_up") options.warm_up = std::atoll(next().c_str());
    else options.texts = 0;
  }
  if (options.vocabulary < 1000 || options.texts < 1 || options.warm_up < 0)
    fail(ErrorKind::kUsage, "expected: constraint_speed [--tokenizer DIR] [--vocabulary N] [--texts N] [--warm_up N]");
  return options;
}

// The last token ends texts and has no bytes.
std::vector<std::string> random_tokens(int64_t count) {
  std::mt19937 random(1);
  std::set<std::string> words;
  for (int byte = 0; byte < 256; ++byte) words.insert(std::string(1, static_cast<char>(byte)));
  const auto letters = [&](std::string_view among, size_t length) {
    std::string word;
    for (size_t i = 0; i < length; ++i) word += among[random() % among.size()];
    return word;
  };
  while (static_cast<int64_t>(words.size()) < count - 1) {
    const uint32_t kind = random() % 100;
    if (kind < 45) words.insert(" " + letters("etaoinshrdlucmfwypvbgk", 1 + random() % 9));
    else if (kind < 80) words.insert(letters("etaoinshrdlucmfwypvbgkETAOIN", 1 + random() % 9));
    else if (kind < 85) words.insert(letters("0123456789", 1 + random() % 3));
    else if (kind < 92) words.insert(letters("\"{}[]:,. \n\t()<>/=-", 1 + random() % 4));
    else words.insert(letters("\"{}[]:,", 1 + random() % 2) + letters("etaoinshr", 1 + random() % 4));
    if (kind > 98) words.insert("\xE4" + letters("\xB8\xB9\xBA\xBB", 1) + letters("\x80\x81\x82\x90\xA0\xB0", 1));
  }
  std::vector<std::string> tokens(words.begin(), words.end());
  std::shuffle(tokens.begin(), tokens.end(), random);
  tokens.emplace_back();
  return tokens;
}

struct Case {
  const char* name;
  Kind kind;
  std::string text;
};

const std::vector<Case> kCases{
    {"any JSON object", Kind::kJsonObject, ""},
    {"schema of a person", Kind::kJsonSchema,
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
         "mail": {"type": "string", "maxLength": 40}, "tags": {"type": "array", "items": {"type": "string"}},
         "address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string",
         "pattern": "^[0-9]{5}$"}}, "required": ["street", "zip"]}}, "required": ["name", "age", "address"]})"},
    {"schema of a tree", Kind::kJsonSchema,
     R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "kind": {"enum": ["a", "b",
         "leaf"]}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3}},
         "required": ["value", "kind", "children"], "additionalProperties": false}}, "$ref": "#/$defs/node"})"},
    {"2,000 objects", Kind::kJsonSchema,
     R"({"type": "array", "maxItems": 2000, "items": {"type": "object", "properties": {"id": {"type": "integer"},
         "name": {"type": "string", "maxLength": 30}}, "required": ["id", "name"], "additionalProperties": false}})"},
    {"20,000 characters", Kind::kJsonSchema, R"({"type": "string", "minLength": 1, "maxLength": 20000})"},
    {"names by patterns", Kind::kJsonSchema,
     R"({"allOf": [{"$ref": "#/$defs/known"}, {"properties": {"id": {"multipleOf": 5}}}], "$defs": {"known":
         {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0}}, "patternProperties":
         {"^x_[a-z]+$": {"type": "string", "pattern": "^[a-z ]+$", "maxLength": 200}, "^n_": {"type": "number",
         "minimum": 0.25, "maximum": 99.5}}, "additionalProperties": false, "maxProperties": 50}}})"},
    {"regular expression", Kind::kRegex, R"(([A-Z][a-z]+ ){2,6}was born in (19|20)\d{2}( \([^()]{1,60}\))?\.)"},
    {"GBNF of sums", Kind::kGbnf,
     "root ::= sum (\"\\n\" sum)*\nsum ::= term ([-+*/] term)*\nterm ::= [0-9]+ | \"(\" sum \")\" | [a-z]+\n"},
    // Each letter may begin a word.
    {"ambiguous GBNF", Kind::kGbnf, "root ::= \"(\" word+ \")\"\nword ::= [a-z ]+\n"},
};

struct Times {
  std::vector<double> tokens;  // microseconds
  double longest_turn = 0;     // of the engine, in milliseconds
};

// One text, of at most 400 tokens.
void write(const TokenConstraint& first, int64_t vocabulary, std::mt19937& random, Times& times) {
  using Clock = std::chrono::steady_clock;
  const std::unique_ptr<TokenConstraint> state = first.clone();
  std::vector<uint32_t> mask(static_cast<size_t>((vocabulary + 31) / 32));
  for (int i = 0; i < 400; ++i) {
    const auto begin = Clock::now();
    for (bool found = false; !found;) {
      const auto turn = Clock::now();
      found = state->prepare(MaskTurns::kSecondsOfStep);
      times.longest_turn =
          std::max(times.longest_turn, 1e3 * std::chrono::duration<double>(Clock::now() - turn).count());
    }
    state->allowed(mask);
    const auto masked = Clock::now();
    // Any of those that are allowed, from a random place on.
    const size_t start = random() % mask.size();
    int64_t token = -1;
    for (size_t n = 0; n < mask.size() && token < 0; ++n)
      if (const uint32_t word = mask[(start + n) % mask.size()])
        token = static_cast<int64_t>((start + n) % mask.size() * 32) + std::countr_zero(word);
    if (token < 0) return;
    const auto chosen = Clock::now();
    state->accept(token);
    const auto end = Clock::now();
    times.tokens.push_back(std::chrono::duration<double, std::micro>((masked - begin) + (end - chosen)).count());
    if (token == vocabulary - 1) return;
  }
}

int run(const Options& options) {
  std::shared_ptr<const constraint::Vocabulary> vocabulary;
  int64_t size = options.vocabulary;
  if (!options.tokenizer.empty()) {
    const Tokenizer tokenizer = Tokenizer::from_pretrained(options.tokenizer);
    size = tokenizer.vocab_size();
    vocabulary = std::make_shared<constraint::Vocabulary>(tokenizer, std::vector<int64_t>{size - 1});
  } else {
    vocabulary = std::make_shared<constraint::Vocabulary>(random_tokens(size), std::vector<int64_t>{size - 1});
  }
  std::cout << fmt::format("{} tokens, microseconds a token\n{:<22} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>10}\n", size,
                           "", "prepare", "tokens", "mean", "median", "p99", "most", "turn");
  for (const Case& each : kCases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto first = constraint::make_constraint(vocabulary, each.kind, each.text);
    const double prepare = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    std::mt19937 random(2);
    Times times, warm_up;
    for (int64_t i = 0; i < options.warm_up; ++i) write(*first, size, random, warm_up);
    for (int64_t i = 0; i < options.texts; ++i) write(*first, size, random, times);
    times.longest_turn = std::max(times.longest_turn, warm_up.longest_turn);
    std::vector<double>& sorted = times.tokens;
    std::sort(sorted.begin(), sorted.end());
    double sum = 0;
    for (const double time : sorted) sum += time;
    const auto at = [&](double share) {
      return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
    };
    std::cout << fmt::format("{:<22} {:>6.0f} ms {:>8} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f} {:>7.1f} ms\n", each.name,
                             prepare, sorted.size(), sum / static_cast<double>(sorted.size()), at(0.5), at(0.99),
                             sorted.back(), times.longest_turn)
              << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace transom

int main(int count, char** words) {
  try {
    return transom::run(transom::parse(count, words));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
