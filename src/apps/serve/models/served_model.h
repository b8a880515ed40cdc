// SPDX-License-Identifier: Apache-2.0
// A model that clients can ask: what it is for, its tokenizer, and the queue or the engine that computes for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/api/options.h"
#include "apps/serve/models/model_facts.h"
#include "apps/serve/workers/batch_queue.h"
#include "base/json/json.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/task_of_model.h"
#include "work/pipelines/text/sentence_model.h"

namespace transom::serve {

class GenerationWorker;

using EmbeddingQueue = BatchQueue<Encoding, std::vector<float>>;
struct AskedTask {
  TaskInput input;
  std::shared_ptr<const TaskOptions> options;  // which inputs of one request share
};
using TaskQueue = BatchQueue<AskedTask, TaskResult>;

// Texts to vectors.
struct Embedder {
  // The options of an input in the queue: the states of its tokens; or what options_of() says of its vector.
  static constexpr const char* kStates = "states";
  // `normalize`: to length 1, or not; empty: as the model says. `left_out` as of SentenceModel::embed().
  static std::string options_of(std::optional<bool> normalize, int64_t left_out);
  std::shared_ptr<const SentenceModel> model;
  std::unique_ptr<EmbeddingQueue> queue;
};

// The pipelines of a model: that of its task, and others that its head serves.
struct TaskRunner {
  std::vector<std::pair<std::string, std::unique_ptr<Pipeline>>> pipelines;
  std::mutex computing;  // what both queues do not do at once
  std::unique_ptr<TaskQueue> queue;
  std::unique_ptr<EmbeddingQueue> sparse;  // of masked-language models: weights of the vocabulary's tokens
  // What turns the logit of a cross-encoder into its score, as sentence-transformers wrote it down: the last part of a
  // class's name in torch.nn, "Identity" or "Sigmoid"; empty: nothing is said.
  std::string pair_activation;
  struct Terms {
    std::shared_ptr<const TaskOptions> options;
    std::string shared;           // what inputs have in common that may share a batch; its first line is the task
    std::optional<int64_t> cost;  // of an input that may share one with others of other options
  };
  // Refuses what the task does not take.
  Terms terms_of(const std::string& task, const Json& parameters) const;
  std::vector<TaskResult> run(std::vector<AskedTask>& asked, const std::string& shared);
  const Pipeline* find(const std::string& task) const;
};

struct ServedModel : ModelFacts {
  ServedModel();
  ~ServedModel();
  std::optional<Tokenizer> tokenizer;
  std::optional<ImageTextProcessor> images;     // of models that read pictures among their tokens
  std::optional<Embedder> embedder;             // of feature-extraction
  std::optional<TaskRunner> runner;             // of other tasks that answer at once
  std::unique_ptr<GenerationWorker> generator;  // of text-generation
};

// Bytes of the files of weights that are read. Throws Error if there is no such model.
int64_t weight_bytes_of(const ModelSource& source, const ServeOptions& options);
// Loads it and runs it once, so that the first client does not wait for programs.
std::unique_ptr<ServedModel> load_served_model(const ModelSource& source, const ServeOptions& options);

}  // namespace transom::serve
