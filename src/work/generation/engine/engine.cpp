// SPDX-License-Identifier: Apache-2.0
// The queues of the engine: what has arrived, what runs, what has happened. How tokens are computed is the runner's.
#include "transom/engine.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/adapter_set.h"
#include "models/loading/maximum_tokens.h"
#include "models/shared/decoder.h"
#include "runtime/tensor/evaluator.h"
#include "work/generation/embedded_inputs.h"
#include "work/generation/engine/mask_turns.h"
#include "work/generation/engine/runner.h"
#include "work/generation/search/lengths.h"

namespace transom {
namespace {

const GenerativeModel& writer_of(const Model& model) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer || !writer->can_generate())
    fail(ErrorKind::kUnsupported,
         "{} does not generate text: expected a model with a head that predicts the next token", model.architecture());
  return *writer;
}

int64_t vocabulary_of(const Config& config) {
  return config.get_int("decoder_vocab_size", config.get_int("vocab_size", std::numeric_limits<int64_t>::max()));
}

// Models without a limit of their own.
constexpr int64_t kUnlimited = int64_t{1} << 20;

int64_t greatest_model_length(const GenerativeModel& model, const EngineOptions& options) {
  int64_t limit = kUnlimited;
  if (const std::optional<int64_t> known = maximum_tokens(model.config())) limit = *known;
  if (model.max_positions() > 0) limit = std::min(limit, model.max_positions());
  if (const Adaptation* adaptation = model.adaptation(); adaptation && adaptation->virtual_tokens())
    limit = std::max<int64_t>(1, limit - adaptation->virtual_tokens()->count());
  return options.max_model_length > 0 ? std::min(limit, options.max_model_length) : limit;
}

void check_counts(const char* name, int64_t value, int64_t least) {
  if (value < least) fail("{}: expected at least {}, found {}", name, least, value);
}

void check_drafts(const EngineOptions& options) {
  const DraftOptions& drafts = options.drafts;
  check_counts("drafts: tokens", drafts.tokens, 1);
  check_counts("drafts: lookup_least", drafts.lookup_least, 1);
  check_counts("drafts: lookup_most", drafts.lookup_most, drafts.lookup_least);
  check_counts("drafts: suffix_depth", drafts.suffix_depth, 2);
  check_counts("drafts: suffix_bytes", drafts.suffix_bytes, 0);
  if (!(drafts.suffix_factor > 0)) fail("drafts: suffix_factor: expected above 0, found {}", drafts.suffix_factor);
  if (!(drafts.suffix_least >= 0 && drafts.suffix_least <= 1))
    fail("drafts: suffix_least: expected 0 to 1, found {}", drafts.suffix_least);
  if (drafts.method != DraftOptions::Method::kNone && options.assistant)
    fail("drafts: either an assistant model or another method, found both");
  if ((drafts.method == DraftOptions::Method::kHead) != (drafts.head != nullptr))
    fail("drafts: the method kHead and a head belong together");
  if (drafts.head && EvaluatorScope::current())
    fail(ErrorKind::kUnsupported, "drafts: a head is not offered over several processes; leave it out");
}

std::unique_ptr<Runner> runner_for(const GenerativeModel& model, const EngineOptions& options, int64_t length) {
  check_counts("max_sequences", options.max_sequences, 1);
  check_counts("max_waiting", options.max_waiting, 1);
  check_counts("max_batched_tokens", options.max_batched_tokens, 1);
  check_counts("block_size", options.block_size, 1);
  if (!(options.step_seconds >= 0)) fail("step_seconds: expected at least 0, found {}", options.step_seconds);
  check_counts("num_assistant_tokens", options.num_assistant_tokens, 1);
  check_drafts(options);
  check_counts("prefix_cache_disk_bytes", options.prefix_cache_disk_bytes, 1);
  std::unique_ptr<Runner> runner = make_paged(model, options, length);
  if (!runner && options.assistant)
    fail(ErrorKind::kUnsupported, "assistant: {} is computed row by row, where drafts are not verified; leave it out",
         model.architecture());
  if (!runner && options.drafts.method != DraftOptions::Method::kNone)
    fail(ErrorKind::kUnsupported, "drafts: {} is computed row by row, where drafts are not verified; leave them out",
         model.architecture());
  if (!runner && !options.prefix_cache_directory.empty())
    fail(ErrorKind::kUnsupported,
         "prefix_cache_directory: {} is computed row by row, where beginnings are not shared; leave it out",
         model.architecture());
  if (!runner && EvaluatorScope::current())
    fail(ErrorKind::kUnsupported, "{} is computed row by row, which is not offered over several processes",
         model.architecture());
  return runner ? std::move(runner) : make_row_by_row(model);
}

}  // namespace

