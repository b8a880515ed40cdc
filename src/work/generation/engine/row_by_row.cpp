// SPDX-License-Identifier: Apache-2.0
// Sequences one after the other, each with a cache of its own: encoder-decoders, models whose attention adds a bias by
// distance (T5, BLOOM), and those that keep no keys.
#include <map>

#include "base/error.h"
#include "work/generation/engine/runner.h"
#include "work/generation/search/decoding.h"

namespace transom {
namespace {

class RowByRow : public Runner {
 public:
  explicit RowByRow(const GenerativeModel& model) : model_(model) {}

  bool step(std::span<const std::unique_ptr<Sequence>> sequences, EngineStatistics& statistics) override {
    bool computed = false;
    for (const std::unique_ptr<Sequence>& sequence : sequences) {
      BeamGroup* group = sequence->group();
      if (sequence->finished() || (group ? sequence->index() != 0 : sequence->waits())) continue;
      computed = true;
      try {
        if (group) advance(*group, statistics);
        else advance(*sequence, statistics);
      } catch (const std::exception& error) {
        if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
          throw;
        sequence->finish(FinishReason::kError, error.what());
      }
    }
    return computed;
  }

  void forget(Sequence& sequence) override { decodings_.erase(&sequence); }

 private:
  void advance(Sequence& sequence, EngineStatistics& statistics) {
    const AdmittedRequest& taken = sequence.request();
    sequence.note_begun();
    Decoding& decoding = decoding_of(sequence);
    if (taken.request.prompt_logprobs) read_prompt(sequence, decoding);
    std::vector<float> scores = decoding.next({sequence.tokens()});
    if (sequence.seen < taken.prompt_length()) statistics.prompt_tokens += taken.prompt_length();
    sequence.seen = sequence.length();
    statistics.generated_tokens += !taken.only_reads();
    sequence.choose({scores});
  }

  // Tokens of the prompt come one by one where what follows each of them is asked for.
  static void read_prompt(Sequence& sequence, Decoding& decoding) {
    const int64_t end = std::min(sequence.request().prompt_length(), sequence.length());
    for (int64_t n = sequence.seen + 1; n < end; ++n) {
      std::vector<float> scores = decoding.next({{sequence.tokens().begin(), sequence.tokens().begin() + n}});
      sequence.read_prompt(n - 1, {scores});
      sequence.seen = n;
    }
  }

  // All beams of a group are rows of one decoding.
  void advance(BeamGroup& group, EngineStatistics& statistics) {
    if (group.has_ended()) return;
    const std::vector<Sequence*>& beams = group.sequences();
    Sequence& first = *beams[0];
    first.note_begun();
    Decoding& decoding = decoding_of(first);
    std::vector<Sequence*> rows = beams;
    const bool begins = first.seen < first.request().prompt_length();
    if (begins) rows = {&first}, statistics.prompt_tokens += first.length();
    if (begins && first.request().request.prompt_logprobs) read_prompt(first, decoding);
    std::vector<TokenIds> texts;
    for (const Sequence* row : rows) texts.push_back(row->tokens());
    std::vector<float> scores = decoding.next(texts);
    const auto V = static_cast<size_t>(decoding.vocabulary());
    for (size_t i = 0; i < rows.size(); ++i) rows[i]->choose({std::span(scores).subspan(i * V, V)});
    statistics.generated_tokens += static_cast<int64_t>(rows.size());
    const std::vector<size_t> sources = group.advance();
    if (group.has_ended()) return;
    if (begins) decoding.repeat(static_cast<int64_t>(beams.size()));
    decoding.reorder({sources.begin(), sources.end()});
    for (Sequence* beam : beams) {
      beam->seen = beam->length();
      beam->take_text();
    }
  }

  Decoding& decoding_of(const Sequence& sequence) {
    std::unique_ptr<Decoding>& decoding = decodings_[&sequence];
    const AdmittedRequest& taken = sequence.request();
    if (decoding) return *decoding;
    const ModelInputs& prompt = taken.request.prompt;
    DecodingPrompts prompts{.mask = {TokenIds(prompt.tokens.size(), 1)}};
    if (model_.has_encoder()) prompts.encoder_inputs = prompt.attached.at(0).tensors;
    else if (!prompt.attached.empty()) prompts.attached = {prompt.attached};
    decoding = std::make_unique<Decoding>(model_, std::move(prompts), taken.length, taken.request.config.use_cache,
                                          Computing{.adapters = taken.adapter.set.get()});
    return *decoding;
  }

  const GenerativeModel& model_;
  std::map<const Sequence*, std::unique_ptr<Decoding>> decodings_;
};

}  // namespace

std::unique_ptr<Runner> make_row_by_row(const GenerativeModel& model) { return std::make_unique<RowByRow>(model); }

}  // namespace transom
