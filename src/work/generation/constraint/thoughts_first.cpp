// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/thoughts_first.h"

#include <algorithm>
#include <map>

namespace transom::constraint {
namespace {

// What all copies share.
struct ThoughtPlan {
  ThoughtRules rules;
  std::vector<int64_t> open, forced_close, answer_behind;  // as tokens
  std::map<int64_t, std::string> special;                  // the names of special tokens that marks have
  std::shared_ptr<const Vocabulary> vocabulary;

  std::string text_of(int64_t token) const {
    if (const auto known = special.find(token); known != special.end()) return known->second;
    const TokenTrie& trie = *vocabulary->trie;
    return token >= 0 && static_cast<size_t>(token) < trie.vocabulary_size() ? trie.bytes_of(token) : std::string();
  }
};

class ThoughtsFirst : public TokenConstraint {
 public:
  ThoughtsFirst(std::shared_ptr<const ThoughtPlan> plan, std::unique_ptr<TokenConstraint> rest)
      : plan_(std::move(plan)), rest_(std::move(rest)) {
    if (plan_->rules.begun) begin_thoughts();
  }
  ThoughtsFirst(const ThoughtsFirst& other)
      : TokenConstraint(other),
        plan_(other.plan_),
        rest_(other.rest_ ? other.rest_->clone() : nullptr),
        state_(other.state_),
        seen_(other.seen_),
        count_(other.count_),
        forced_(other.forced_),
        next_(other.next_),
        opens_(other.opens_) {}
  ThoughtsFirst& operator=(const ThoughtsFirst&) = delete;

  void allowed(std::span<uint32_t> mask) override {
    if (state_ == State::kForced || state_ == State::kOpening) {
      std::fill(mask.begin(), mask.end(), 0);
      set(mask, forced_->at(next_), true);
      return;
    }
    const bool constrained = rest_ && state_ != State::kThoughts;
    if (constrained) rest_->allowed(mask);
    else std::fill(mask.begin(), mask.end(), ~uint32_t{0});
    if (state_ == State::kThoughts && rest_)  // the answer is still to come
      for (const int64_t end : plan_->vocabulary->ends) set(mask, end, false);
    opens_ = false;
    if (state_ != State::kBegin || !constrained || !plan_->rules.may_begin || plan_->open.empty()) return;
    // A mark that the answer may begin with as well would not tell which of them it is.
    opens_ = !has(mask, plan_->open[0]);
    set(mask, plan_->open[0], true);
  }

  void accept(int64_t token) override {
    switch (state_) {
      case State::kBegin:
        return accept_at_begin(token);
      case State::kOpening:
        if (++next_ == forced_->size()) begin_thoughts();
        return;
      case State::kThoughts:
        return accept_thought(token);
      case State::kForced:
        if (++next_ == forced_->size()) state_ = State::kAnswer;
        return;
      case State::kAnswer:
        if (rest_) rest_->accept(token);
        return;
    }
  }

  bool prepare(double seconds) override {
    const bool asks = rest_ && (state_ == State::kBegin || state_ == State::kAnswer);
    return !asks || rest_->prepare(seconds);
  }

  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<ThoughtsFirst>(*this); }

 private:
  enum class State { kBegin, kOpening, kThoughts, kForced, kAnswer };

  static bool has(std::span<const uint32_t> mask, int64_t token) {
    const auto word = static_cast<size_t>(token) / 32;
    return word < mask.size() && (mask[word] >> (token % 32) & 1) != 0;
  }
  static void set(std::span<uint32_t> mask, int64_t token, bool value) {
    const auto word = static_cast<size_t>(token) / 32;
    if (word >= mask.size()) return;
    const uint32_t bit = 1u << (token % 32);
    mask[word] = value ? mask[word] | bit : mask[word] & ~bit;
  }

  void force(State state, const std::vector<int64_t>& tokens) {
    state_ = tokens.empty() ? State::kAnswer : state;
    forced_ = &tokens;
    next_ = 0;
  }

  void accept_at_begin(int64_t token) {
    if (rest_) {
      if (opens_ && token == plan_->open[0]) {
        force(State::kOpening, plan_->open);
        if (++next_ == forced_->size()) begin_thoughts();
      } else {
        state_ = State::kAnswer;
        rest_->accept(token);
      }
      return;
    }
    seen_ += plan_->text_of(token);
    seen_.erase(0, std::min(seen_.find_first_not_of(" \t\r\n"), seen_.size()));
    if (seen_.starts_with(plan_->rules.open)) begin_thoughts();
    else if (!plan_->rules.open.starts_with(seen_)) state_ = State::kAnswer;
  }

  void begin_thoughts() {
    state_ = State::kThoughts;
    seen_.clear();
    count_ = 0;
    if (plan_->rules.budget && *plan_->rules.budget <= 0) force(State::kForced, plan_->forced_close);
  }

  void accept_thought(int64_t token) {
    ++count_;
    seen_ += plan_->text_of(token);
    const std::string& close = plan_->rules.close;
    if (seen_.find(close) != seen_.npos) {
      if (rest_) force(State::kForced, plan_->answer_behind);
      else state_ = State::kAnswer;
      return;
    }
    if (seen_.size() >= close.size()) seen_.erase(0, seen_.size() - close.size() + 1);
    if (plan_->rules.budget && count_ >= *plan_->rules.budget) force(State::kForced, plan_->forced_close);
  }

  std::shared_ptr<const ThoughtPlan> plan_;
  std::unique_ptr<TokenConstraint> rest_;
  State state_ = State::kBegin;
  std::string seen_;  // of the mark that is looked for
  int64_t count_ = 0;
  const std::vector<int64_t>* forced_ = nullptr;  // of the plan
  size_t next_ = 0;
  bool opens_ = false;  // the mask allows the opening mark
};

}  // namespace

std::shared_ptr<const TokenConstraint> thoughts_first(const std::shared_ptr<const Vocabulary>& vocabulary,
                                                      const Tokenizer& tokenizer, const ThoughtRules& rules,
                                                      const std::shared_ptr<const TokenConstraint>& rest) {
  auto plan = std::make_shared<ThoughtPlan>();
  plan->rules = rules;
  plan->vocabulary = vocabulary;
  const auto tokens_of = [&](const std::string& text) {
    std::vector<int64_t> ids;
    if (!text.empty()) ids = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
    for (const int64_t id : ids)
      if (plan->text_of(id).empty()) plan->special[id] = tokenizer.id_to_token(id).value_or("");
    return ids;
  };
  plan->open = tokens_of(rules.open);
  plan->forced_close = tokens_of(rules.forced_close);
  plan->answer_behind = tokens_of(rules.answer_behind);
  tokens_of(rules.close);  // for the names of its special tokens
  return std::make_shared<ThoughtsFirst>(std::move(plan), rest ? rest->clone() : nullptr);
}

}  // namespace transom::constraint
