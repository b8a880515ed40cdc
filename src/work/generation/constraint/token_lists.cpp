// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/token_lists.h"

#include <algorithm>
#include <utility>

namespace transom::constraint {
namespace {

constexpr int64_t kBits = 32;

void set_token(std::span<uint32_t> mask, int64_t token, bool allowed) {
  const auto word = static_cast<size_t>(token / kBits);
  if (token < 0 || word >= mask.size()) return;
  const uint32_t bit = uint32_t{1} << (token % kBits);
  mask[word] = allowed ? mask[word] | bit : mask[word] & ~bit;
}

class ByTokenLists : public TokenConstraint {
 public:
  ByTokenLists(std::shared_ptr<const TokenLists> lists, std::shared_ptr<const std::vector<int64_t>> ends,
               std::unique_ptr<TokenConstraint> rest)
      : lists_(std::move(lists)), ends_(std::move(ends)), rest_(std::move(rest)) {
    for (const auto& tokens : lists_->forbidden) kept_ = std::max(kept_, tokens.size() - 1);
  }

  bool prepare(double seconds) override { return !rest_ || rest_->prepare(seconds); }

  void allowed(std::span<uint32_t> mask) override {
    if (rest_) rest_->allowed(mask);
    else std::fill(mask.begin(), mask.end(), UINT32_MAX);
    if (!lists_->allowed.empty()) {
      std::vector<uint32_t> only(mask.size(), 0);
      for (const int64_t token : lists_->allowed) set_token(only, token, true);
      for (size_t i = 0; i < mask.size(); ++i) mask[i] &= only[i];
    }
    for (const auto& tokens : lists_->forbidden) {
      const auto before = static_cast<ptrdiff_t>(tokens.size() - 1);
      if (std::ssize(written_) >= before && std::equal(tokens.begin(), tokens.end() - 1, written_.end() - before))
        set_token(mask, tokens.back(), false);
    }
    if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; }))
      for (const int64_t end : *ends_) set_token(mask, end, true);
  }

  void accept(int64_t token) override {
    if (rest_) rest_->accept(token);
    if (kept_ == 0) return;
    if (written_.size() == kept_) written_.erase(written_.begin());
    written_.push_back(token);
  }

  std::unique_ptr<TokenConstraint> clone() const override {
    auto copy = std::make_unique<ByTokenLists>(lists_, ends_, rest_ ? rest_->clone() : nullptr);
    copy->written_ = written_;
    return copy;
  }

 private:
  std::shared_ptr<const TokenLists> lists_;
  std::shared_ptr<const std::vector<int64_t>> ends_;
  std::unique_ptr<TokenConstraint> rest_;
  size_t kept_ = 0;
  std::vector<int64_t> written_;  // the last tokens
};

}  // namespace

std::shared_ptr<const TokenConstraint> by_token_lists(std::shared_ptr<const TokenLists> lists,
                                                      std::vector<int64_t> ends,
                                                      const std::shared_ptr<const TokenConstraint>& rest) {
  return std::make_shared<ByTokenLists>(std::move(lists), std::make_shared<const std::vector<int64_t>>(std::move(ends)),
                                        rest ? rest->clone() : nullptr);
}

}  // namespace transom::constraint
