// SPDX-License-Identifier: Apache-2.0
// The requests of one call in the engine: their life, their metrics.
#include "apps/serve/api/stream_form.h"
#include "apps/serve/generation/generation_metrics.h"
#include "apps/serve/generation/generation_request.h"

namespace transom::serve {
namespace {

// All requests of one call. Its listeners are called by the thread of the worker that hands out, and by others when the
// engine fails or no more can be added.
class RunningCall : public std::enable_shared_from_this<RunningCall> {
 public:
  RunningCall(std::shared_ptr<Call> call, ServedModel& model, std::vector<EngineRequest> requests,
              std::shared_ptr<GenerationSink> sink, FieldNames names)
      : names_(std::move(names)),
        call_(std::move(call)),
        model_(model),
        requests_(std::move(requests)),
        sink_(std::move(sink)),
        metrics_(call_->services().metrics, model.name) {
    samples_ = requests_.empty() ? 1 : std::max<int64_t>(1, requests_[0].config.num_return_sequences);
    left_ = static_cast<int64_t>(requests_.size()) * samples_;
    last_.resize(static_cast<size_t>(left_));
    lengths_.resize(requests_.size(), -1);
    written_.resize(static_cast<size_t>(left_));
    firsts_.resize(static_cast<size_t>(left_));
    submitted_ = begun_ = Clock::now();
  }

