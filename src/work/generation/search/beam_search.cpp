// SPDX-License-Identifier: Apache-2.0
// Beam search over a batch of prompts, which go on until none of them can improve.
#include <algorithm>

#include "work/generation/search/beams.h"

namespace transom {
namespace {

class BeamSearch {
 public:
  explicit BeamSearch(Search& search) : s_(search), beams_(static_cast<size_t>(s_.config.num_beams)) {
    for (const TokenIds& row : s_.rows) prompts_.emplace_back(s_.config, s_.stopping, s_.max_length, row);
  }

  GenerationOutput run() {
    std::vector<float> scores = s_.decoding.next(s_.rows);
    for (bool first = true;; first = false) {
      const auto V = static_cast<size_t>(s_.decoding.vocabulary());
      const size_t rows_each = first ? 1 : beams_;
      for (size_t p = 0; p < prompts_.size(); ++p)
        prompts_[p].advance(std::span(scores).subspan(p * rows_each * V, rows_each * V), V, s_.processors, p,
                            s_.random);
      if (is_over()) break;
      if (first) s_.decoding.repeat(static_cast<int64_t>(beams_));
      s_.decoding.reorder(sources());
      scores = s_.decoding.next(rows());
    }
    return output();
  }

 private:
  bool is_over() const {
    bool any_can_improve = false, all_done = true, all_ended = true;
    for (const Beams& prompt : prompts_) {
      any_can_improve = any_can_improve || prompt.can_improve();
      all_done = all_done && prompt.all_finished();
      all_ended = all_ended && prompt.all_ended();
    }
    return !any_can_improve || (all_done && s_.config.early_stopping == GenerationConfig::EarlyStopping::kTrue) ||
           all_ended;
  }

  std::vector<TokenIds> rows() const {
    std::vector<TokenIds> result;
    for (const Beams& prompt : prompts_)
      for (const Beam& beam : prompt.running()) result.push_back(beam.tokens);
    return result;
  }
  std::vector<int64_t> sources() const {
    std::vector<int64_t> result;
    for (size_t p = 0; p < prompts_.size(); ++p)
      for (const Beam& beam : prompts_[p].running()) result.push_back(static_cast<int64_t>(p * beams_ + beam.source));
    return result;
  }

  GenerationOutput output() const {
    GenerationOutput result;
    size_t longest = 0;
    for (const Beams& prompt : prompts_)
      for (size_t i = 0; i < static_cast<size_t>(s_.config.num_return_sequences); ++i) {
        result.sequences.push_back(prompt.finished()[i].tokens);
        result.scores.push_back(prompt.finished()[i].score);
        longest = std::max(longest, result.sequences.back().size());
      }
    for (TokenIds& row : result.sequences) row.resize(longest, s_.padding);
    return result;
  }

  Search& s_;
  size_t beams_;
  std::vector<Beams> prompts_;
};

}  // namespace

GenerationOutput beam_search(Search search) { return BeamSearch(search).run(); }

}  // namespace transom
