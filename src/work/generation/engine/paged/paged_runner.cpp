// SPDX-License-Identifier: Apache-2.0
// Iteration-level scheduling (Yu et al., "Orca", 2022) over a paged cache: each step computes one token of every
// running sequence and, with what is left of its tokens, chunks of prompts. When blocks run out, the youngest sequence
// gives its up and is computed again later. What the cache holds of each is kept by sequence_cache.h.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/loading/adapters/adaptation.h"
#include "runtime/tensor/evaluator.h"
#include "work/generation/embedded_inputs.h"
#include "work/generation/engine/drafts/step_drafts.h"
#include "work/generation/engine/mask_turns.h"
#include "work/generation/engine/paged/kept/model_prefix_files.h"
#include "work/generation/engine/paged/paged_pass.h"
#include "work/generation/engine/paged/sequence_cache.h"
#include "work/generation/engine/paged/source_pool.h"
#include "work/generation/engine/paged/step_budget.h"
#include "work/generation/engine/paged/step_part.h"
#include "work/generation/engine/runner.h"

namespace transom {
namespace {

// Rows of scores of a step for prompt_logprobs, so that those of a long prompt never lie in memory together.
constexpr int64_t kMostPromptScores = 64;
// Tokens that a refused draft may cost where a state has to go back.
constexpr int64_t kMostTokensAgain = 64;

class PagedRunner : public Runner {
 public:
  PagedRunner(const GenerativeModel& model, const EngineOptions& options, const std::vector<KeyValueShape>& shapes,
              BlockCounts blocks, int64_t most_tokens, std::unique_ptr<PrefixFiles> files)
      : program_(model, shapes, blocks.first, options.block_size, blocks.most, options.drafts.head),
        texts_(program_, blocks, options.block_size, options.prefix_caching, std::move(files)),
        has_states_(std::ranges::any_of(shapes, &KeyValueShape::is_state)),
        widths_{model.position_axes(), model.embedding_width(), model.source_rows()},
        pictures_(model.source_rows()),
        most_tokens_(most_tokens),
        budget_(options.step_seconds, most_tokens),
        drafts_(model, program_, options, most_tokens, blocks.most, has_states_ ? options.block_size / 2 : 0) {}

  bool step(std::span<const std::unique_ptr<Sequence>> sequences, EngineStatistics& statistics) override {
    std::vector<StepPart> parts;
    try {
      parts = schedule(sequences, statistics);
    } catch (const CacheLost&) {  // at most once: the cache does not try to grow again
      statistics.preemptions += texts_.lose_all(sequences);
      parts = schedule(sequences, statistics);
    }
    std::erase_if(parts, [&](const StepPart& part) { return !embed(part); });
    if (!parts.empty()) {
      const auto start = std::chrono::steady_clock::now();
      compute_all(parts, sequences, statistics);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      budget_.note(tokens_of(parts), seconds);
      if (std::ranges::all_of(parts, &StepPart::is_next)) drafts_.note_step(tokens_of(parts), seconds);
    }
    for (const StepPart& part : parts)
      if (BeamGroup* group = part.sequence->group(); group && !group->has_ended() && group->is_complete())
        advance(*group, sequences, statistics);
    return !parts.empty();
  }

  void keep_adapters(const std::set<size_t>& used) override { program_.keep_adapters(used); }

  void measure(EngineStatistics& statistics) const override {
    statistics.blocks = texts_.most();
    statistics.blocks_used = texts_.used();
    statistics.failure = program_.failure();
  }

  void forget(Sequence& sequence) override {
    texts_.forget(sequence);
    embedded_.erase(&sequence);
    looking_.erase(&sequence);
    drafts_.forget(sequence);
  }

 private:
  using Sequences = SequenceCache::Sequences;

  // ---- beams

  // Takes the blocks of a waiting sequence; it can compute them again. Without this, beams that do not fit in memory at
  // once would wait for each other.
  bool give_up_waiting(EngineStatistics& statistics, bool only_beams) {
    const auto last = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const Sequence* sequence) {
      return texts_.holds(*sequence) && (!only_beams || sequence->group());
    });
    if (last == waiting_.rend()) return false;
    texts_.give_up(**last);
    ++statistics.preemptions;
    return true;
  }

