// SPDX-License-Identifier: Apache-2.0
// Pipelines: from what a user has (texts, pictures, sounds) to what a user wants, as values. json/task_json.h has the
// structure that Transformers' pipeline() returns.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transom/hub.h"
#include "transom/model.h"
#include "transom/pipeline.h"
#include "transom/tasks.h"
#include "work/pipelines/parameters.h"
#include "work/pipelines/task_record.h"

namespace transom {

struct TextModel;  // pipelines/text/text_model.h

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  // One result for each input; a task that can computes them in batches. Options as parameters() say.
  virtual std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const = 0;
  // Of a task that computes inputs with options of their own together: those of one `key` may be, and what one of them
  // costs, in the tokens that a server's batches are bounded by.
  struct Company {
    std::string key;
    int64_t cost = 1;
  };
  // Nothing: only inputs of equal options are computed together, by run().
  virtual std::optional<Company> company(const TaskOptions& /*options*/) const { return std::nullopt; }
  // One result for each input with its own options, all of one company; each is what run() gives for it alone.
  virtual std::vector<TaskResult> run_each(const std::vector<TaskInput>& inputs,
                                           const std::vector<TaskOptions>& options) const;
  // Those of the record, or fewer where the kind of model decides.
  virtual TaskParameters parameters() const { return record().parameters(); }
  // Null where it is elsewhere.
  virtual Model* model() const { return nullptr; }
  // Of fill-mask the model with its tokenizer.
  virtual const TextModel* text_model() const { return nullptr; }

  const TaskRecord& record() const { return *record_; }
  void set_record(const TaskRecord& record) { record_ = &record; }

 private:
  const TaskRecord* record_ = nullptr;
};

// Loads the model, of a directory or an id of the Hub, and its tokenizer or image processor, for a task; refuses
// unknown tasks with the known ones.
std::unique_ptr<Pipeline> make_pipeline(const std::string& task, const std::string& model, const HubOptions& hub = {},
                                        LoadOptions options = {});
// Checks the options, then runs.
std::vector<TaskResult> run_pipeline(const Pipeline& pipeline, const std::vector<TaskInput>& inputs,
                                     const TaskOptions& options);

// ---- what the tasks share

// Throws Error that names what was expected where the input is of another kind.
const TextInput& text_input(const TaskInput& input);
const ImageInput& image_input(const TaskInput& input);
const SoundInput& sound_input(const TaskInput& input);
const VideoInput& video_input(const TaskInput& input);
// "a text", "a picture": what an input is, for errors.
std::string_view name_of(const TaskInput& input);
// The candidate_labels of the options, else of the input. Refuses none.
std::vector<std::string> candidate_labels(const std::vector<std::string>& of_input, const TaskOptions& options);

std::vector<double> softmax_of(const std::vector<float>& logits);

}  // namespace transom