class Engine::Implementation {
 public:
  Implementation(const Model& model, EngineOptions options)
      : model_(writer_of(model)),
        options_(std::move(options)),
        max_model_length_(greatest_model_length(model_, options_)),
        vocabulary_(vocabulary_of(text_config_of(model.config()))),
        runner_(runner_for(model_, options_, max_model_length_)) {
    for (const auto& [name, directory] : options_.adapters) load_adapter(name, directory, false);
  }

  void load_adapter(const std::string& name, const std::string& directory, bool replaces) {
    adapters_.add(name, std::make_shared<const AdapterSet>(read_adapter_set(model_, directory)), replaces);
    if (!replaces) return;
    const std::lock_guard lock(mutex_);
    adapters_left_ = true;
  }

  void unload_adapter(const std::string& name) {
    adapters_.remove(name);
    const std::lock_guard lock(mutex_);
    adapters_left_ = true;
  }

  uint64_t add(EngineRequest request) {
    reserve_place();
    try {
      auto taken = std::make_shared<AdmittedRequest>();
      taken->length = check(request);
      taken->adapter = adapters_.find(request.adapter);
      taken->arrival = std::chrono::steady_clock::now();
      if (request.config.max_time)
        taken->deadline = taken->arrival + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(*request.config.max_time));
      taken->rules = std::make_shared<const SamplingRules>(request, taken->length, vocabulary_);
      for (const AttachedInput& input : request.prompt.attached) taken->contents.push_back(content_of(input));
      if (model_.position_axes() > 1) taken->positions = model_.positions_of(request.prompt);
      if (model_.source_rows() > 0)  // tokens before the first picture see them all
        for (const std::string& content : taken->contents) taken->seen_by_all += content;
      taken->request = std::move(request);
      TextDeltas::check(options_.tokenizer, taken->request.config.stop_strings);
      const std::lock_guard lock(mutex_);
      taken->id = ++last_id_;
      arrived_.push_back(taken);
      return taken->id;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      --queued_;
      throw;
    }
  }

  bool step() {
    EngineStatistics counted;
    std::vector<EngineEvent> events;
    const std::vector<uint64_t> cancelled = take_arrived();
    drop_left_adapters();
    const size_t waited = waiting_.size();
    drop(cancelled, events);
    start_waiting();
    take_turns();
    const auto left_queue = static_cast<int64_t>(waited - waiting_.size());
    const bool seeks_masks = masks_.take(running_);
    bool computed = false;
    if (!running_.empty()) {
      try {
        computed = runner_->step(running_, counted);
      } catch (...) {
        publish(std::move(events), counted, left_queue, false);
        throw;
      }
    }
    for (const std::unique_ptr<Sequence>& sequence : running_)
      if (std::optional<EngineEvent> event = sequence->take()) events.push_back(std::move(*event));
    std::erase_if(running_, [&](const std::unique_ptr<Sequence>& sequence) {
      if (!sequence->finished()) return false;
      runner_->forget(*sequence);
      return true;
    });
    const bool happened = computed || seeks_masks || !events.empty();
    publish(std::move(events), counted, left_queue, computed);
    return happened;
  }

  std::vector<EngineEvent> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

  void cancel(uint64_t request) {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(request);
  }

  EngineStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    EngineStatistics statistics = statistics_;
    statistics.waiting = queued_;
    return statistics;
  }

  int64_t max_model_length() const { return max_model_length_; }

 private:
  // The place is taken before the work of checking, so that no burst of requests does work that is then refused.
  void reserve_place() {
    const std::lock_guard lock(mutex_);
    if (queued_ >= options_.max_waiting)
      fail(ErrorKind::kOutOfMemory, "the queue is full: {} requests wait, as many as may; try again later", queued_);
    ++queued_;
  }

  // The greatest length of its sequences.
  int64_t check(const EngineRequest& request) const {
    const GenerationConfig& config = request.config;
    if (request.prompt.tokens.empty()) fail("prompt: expected at least one token");
    check_attached(request.prompt);
    check_tokens(request);
    check_counts("num_beams", config.num_beams, 1);
    check_counts("num_return_sequences", config.num_return_sequences, 1);
    for (const auto& [name, count] :
         {std::pair("num_return_sequences", config.num_return_sequences), std::pair("num_beams", config.num_beams)})
      if (count > options_.max_sequences)
        fail("{} = {}: at most {} sequences run at once", name, count, options_.max_sequences);
    if (config.num_beams > 1) check_beams(request);
    for (const auto& [name, count] :
         {std::pair("logprobs", request.logprobs), std::pair("prompt_logprobs", request.prompt_logprobs)})
      if (count) check_counts(name, *count, 0);
    check_counts("stop_strings_after", request.stop_strings_after, 0);
    check_counts("prompt_lookup_num_tokens", request.prompt_lookup_num_tokens, 0);
    check_counts("max_matching_ngram_size", request.max_matching_ngram_size, 1);
    const auto prompt = static_cast<int64_t>(request.prompt.tokens.size());
    if (config.max_new_tokens == 0) return check_reading(request);
    if (prompt >= max_model_length_)
      fail("prompt: {} tokens; this model takes texts of at most {}, with what it writes", prompt, max_model_length_);
    const int64_t length = greatest_length(config, model_.config(), prompt);
    if (length > max_model_length_)
      fail("prompt: {} tokens and {} new ones; this model takes texts of at most {}; lower max_new_tokens", prompt,
           length - prompt, max_model_length_);
    return length;
  }

  // A picture that is read beside the tokens may stand at a token that has a vector and is never written.
  void check_tokens(const EngineRequest& request) const {
    const ModelInputs& prompt = request.prompt;
    std::set<int64_t> pictures;
    if (model_.source_rows() > 0)
      for (const AttachedInput& input : prompt.attached) pictures.insert(input.places[0].begin);
    const int64_t known = pictures.empty() ? vocabulary_ : body_of(model_).word_embeddings().weight()->value.dim(0);
    for (size_t place = 0; place < prompt.tokens.size(); ++place) {
      const int64_t token = prompt.tokens[place];
      if (token >= 0 && token < vocabulary_) continue;
      if (token < 0 || token >= known || !pictures.contains(static_cast<int64_t>(place)))
        fail("prompt: the token {} is not among the model's {}", token, vocabulary_);
      if (request.prompt_logprobs)
        fail(ErrorKind::kUnsupported, "prompt_logprobs: the token {} of a picture is never written: it has none",
             token);
    }
  }

  void check_attached(const ModelInputs& prompt) const {
    check_places(prompt.attached, static_cast<int64_t>(prompt.tokens.size()));
    if (model_.has_encoder()) return check_encoder_inputs(prompt);
    const NoGradient inference;
    for (const AttachedInput& input : prompt.attached) {
      if (input.places.empty())
        fail("prompt: this model has no encoder: an input beside its tokens needs places among them");
      ForwardContext context;
      if (model_.source_rows() > 0) model_.source_of(input, context);
      else model_.embed(input, context);  // is not computed: shapes alone are checked
    }
  }

  void check_encoder_inputs(const ModelInputs& prompt) const {
    if (prompt.attached.empty()) fail("prompt: this model reads inputs with its encoder, and none are given");
    if (prompt.attached.size() > 1 || !prompt.attached[0].places.empty())
      fail(ErrorKind::kUnsupported, "prompt: the encoder's inputs are all that stands beside this model's tokens");
    for (const auto& [name, tensor] : prompt.attached[0].tensors.items())
      if (tensor.rank() < 1 || tensor.dim(0) != 1)
        fail("prompt: {}: expected one row, found {}", name, to_string(tensor.shape()));
  }

  // A request that writes nothing may be as long as the model takes.
  int64_t check_reading(const EngineRequest& request) const {
    const auto prompt = static_cast<int64_t>(request.prompt.tokens.size());
    if (!request.prompt_logprobs || request.config.num_beams > 1)
      fail("max_new_tokens: 0 asks for the log probabilities of the prompt: expected prompt_logprobs, and no beams");
    if (prompt > max_model_length_)
      fail("prompt: {} tokens; this model takes texts of at most {}", prompt, max_model_length_);
    return prompt;
  }

  static void check_beams(const EngineRequest& request) {
    const GenerationConfig& config = request.config;
    if (config.num_return_sequences > config.num_beams)
      fail("num_return_sequences = {} is more than num_beams = {}", config.num_return_sequences, config.num_beams);
    for (const auto& [name, given] : {std::pair("constraint", request.constraint != nullptr),
                                      std::pair("prompt_lookup_num_tokens", request.prompt_lookup_num_tokens > 0)})
      if (given)
        fail(ErrorKind::kUnsupported, "{}: not with num_beams = {}; leave one of them out", name, config.num_beams);
  }

  // Programs of adapters that were unloaded go with the last request that has them.
  void drop_left_adapters() {
    {
      const std::lock_guard lock(mutex_);
      if (!adapters_left_) return;
    }
    std::set<size_t> used = adapters_.numbers();
    const size_t known = used.size();
    for (const auto& taken : waiting_) used.insert(taken->adapter.number);
    for (const std::unique_ptr<Sequence>& sequence : running_) used.insert(sequence->request().adapter.number);
    used.erase(0);
    runner_->keep_adapters(used);
    const std::lock_guard lock(mutex_);
    if (used.size() == known && arrived_.empty()) adapters_left_ = false;
  }

  // What has arrived joins the queue, in order of priority and arrival; gives back what is cancelled.
  std::vector<uint64_t> take_arrived() {
    std::vector<std::shared_ptr<const AdmittedRequest>> arrived;
    std::vector<uint64_t> cancelled;
    {
      const std::lock_guard lock(mutex_);
      arrived = std::exchange(arrived_, {});
      cancelled = std::exchange(cancelled_, {});
    }
    for (std::shared_ptr<const AdmittedRequest>& taken : arrived) {
      const auto behind = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
        return other->request.priority > taken->request.priority;
      });
      waiting_.insert(behind, std::move(taken));
    }
    return cancelled;
  }

  void drop(const std::vector<uint64_t>& cancelled, std::vector<EngineEvent>& events) {
    const auto is_cancelled = [&](uint64_t id) {
      return std::find(cancelled.begin(), cancelled.end(), id) != cancelled.end();
    };
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(waiting_, [&](const std::shared_ptr<const AdmittedRequest>& taken) {
      const bool late = taken->deadline && now >= *taken->deadline;
      if (!late && !is_cancelled(taken->id)) return false;
      for (int64_t i = 0; i < taken->request.config.num_return_sequences; ++i) {
        EngineEvent event;
        event.request = taken->id, event.index = i;
        event.finish = is_cancelled(taken->id) ? FinishReason::kCancelled : FinishReason::kLength;
        events.push_back(std::move(event));
      }
      return true;
    });
    for (const std::unique_ptr<Sequence>& sequence : running_)
      if (is_cancelled(sequence->request().id)) sequence->finish(FinishReason::kCancelled);
    std::erase_if(running_, [&](const std::unique_ptr<Sequence>& sequence) {
      if (!sequence->finished()) return false;
      if (std::optional<EngineEvent> event = sequence->take()) events.push_back(std::move(*event));
      runner_->forget(*sequence);
      return true;
    });
  }

  static const std::string& tenant_of(const AdmittedRequest& taken) { return taken.request.tenant; }

  // Of the requests of the least priority number the oldest of the tenant that has the fewest sequences running.
  std::deque<std::shared_ptr<const AdmittedRequest>>::iterator next_waiting() {
    std::map<std::string_view, int64_t> running;
    for (const std::unique_ptr<Sequence>& sequence : running_) ++running[tenant_of(sequence->request())];
    const auto of = [&](const auto& place) { return running[tenant_of(**place)]; };
    auto next = waiting_.begin();
    for (auto each = next; each != waiting_.end(); ++each) {
      if ((*each)->request.priority != waiting_.front()->request.priority) break;
      if (of(each) < of(next)) next = each;
    }
    return next;
  }

  // The oldest sequence of each tenant goes before the second ones, and so on: so a step reads prompts of all, and
  // where memory ends, who has most in work gives up first.
  void take_turns() {
    const auto is_of_first = [&](const std::unique_ptr<Sequence>& sequence) {
      return tenant_of(sequence->request()) == tenant_of(running_[0]->request());
    };
    if (std::all_of(running_.begin(), running_.end(), is_of_first)) return;
    std::map<std::string_view, int64_t> counts;
    std::vector<std::pair<int64_t, std::unique_ptr<Sequence>>> ranked;
    for (std::unique_ptr<Sequence>& sequence : running_) {
      const int64_t rank = counts[tenant_of(sequence->request())]++;
      ranked.emplace_back(rank, std::move(sequence));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < ranked.size(); ++i) running_[i] = std::move(ranked[i].second);
  }

  // Requests from the queue run as long as there is room for all their sequences.
  void start_waiting() {
    while (!waiting_.empty()) {
      const auto place = next_waiting();
      const std::shared_ptr<const AdmittedRequest> next = *place;
      const int64_t count = next->sequences();
      if (static_cast<int64_t>(running_.size()) + count > options_.max_sequences) break;
      const auto group =
          next->request.config.num_beams > 1 ? std::make_shared<BeamGroup>(next, options_.tokenizer) : nullptr;
      for (int64_t i = 0; i < count; ++i)
        running_.push_back(std::make_unique<Sequence>(next, i, options_.tokenizer, group));
      waiting_.erase(place);
    }
  }

  void publish(std::vector<EngineEvent> events, const EngineStatistics& counted, int64_t left_queue, bool computed) {
    const std::lock_guard lock(mutex_);
    std::move(events.begin(), events.end(), std::back_inserter(events_));
    statistics_.running = static_cast<int64_t>(running_.size());
    queued_ -= left_queue;
    runner_->measure(statistics_);
    statistics_.steps += computed;
    statistics_.preemptions += counted.preemptions;
    statistics_.prefix_queries += counted.prefix_queries;
    statistics_.prefix_hits += counted.prefix_hits;
    statistics_.prefix_disk_hits += counted.prefix_disk_hits;
    statistics_.drafts += counted.drafts;
    statistics_.draft_tokens += counted.draft_tokens;
    statistics_.accepted_tokens += counted.accepted_tokens;
    statistics_.accepted_at.resize(std::max(statistics_.accepted_at.size(), counted.accepted_at.size()));
    for (size_t i = 0; i < counted.accepted_at.size(); ++i) statistics_.accepted_at[i] += counted.accepted_at[i];
    statistics_.steps_without_drafts += counted.steps_without_drafts;
    statistics_.prompt_tokens += counted.prompt_tokens;
    statistics_.generated_tokens += counted.generated_tokens;
  }

  const GenerativeModel& model_;
  const EngineOptions options_;
  const int64_t max_model_length_, vocabulary_;
  EngineAdapters adapters_;

  // ---- of the thread that steps
  std::unique_ptr<Runner> runner_;
  std::deque<std::shared_ptr<const AdmittedRequest>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  MaskTurns masks_;

  // ---- of all threads
  mutable std::mutex mutex_;
  uint64_t last_id_ = 0;
  int64_t queued_ = 0;  // requests that are being checked, have arrived or wait
  std::vector<std::shared_ptr<const AdmittedRequest>> arrived_;
  std::vector<uint64_t> cancelled_;
  std::vector<EngineEvent> events_;
  EngineStatistics statistics_;
  bool adapters_left_ = false;  // since their programs were last looked through
};

Engine::Engine(const Model& model, EngineOptions options)
    : implementation_(std::make_unique<Implementation>(model, std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

uint64_t Engine::add(EngineRequest request) { return implementation_->add(std::move(request)); }
bool Engine::step() { return implementation_->step(); }
std::vector<EngineEvent> Engine::take() { return implementation_->take(); }
void Engine::cancel(uint64_t request) { implementation_->cancel(request); }
EngineStatistics Engine::statistics() const { return implementation_->statistics(); }
void Engine::load_adapter(const std::string& name, const std::string& directory, bool replaces) {
  implementation_->load_adapter(name, directory, replaces);
}
void Engine::unload_adapter(const std::string& name) { implementation_->unload_adapter(name); }
int64_t Engine::max_model_length() const { return implementation_->max_model_length(); }

}  // namespace transom