  // The beams take their next texts, and with them the blocks of the texts that they go on from.
  void advance(BeamGroup& group, Sequences sequences, EngineStatistics& statistics) {
    std::vector<size_t> sources;
    try {
      sources = group.advance();
    } catch (const std::exception& error) {
      group.end(FinishReason::kError, error.what());
    }
    if (group.has_ended()) return;
    for (Sequence* beam : group.sequences()) beam->take_text();
    try {
      try {
        texts_.fork(group.sequences(), sources);
      } catch (const CacheLost&) {
        statistics.preemptions += texts_.lose_all(sequences);
        texts_.fork(group.sequences(), sources);
      }
    } catch (const std::exception& error) {
      texts_.lose_all(sequences);
      if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
        throw;
      group.end(FinishReason::kError, error.what());
    }
  }

  // ---- which tokens

  std::vector<StepPart> schedule(Sequences sequences, EngineStatistics& statistics) {
    std::vector<StepPart> parts;
    int64_t left = most_tokens_;
    std::vector<Sequence*> order;
    waiting_.clear();
    for (const std::unique_ptr<Sequence>& sequence : sequences)
      if (!sequence->finished()) (sequence->waits() ? waiting_ : order).push_back(sequence.get());
    // Who needs one token more goes before prompts; if there are more of those than a step holds, they take turns.
    const size_t count = order.size();
    size_t youngest = count;  // from here on sequences have given up their blocks
    for (size_t i = 0; i < count && left > 0; ++i) {
      Sequence& sequence = *order[(i + turn_) % count];
      if (!texts_.holds(sequence) || sequence.length() - sequence.seen != 1) continue;
      add(parts, sequence, order, youngest, statistics);
      left = most_tokens_ - static_cast<int64_t>(parts.size());
    }
    const bool is_full = left == 0 && count > 0;
    add_drafts(parts, left, statistics);
    left = most_tokens_ - tokens_of(parts);
    if (is_full) turn_ = (turn_ + static_cast<size_t>(most_tokens_)) % count;
    else turn_ = 0;
    // Prompts are read by parts that the texts that are being written do not wait long for.
    const int64_t writing = tokens_of(parts), waiting = static_cast<int64_t>(count - parts.size());
    left = std::min(left, std::max<int64_t>(budget_.tokens(writing, waiting) - writing, 1));
    int64_t prompt_scores = kMostPromptScores;
    for (size_t i = 0; i < youngest && left > 0; ++i) {
      Sequence& sequence = *order[i];
      SequenceBlocks& text = texts_.of(sequence);
      if (text.blocks.empty() && !admit(sequence, text, sequences, i, statistics)) {
        if (waits_for_first(sequence, sequences)) continue;
        break;  // nobody overtakes
      }
      const int64_t missing = sequence.length() - sequence.seen;
      if (missing <= 1 && is_scheduled(parts, sequence)) continue;
      int64_t chunk = std::min(missing, left);
      const bool scores_prompt =
          sequence.request().request.prompt_logprobs.has_value() && sequence.seen < sequence.request().prompt_length();
      if (scores_prompt) chunk = std::min(chunk, prompt_scores);
      // Of a text that is computed again, what was written behind the prompt comes in a pass of its own: tokens that
      // are scored stand behind all others in a pass, and those of a text stand in their order, in which states are
      // made.
      const int64_t of_prompt = sequence.request().prompt_length() - 1 - sequence.seen;
      if (scores_prompt && missing > of_prompt + 1 && of_prompt > 0) chunk = std::min(chunk, of_prompt);
      if (chunk < 1) continue;
      parts.push_back({.sequence = &sequence, .text = &text, .count = chunk, .scores_prompt = scores_prompt});
      if (scores_prompt) prompt_scores -= chunk;
      left -= chunk;
    }
    return parts;
  }

  static bool is_scheduled(const std::vector<StepPart>& parts, const Sequence& sequence) {
    return std::any_of(parts.begin(), parts.end(), [&](const StepPart& part) { return part.sequence == &sequence; });
  }

  // The sequence's next token, for which the youngest ones give up their blocks if there are no others. False if it was
  // the youngest itself.
  bool add(std::vector<StepPart>& parts, Sequence& sequence, const std::vector<Sequence*>& order, size_t& youngest,
           EngineStatistics& statistics) {
    SequenceBlocks& text = texts_.of(sequence);
    while (!texts_.reserve(text, sequence.seen + 1)) {
      if (give_up_waiting(statistics, false)) continue;
      Sequence* last = nullptr;
      while (youngest > 0 && !last) {
        Sequence* candidate = order[--youngest];
        if (texts_.holds(*candidate)) last = candidate;
      }
      if (!last) {
        refuse(sequence);
        return false;
      }
      std::erase_if(parts, [&](const StepPart& part) { return part.sequence == last; });
      texts_.give_up(*last);
      ++statistics.preemptions;
      if (last == &sequence) return false;
    }
    parts.push_back({.sequence = &sequence, .text = &text, .count = 1});
    return true;
  }

