// SPDX-License-Identifier: Apache-2.0
#include "serve/encoders/run_encoders.h"

namespace transom::serve {
namespace {

const std::vector<double> kFine = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30};

// What both kinds of queue do with a call.
template <typename Queue, typename Result>
void submit(const std::shared_ptr<Call>& call, ServedModel& model, Queue& queue,
            std::vector<typename Queue::Input> inputs, std::function<void(std::vector<Result>)> then) {
  call->model = model.name;
  const auto start = Clock::now();
  call->services()
      .metrics
      .counter("te_request_count", "Requests to encoders.", {{"model_name", model.name}, {"method", model.task}})
      .add();
  queue.submit(
      std::move(inputs),
      [call, then = std::move(then), start, name = model.name](std::vector<Result> results, std::exception_ptr error) {
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        call->services()
            .metrics
            .histogram("te_request_inference_duration", "Seconds from the queue to the result.", kFine,
                       {{"model_name", name}})
            .observe(seconds);
        auto kept = std::make_shared<std::vector<Result>>(std::move(results));
        call->post([call, then, kept, error] {
          if (error) std::rethrow_exception(error);
          then(std::move(*kept));
        });
      },
      call->cancelled());
}

}  // namespace

void compute_vectors(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<Encoding> encodings,
                     std::optional<bool> normalize, std::function<void(Vectors)> then) {
  std::vector<EmbeddingQueue::Input> inputs;
  for (Encoding& encoding : encodings) {
    const auto length = static_cast<int64_t>(encoding.size());
    call->prompt_tokens += length;
    inputs.push_back({std::move(encoding), length, !normalize ? "" : *normalize ? "normalize" : "raw"});
  }
  submit<EmbeddingQueue, std::vector<float>>(call, model, *model.embedder->queue, std::move(inputs), std::move(then));
}

void compute_task(const std::shared_ptr<Call>& call, ServedModel& model, const std::string& task,
                  const std::vector<Json>& given, const Json& parameters, std::function<void(std::vector<Json>)> then) {
  const std::string options = TaskRunner::options_of(task, parameters);
  std::vector<TaskQueue::Input> inputs;
  int64_t alone = -1;
  for (const Json& input : given) {
    // Classifiers take a text or a pair; what other tasks read is computed one by one.
    int64_t length = alone--;
    if (task == "text-classification" && model.tokenizer) {
      const std::string text = text_input(input);
      std::optional<std::string> pair;
      if (input.is_object() && input.contains("text_pair")) pair = text_input(input, "text_pair");
      length =
          static_cast<int64_t>(model.tokenizer
                                   ->encode(text, pair ? std::optional<std::string_view>(*pair) : std::nullopt,
                                            {.truncation = Truncation::kLongestFirst, .max_length = model.max_length})
                                   .size());
      call->prompt_tokens += length;
    }
    inputs.push_back({input, length, options});
  }
  submit<TaskQueue, Json>(call, model, *model.runner->queue, std::move(inputs), std::move(then));
}

}  // namespace transom::serve
