// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/encoders/run_encoders.h"

#include "apps/serve/encoders/encoder_metrics.h"

namespace transom::serve {
namespace {

// What both kinds of queue do with a call.
template <typename Queue, typename Result>
void submit(const std::shared_ptr<Call>& call, ServedModel& model, Queue& queue,
            std::vector<typename Queue::Input> inputs, std::function<void(std::vector<Result>)> then) {
  call->model = model.name;
  constexpr bool gives_vectors = std::is_same_v<Queue, EmbeddingQueue>;
  const auto metrics = std::make_shared<EncoderMetrics>(
      call->services().metrics, model.name,
      gives_vectors ? EncoderMetrics::Kind::kEmbed : EncoderMetrics::Kind::kPredict, inputs.size(), call->whole_at);
  for (const auto& input : inputs) metrics->has_input(input.tokens);
  const auto done = [call, metrics, then = std::move(then)](std::vector<Result> results, std::exception_ptr error) {
    if (error) {
      const ApiError answer = api_error_of(error);  // which also logs it, once
      metrics->failed(answer.status());
      error = std::make_exception_ptr(answer);
    } else {
      metrics->computed();
    }
    auto kept = std::make_shared<std::vector<Result>>(std::move(results));
    call->post([call, then, kept, error] {
      if (error) std::rethrow_exception(error);
      then(std::move(*kept));
    });
  };
  try {
    queue.submit(std::move(inputs), done, call->cancelled(),
                 {.begun =
                      [call, metrics](double seconds) {
                        call->queue_ms = seconds * 1e3;
                        metrics->begun(seconds);
                      },
                  .batch = [metrics](int64_t rows, int64_t tokens) { metrics->batch(rows, tokens); }},
                 call->tenant);
  } catch (const ApiError& error) {
    metrics->failed(error.status());
    throw;
  }
}

std::vector<EmbeddingQueue::Input> inputs_of(Call& call, std::vector<Encoding> encodings, const std::string& options) {
  std::vector<EmbeddingQueue::Input> inputs;
  for (Encoding& encoding : encodings) {
    const auto length = static_cast<int64_t>(encoding.size());
    call.prompt_tokens += length;
    inputs.push_back({std::move(encoding), length, options});
  }
  return inputs;
}

}  // namespace

void compute_vectors(const std::shared_ptr<Call>& call, ServedModel& model, EncodedInputs inputs,
                     std::optional<bool> normalize, std::function<void(Vectors)> then) {
  const std::string options = Embedder::options_of(normalize, inputs.left_out);
  submit<EmbeddingQueue, std::vector<float>>(call, model, *model.embedder->queue,
                                             inputs_of(*call, std::move(inputs.encodings), options), std::move(then));
}

void compute_states(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<Encoding> encodings,
                    std::function<void(Vectors)> then) {
  submit<EmbeddingQueue, std::vector<float>>(
      call, model, *model.embedder->queue, inputs_of(*call, std::move(encodings), Embedder::kStates), std::move(then));
}

void compute_sparse(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<Encoding> encodings,
                    std::function<void(Vectors)> then) {
  submit<EmbeddingQueue, std::vector<float>>(call, model, *model.runner->sparse,
                                             inputs_of(*call, std::move(encodings), ""), std::move(then));
}

void compute_task(const std::shared_ptr<Call>& call, ServedModel& model, const std::string& task,
                  const std::vector<TaskInput>& given, Json parameters,
                  std::function<void(std::vector<TaskResult>)> then, const TooLong* too_long, const char* field) {
  const TooLong cut{.what = TooLong::kTruncate};
  const EncodeOptions encoding = encode_options_of(too_long ? *too_long : cut, model);
  if (too_long && encoding.truncation != Truncation::kNone) {
    parameters["truncation"] = true;
    parameters["max_length"] = *encoding.max_length;
    if (too_long->side == Side::kLeft) parameters["truncation_side"] = "left";
  }
  if (!too_long && task == "text-classification" && !parameters.contains("truncation")) parameters["truncation"] = true;
  const TaskRunner::Terms terms = model.runner->terms_of(task, parameters);
  std::vector<TaskQueue::Input> inputs;
  int64_t alone = -1;
  for (const TaskInput& input : given) {
    // Classifiers take a text or a pair; what other tasks read is computed one by one, unless the task says otherwise.
    int64_t length = terms.cost ? 0 : alone--;
    if (task == "text-classification" && model.tokenizer) {
      const TextInput& read = text_input(input);
      const auto pair = read.text_pair ? std::optional<std::string_view>(*read.text_pair) : std::nullopt;
      const size_t tokens = model.tokenizer->encode(read.text, pair, encoding).size();
      if (too_long) expect_fits(tokens, field, model, *too_long);
      length = static_cast<int64_t>(tokens);
      call->prompt_tokens += length;
    }
    inputs.push_back({{input, terms.options}, length, terms.shared, terms.cost});
  }
  submit<TaskQueue, TaskResult>(call, model, *model.runner->queue, std::move(inputs), std::move(then));
}

}  // namespace transom::serve