  // Behind the parts tokens that may follow, as far as there is room for them.
  void add_drafts(std::vector<StepPart>& parts, int64_t left, EngineStatistics& statistics) {
    // Of a refused draft a state is made again from the beginning of its block on.
    if (has_states_ && texts_.block_size() > kMostTokensAgain) return;
    std::vector<Draft> drafts;
    std::vector<StepPart*> drafted;
    for (StepPart& part : parts) {
      if (drafts_.has_method_for(*part.sequence)) {
        const int64_t most = part.sequence->request().length - part.length - 1;
        drafts.push_back({part.sequence, std::clamp<int64_t>(most, 0, drafts_.most())});
        drafted.push_back(&part);
      } else {
        Draft own{part.sequence, 0, part.sequence->draft(left)};
        left -= add_draft(part, std::move(own));
      }
    }
    drafts_.make(drafts, static_cast<int64_t>(parts.size()), left, statistics);
    for (size_t i = 0; i < drafts.size(); ++i) add_draft(*drafted[i], std::move(drafts[i]));
  }

  // Gives back how many tokens were added.
  int64_t add_draft(StepPart& part, Draft draft) {
    const auto count = static_cast<int64_t>(draft.tokens.size());
    if (count == 0 || !texts_.reserve(*part.text, part.length + count)) return 0;
    part.count += count;
    part.draft = std::move(draft);
    return count;
  }

  // Other sequences of a request begin when the first one has read the prompt, which they then share.
  bool waits_for_first(const Sequence& sequence, Sequences sequences) const {
    if (sequence.index() == 0 || sequence.length() > sequence.request().prompt_length()) return false;
    for (const std::unique_ptr<Sequence>& other : sequences)
      if (&other->request() == &sequence.request() && other->index() == 0 && !other->finished())
        return other->seen < sequence.request().prompt_length();
    return false;
  }

  // Blocks for all tokens of a sequence that has none, if they leave one for each that runs.
  bool admit(Sequence& sequence, SequenceBlocks& text, Sequences sequences, size_t before,
             EngineStatistics& statistics) {
    if (waits_for_first(sequence, sequences)) return false;
    const bool alone = texts_.is_empty();
    texts_.share_prefix(sequence, sequences);
    const int64_t blocks =
        texts_.missing_blocks(text, sequence.length()) + (alone ? int64_t{0} : static_cast<int64_t>(before));
    while (!texts_.has_room(blocks))
      if (!give_up_waiting(statistics, true)) break;
    if (texts_.has_room(blocks) && texts_.reserve(text, sequence.length())) {
      texts_.note_begun(sequence, statistics);
      return true;
    }
    texts_.give_up(sequence);
    if (alone) refuse(sequence);
    return false;
  }

  // Only where memory ended before the limit of the cache.
  void refuse(Sequence& sequence) {
    texts_.give_up(sequence);
    sequence.finish(
        FinishReason::kError,
        fmt::format("the KV cache has {} blocks of {} tokens, and there is no memory for more: a text of {} "
                    "tokens does not fit; make room, or ask for less",
                    texts_.size(), texts_.block_size(), sequence.length()));
  }

  // ---- the pass

  // Rows for the inputs among the tokens of the part, unless they are there. False where that fails, which ends the
  // sequence.
  bool embed(const StepPart& part) {
    Sequence& sequence = *part.sequence;
    const AdmittedRequest& taken = sequence.request();
    if (widths_.source > 0) return hold_pictures(sequence);
    if (part.begin >= end_of_places(taken.request.prompt.attached)) return true;
    std::shared_ptr<const EmbeddedInputs>& embedded = embedded_[&sequence];
    const auto is_lacking = [&] { return !embedded || embedded->from() > part.begin; };
    for (const auto& [other, its] : embedded_)
      if (is_lacking() && its && &other->request() == &taken) embedded = its;
    try {
      if (is_lacking())
        embedded = std::make_shared<const EmbeddedInputs>(
            taken.request.prompt.attached, widths_.embedding, part.begin,
            [&](const AttachedInput& input) { return program_.embed(input, taken.adapter); });
    } catch (const std::exception& error) {
      if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
        throw;
      sequence.finish(FinishReason::kError, error.what());
      return false;
    }
    return true;
  }