  // A client may leave, or the first tokens may come, while the later requests are still added.
  void start() {
    call_->on_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->cancel();
    });
    for (const EngineRequest& each : requests_) call_->prompt_tokens += static_cast<int64_t>(each.prompt.tokens.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      lengths_[i] = static_cast<int64_t>(requests_[i].prompt.tokens.size());
      metrics_.prompt_tokens.add(static_cast<double>(requests_[i].prompt.tokens.size()));
      metrics_.request_prompt_tokens.observe(static_cast<double>(requests_[i].prompt.tokens.size()));
      metrics_.request_max_tokens.observe(static_cast<double>(requests_[i].config.max_new_tokens.value_or(0)));
      metrics_.request_n.observe(static_cast<double>(samples_));
      requests_[i].tenant = call_->tenant;
      try {
        const uint64_t number = model_.generator->submit(std::move(requests_[i]),
                                                         std::make_shared<Listener>(shared_from_this(), i), i == 0);
        const std::lock_guard lock(mutex_);
        numbers_.push_back(number);
        if (ended_ || cancelled_) model_.generator->cancel(number);
      } catch (const ApiError&) {
        end(std::current_exception());
        throw;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kInput && error.kind() != ErrorKind::kUnsupported) {
          end(std::current_exception());
          throw;
        }
        const ApiError named = refused_by_engine(error, names_);
        end(std::make_exception_ptr(named));
        throw named;
      } catch (...) {
        end(std::current_exception());
        throw;
      }
    }
  }

 private:
  class Listener : public GenerationListener {
   public:
    Listener(std::shared_ptr<RunningCall> running, size_t prompt) : running_(std::move(running)), prompt_(prompt) {}
    void on_event(EngineEvent event) override { running_->take(prompt_, event); }
    void on_failure(const std::exception_ptr& error) override { running_->end(error); }
    void on_tick(Clock::time_point now) override { running_->tick(now); }

   private:
    std::shared_ptr<RunningCall> running_;
    size_t prompt_;
  };

  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const uint64_t number : numbers_) model_.generator->cancel(number);
  }

  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  void take(size_t prompt, EngineEvent& event) {
    const std::lock_guard delivery(delivery_);
    if (has_ended()) return;
    const auto choice = static_cast<size_t>(static_cast<int64_t>(prompt) * samples_ + event.index);
    if (choice >= written_.size()) return;
    const Clock::time_point now = Clock::now();
    note_prompt(prompt, event);
    note_queue(event);
    count_tokens(choice, static_cast<int64_t>(event.tokens.size()), now);
    if (event.finish == FinishReason::kError) {
      end_now(std::make_exception_ptr(ApiError(500, event.error)));
      return;
    }
    const std::optional<FinishReason> finish = event.finish;
    call_->guard([&] { sink_->on_event(static_cast<int64_t>(choice), event); });
    last_write_ = now;
    if (!finish) return;
    call_->finish_reason = *finish == FinishReason::kStop     ? "stop"
                           : *finish == FinishReason::kLength ? "length"
                                                              : "abort";
    metrics_.finished(call_->finish_reason).add();
    metrics_.request_generation_tokens.observe(static_cast<double>(written_[choice]));
    if (written_[choice] > 1)
      metrics_.request_time_per_output_token.observe(std::chrono::duration<double>(now - firsts_[choice]).count() /
                                                     static_cast<double>(written_[choice] - 1));
    if (--left_ > 0) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    observe_end(now);
    call_->guard([&] { sink_->on_done(); });
    sink_.reset();
  }

  // With the first news of a prompt. Its further samples find all of it, which saved nobody anything.
  void note_prompt(size_t prompt, const EngineEvent& event) {
    if (event.index > 0 || !event.queue_seconds) return;
    call_->cached_tokens += event.cached_tokens;
    const double computed = static_cast<double>(lengths_[prompt] - event.cached_tokens);
    metrics_.prompt_tokens_cached.add(static_cast<double>(event.cached_tokens));
    metrics_.found_prompt_tokens.add(static_cast<double>(event.cached_tokens));
    metrics_.computed_prompt_tokens.add(computed);
    metrics_.request_computed_tokens.observe(computed);
  }

  // The first of a call's texts that is read says how long the call has waited.
  void note_queue(const EngineEvent& event) {
    if (!event.queue_seconds || call_->queue_ms >= 0) return;
    call_->queue_ms = *event.queue_seconds * 1e3;
    metrics_.request_queue_time.observe(*event.queue_seconds);
    begun_ =
        submitted_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*event.queue_seconds));
  }

  void count_tokens(size_t choice, int64_t count, Clock::time_point now) {
    if (count == 0) return;
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    if (first_ == Clock::time_point()) {
      first_ = now;
      call_->first_token_ms = call_->milliseconds();
      metrics_.time_to_first_token.observe(seconds(now - call_->request().arrival));
    }
    if (last_[choice] != Clock::time_point())
      metrics_.inter_token_latency.observe(seconds(now - last_[choice]) / static_cast<double>(count),
                                           static_cast<uint64_t>(count));
    if (written_[choice] == 0) firsts_[choice] = now;
    last_[choice] = now;
    written_[choice] += count;
    call_->completion_tokens += count;
    metrics_.generation_tokens.add(static_cast<double>(count));
  }

  void observe_end(Clock::time_point now) {
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    metrics_.e2e_request_latency.observe(seconds(now - call_->request().arrival));
    metrics_.request_inference_time.observe(seconds(now - begun_));
    for (auto first = written_.begin(); first != written_.end(); first += samples_)
      metrics_.request_max_generation_tokens.observe(static_cast<double>(*std::max_element(first, first + samples_)));
    if (first_ != Clock::time_point()) {
      metrics_.request_prefill_time.observe(std::max(0.0, seconds(first_ - begun_)));
      metrics_.request_decode_time.observe(seconds(now - first_));
    }
  }

  void end(const std::exception_ptr& error) {
    const std::lock_guard delivery(delivery_);
    end_now(error);
  }

  // With `delivery_` held.
  void end_now(const std::exception_ptr& error) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      for (const uint64_t number : numbers_) model_.generator->cancel(number);
    }
    metrics_.finished("error").add();
    call_->fail(error);
    sink_.reset();
  }

  void tick(Clock::time_point now) {
    const std::lock_guard delivery(delivery_);
    if (has_ended()) return;
    const ServeOptions& options = call_->services().options;
    if (now - call_->request().arrival > options.request_timeout)
      return end_now(std::make_exception_ptr(ApiError(
          408, fmt::format("the request took longer than {} s",
                           std::chrono::duration_cast<std::chrono::seconds>(options.request_timeout).count()))));
    if (now - call_->request().arrival > std::chrono::seconds(1)) call_->guard([&] { sink_->on_wait(); });
    if (call_->streams() && now - last_write_ >= options.ping_interval) {
      if (const std::string ping = stream_ping(call_->form()); !ping.empty()) call_->write(ping);
      last_write_ = now;
    }
  }

  const FieldNames names_;
  std::shared_ptr<Call> call_;
  ServedModel& model_;
  std::vector<EngineRequest> requests_;
  std::shared_ptr<GenerationSink> sink_;
  GenerationMetrics metrics_;
  int64_t samples_ = 1, left_ = 0;
  std::mutex delivery_;  // call_, sink_ and what is counted belong to who holds it; taken before mutex_
  std::mutex mutex_;     // of the three below
  std::vector<uint64_t> numbers_;
  bool ended_ = false, cancelled_ = false;
  Clock::time_point submitted_, begun_, first_{}, last_write_ = Clock::now();
  std::vector<Clock::time_point> firsts_, last_;  // when each text got its first tokens, and its last ones
  std::vector<int64_t> written_;
  std::vector<int64_t> lengths_;  // of the prompts
};

}  // namespace

void start_generation(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<EngineRequest> requests,
                      std::shared_ptr<GenerationSink> sink, const FieldNames& names) {
  call->model = model.name;
  std::make_shared<RunningCall>(call, model, std::move(requests), std::move(sink), names)->start();
}

}  // namespace transom::serve
