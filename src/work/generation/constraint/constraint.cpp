// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/constraint.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/gbnf.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/json_schema.h"
#include "work/generation/constraint/structural_tags.h"
#include "work/generation/constraint/tokens/automaton.h"
#include "work/generation/constraint/tokens/token_bytes.h"
#include "work/generation/constraint/tokens/token_masks.h"

namespace transom::constraint {

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::vector<int64_t> given)
    : trie(std::make_shared<TokenTrie>(all_token_bytes(tokenizer))), ends(std::move(given)) {}

namespace {

class GrammarConstraint : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const Vocabulary> vocabulary)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        places_(start_of(grammar_->grammar(), stacks_)) {}

  bool prepare(double seconds) override {
    if (tokens_ || finished_) return true;
    const double begin = thread_seconds();
    WorkTime time(std::min({seconds, left_of_token_, left_of_text_}));
    const bool found = read(time) && find(time);
    const double taken = thread_seconds() - begin;
    left_of_token_ -= taken, left_of_text_ -= taken;
    if (!found && std::min(left_of_token_, left_of_text_) <= 0) fail_as_ambiguous();
    return found;
  }

  void allowed(std::span<uint32_t> mask) override {
    while (!prepare(kSecondsOfToken)) continue;
    std::fill(mask.begin(), mask.end(), 0);
    bool any = false;
    if (!finished_) {
      std::copy_n(tokens_->begin(), std::min(tokens_->size(), mask.size()), mask.begin());
      any = std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
    }
    for (const int64_t end : vocabulary_->ends) {
      const auto word = static_cast<size_t>(end) / 32;
      if (word >= mask.size()) continue;
      const uint32_t bit = 1u << (end % 32);
      // Where no token goes on, the end is all that is left.
      if (places_.ended || finished_ || !any) mask[word] |= bit;
      else mask[word] &= ~bit;
    }
  }

  // What the token leads to is looked at when it is asked for.
  void accept(int64_t token) override {
    if (std::find(vocabulary_->ends.begin(), vocabulary_->ends.end(), token) != vocabulary_->ends.end()) {
      finished_ = true;
      return;
    }
    if (token < 0 || static_cast<size_t>(token) >= vocabulary_->trie->vocabulary_size()) return;
    unread_ += vocabulary_->trie->bytes_of(token);
    tokens_.reset();
    search_.reset();
    left_of_token_ = kSecondsOfToken;
  }

  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<GrammarConstraint>(*this); }

 private:
  bool read(WorkTime& time) {
    while (bytes_read_ < unread_.size()) {
      places_ = behind(grammar_->grammar(), stacks_, places_, static_cast<uint8_t>(unread_[bytes_read_++]));
      if (time.is_over(WorkTime::cost_of_set(places_.items.size()))) return false;
    }
    unread_.clear();
    bytes_read_ = 0;
    return true;
  }

  bool find(WorkTime& time) {
    if (!search_) search_.emplace(places_);
    tokens_ = grammar_->go_on(*search_, stacks_, time);
    if (tokens_) search_.reset();
    return tokens_ != nullptr;
  }

  // Of the thread's time. All masks of a text together have a limit too.
  static constexpr double kSecondsOfToken = 2, kSecondsOfText = 10;
  double left_of_token_ = kSecondsOfToken, left_of_text_ = kSecondsOfText;
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Stacks stacks_;
  Places places_;       // before the bytes that are not read yet
  std::string unread_;  // of accepted tokens
  size_t bytes_read_ = 0;
  std::shared_ptr<const Mask> tokens_;  // that may follow; null: not found yet
  std::optional<MaskSearch> search_;
  bool finished_ = false;
};

Grammar choices_grammar(const std::string& text) {
  const Json list = parse_json(text, "choices");
  if (!list.is_array() || list.empty()) fail("choices: expected a list of strings");
  GrammarBuilder builder;
  const uint32_t root = builder.add_rule();
  std::vector<GrammarBuilder::Part> parts;
  for (const Json& each : list) {
    if (!each.is_string() || each.get_ref<const std::string&>().empty())
      fail("choices: expected strings that are not empty, found {}", quoted(dump_json(each)));
    parts.push_back(builder.literal(each.get<std::string>()));
  }
  builder.define(root, builder.either(parts));
  return builder.finish("choices");
}

Grammar regex_grammar(const std::string& text) {
  GrammarBuilder builder;
  const uint32_t root = builder.add_rule();
  builder.define(root, regex_part(builder, text));
  return builder.finish("pattern");
}

Grammar grammar_of(Kind kind, const std::string& text) {
  switch (kind) {
    case Kind::kJsonObject:
      return json_object_grammar();
    case Kind::kJsonSchema:
    case Kind::kWholeJsonSchema:
      return json_schema_grammar(parse_json(text, "schema"), kind == Kind::kWholeJsonSchema);
    case Kind::kRegex:
      return regex_grammar(text);
    case Kind::kChoices:
      return choices_grammar(text);
    case Kind::kGbnf:
      return parse_gbnf(text);
    case Kind::kStructuralTags:
      return structural_tags_grammar(parse_json(text, "structural_tag"));
  }
  fail(ErrorKind::kInternal, "a kind of constraint that is not known");
}

struct Kept {
  const TokenTrie* trie;
  Kind kind;
  std::string text;
  std::shared_ptr<const CompiledGrammar> grammar;
};

}  // namespace

std::shared_ptr<const TokenConstraint> make_constraint(const std::shared_ptr<const Vocabulary>& vocabulary, Kind kind,
                                                       const std::string& text) {
  constexpr size_t kMost = 64, kMostBytes = 256 << 10;
  constexpr double kPrepareSeconds = 0.1;  // what is found later costs little by itself
  if (text.size() > kMostBytes)
    fail("the grammar of the answer has {} bytes, at most {} are supported", text.size(), kMostBytes);
  static std::mutex mutex;
  static std::list<Kept> cache;  // the last one that was asked for first; it owns the trie, whose address is a key
  {
    const std::lock_guard lock(mutex);
    for (auto each = cache.begin(); each != cache.end(); ++each)
      if (each->trie == vocabulary->trie.get() && each->kind == kind && each->text == text) {
        cache.splice(cache.begin(), cache, each);
        return std::make_shared<GrammarConstraint>(each->grammar, vocabulary);
      }
  }
  const auto grammar = std::make_shared<CompiledGrammar>(grammar_of(kind, text), vocabulary->trie);
  grammar->prepare(kPrepareSeconds);
  const std::lock_guard lock(mutex);
  cache.push_front({vocabulary->trie.get(), kind, text, grammar});
  if (cache.size() > kMost) cache.pop_back();
  return std::make_shared<GrammarConstraint>(grammar, vocabulary);
}

}  // namespace transom::constraint