  // The pictures beside the tokens of a text, which it holds until it ends. False where that fails, which ends the
  // sequence.
  bool hold_pictures(Sequence& sequence) {
    const AdmittedRequest& taken = sequence.request();
    if (taken.request.prompt.attached.empty() || looking_.contains(&sequence)) return true;
    try {
      Looking looking;
      std::vector<PlacedSource> placed;
      for (size_t i = 0; i < taken.contents.size(); ++i) {
        const AttachedInput& input = taken.request.prompt.attached[i];
        const std::string name = std::to_string(taken.adapter.number) + ' ' + taken.contents[i];
        looking.held.push_back(pictures_.hold(name, [&] { return program_.source_of(input, taken.adapter); }));
        placed.push_back({input.places[0].begin, looking.held.back()->blocks, looking.held.back()->seen});
      }
      looking.sources = SourcesOfText(std::move(placed));
      looking_.emplace(&sequence, std::move(looking));
    } catch (const std::exception& error) {
      if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
        throw;
      sequence.finish(FinishReason::kError, error.what());
      return false;
    }
    return true;
  }

  PassToken pass_token(const StepPart& part, int64_t place) const {
    PassToken token{.id = part.token(place), .place = place, .blocks = &part.text->blocks};
    if (const auto& positions = part.sequence->request().positions) token.positions = &*positions;
    if (part.sequence->request().request.prompt.attached.empty()) return token;
    if (const auto looking = looking_.find(part.sequence); looking != looking_.end())
      token.sources = looking->second.sources.at(place);
    if (const auto found = embedded_.find(part.sequence); found != embedded_.end() && found->second)
      token.row = found->second->at(place);
    return token;
  }

  // One pass for each adapter among the parts.
  void compute_all(const std::vector<StepPart>& parts, Sequences sequences, EngineStatistics& statistics) {
    std::map<size_t, std::vector<const StepPart*>> by_adapter;
    for (const StepPart& part : parts) by_adapter[part.sequence->request().adapter.number].push_back(&part);
    for (const auto& [number, some] : by_adapter) {
      try {
        compute(some, some.front()->sequence->request().adapter, statistics);
      } catch (const std::exception& error) {  // also std::bad_alloc: the pools were moved into the pass
        texts_.lose_all(sequences);
        if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
          throw;
        for (const StepPart* part : some)
          if (!part->sequence->finished()) part->sequence->finish(FinishReason::kError, error.what());
        return;  // the passes of other adapters need the keys that are lost
      }
    }
  }

  void compute(const std::vector<const StepPart*>& parts, const RequestAdapter& adapter, EngineStatistics& statistics) {
    std::vector<PassToken> silent, scored;
    for (const StepPart* part : parts)
      for (int64_t place = part->begin; place < part->end(); ++place)
        (part->is_scored(place) ? scored : silent).push_back(pass_token(*part, place));
    PagedPass pass = pass_of(silent, scored, texts_.block_size(), most_tokens_, widths_);
    if (pass.sources.blocks > 0) pass.source_pools = pictures_.pools();
    const bool logarithms = std::any_of(parts.begin(), parts.end(), [](const StepPart* part) {
      const EngineRequest& request = part->sequence->request().request;
      return request.logprobs || request.prompt_logprobs;
    });
    const std::span<float> scores = program_.run(pass, adapter, logarithms);
    const std::span<const float> logs = program_.log_probabilities();
    const size_t V = scores.size() / static_cast<size_t>(pass.scored);
    float* next = scores.data() + (static_cast<size_t>(pass.scored) - scored.size()) * V;
    for (const StepPart* part : parts) {
      statistics.prompt_tokens +=
          std::clamp<int64_t>(part->sequence->request().prompt_length() - part->begin, 0, part->count);
      next = read(*part, next, logs.empty() ? nullptr : logs.data() + (next - scores.data()), V, statistics);
      note_seen(*part);
    }
    drafts_.follow(parts, pass);
  }

  // Reads the rows of scores of a part, and of their logarithms (null: there are none), and gives back where the next
  // part's begin. Tokens of a draft are taken as long as they are what is chosen.
  float* read(const StepPart& part, float* next, const float* logs, size_t V, EngineStatistics& statistics) {
    std::vector<std::pair<int64_t, SequenceScores>> rows;
    for (int64_t place = part.begin; place < part.end(); ++place) {
      if (!part.is_scored(place)) continue;
      rows.push_back({place, {{next, V}, logs ? std::span(logs, V) : std::span<const float>()}});
      next += V, logs = logs ? logs + V : nullptr;
    }
    Sequence& sequence = *part.sequence;
    try {
      for (const auto& [place, scores] : rows) {
        if (place + 1 < part.length) {
          sequence.read_prompt(place, scores);
          continue;
        }
        if (place > sequence.length() - 1 || sequence.finished() || part.token(place) != sequence.tokens().back())
          break;
        // Behind the first token of a draft; where the mask takes longer the rest of the draft is given up.
        if (sequence.mask() == Sampler::Mask::kNotAsked) sequence.seek_mask(MaskTurns::kSecondsAtFirst);
        if (sequence.finished() || sequence.waits()) break;
        sequence.choose(scores);
        statistics.generated_tokens += !sequence.request().only_reads();
      }
    } catch (const std::exception& error) {
      sequence.finish(FinishReason::kError, error.what());
    }
    if (!part.draft.tokens.empty()) note_draft(part, statistics);
    return next;
  }

  void note_draft(const StepPart& part, EngineStatistics& statistics) {
    const auto drafted = static_cast<int64_t>(part.draft.tokens.size());
    const int64_t accepted = std::max<int64_t>(part.sequence->length() - part.length - 1, 0);
    ++statistics.drafts;
    statistics.draft_tokens += drafted;
    statistics.accepted_tokens += accepted;
    if (statistics.accepted_at.size() < part.draft.tokens.size())
      statistics.accepted_at.resize(part.draft.tokens.size());
    for (int64_t i = 0; i < accepted; ++i) ++statistics.accepted_at[static_cast<size_t>(i)];
    part.sequence->note_draft(accepted);
    if (drafts_.has_method_for(*part.sequence)) drafts_.note_result(part.draft, drafted, accepted);
  }

  // What the cache now holds of the sequence: of a draft, what was accepted.
  void note_seen(const StepPart& part) {
    Sequence& sequence = *part.sequence;
    const bool chose = part.end() >= part.length;
    sequence.seen = chose ? std::min(part.end(), std::max(sequence.length() - 1, part.length)) : part.end();
    // A state does not go back behind tokens that were refused; the one behind the last whole block is still there.
    if (has_states_ && sequence.seen < part.end())
      sequence.seen = sequence.seen / texts_.block_size() * texts_.block_size();
    texts_.note_seen(sequence);
  }

  PagedProgram program_;
  SequenceCache texts_;
  const bool has_states_;
  std::map<const Sequence*, std::shared_ptr<const EmbeddedInputs>> embedded_;  // those of a request have one
  const TokenWidths widths_;
  struct Looking {
    std::vector<std::shared_ptr<const SourcePool::Held>> held;
    SourcesOfText sources;
  };
  SourcePool pictures_;  // beside the tokens
  std::map<const Sequence*, Looking> looking_;
  const int64_t most_tokens_;
  StepBudget budget_;
  StepDrafts drafts_;
  std::vector<Sequence*> waiting_;  // that have no part in this step
  size_t turn_ = 0;                 // whose turn it is first, where not all go at once
};

}  // namespace

std::unique_ptr<Runner> make_paged(const GenerativeModel& model, const EngineOptions& options, int64_t length) {
  if (model.has_encoder() || model.cache_expires_at() < 0) return nullptr;
  // Virtual tokens are in no text, by which blocks are shared.
  if (model.adaptation() && model.adaptation()->virtual_tokens()) return nullptr;
  if (model.source_rows() > 0 && EvaluatorScope::current())
    fail(ErrorKind::kUnsupported, "{} reads pictures beside its tokens, which is not offered over several processes",
         model.architecture());
  if (model.cache_expires_at() > 0 && length >= model.cache_expires_at()) return nullptr;
  std::vector<KeyValueShape> shapes;
  try {
    shapes = key_value_shapes(model, options.cache_dtype);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kInput) throw;
    return nullptr;
  }
  if (const DraftHead* head = options.drafts.head) {
    const DType dtype = shapes.front().is_state() ? DType::kFloat32 : shapes.front().dtype;
    shapes.push_back(shape_of_head(model, *head, dtype));
  }
  EngineOptions sized = options;
  sized.block_size = tokens_of_block(options, shapes, length);
  const bool has_states = std::ranges::any_of(shapes, &KeyValueShape::is_state);
  if (has_states && sized.block_size > kMostTokensAgain && sized.drafts.method != DraftOptions::Method::kNone) {
    log(LogLevel::kWarning,
        fmt::format("no drafts: one that is refused would cost up to {} tokens, those of a block of "
                    "this model's states, and at most {} are worth it",
                    sized.block_size, kMostTokensAgain));
    if (sized.drafts.head) shapes.pop_back();
    sized.drafts = {};
  }
  const BlockCounts blocks = cache_blocks(sized, shapes, length);
  const int64_t limit = model.max_positions();
  const int64_t tokens = limit > 0 ? std::min(limit, options.max_batched_tokens) : options.max_batched_tokens;
  return std::make_unique<PagedRunner>(model, sized, shapes, blocks, tokens, prefix_files_of(model, sized, shapes));
}

}  // namespace transom
