// SPDX-License-Identifier: Apache-2.0
// Pipelines: from what a user has (texts, images) to what a user wants, in the structure that Transformers' pipeline()
// returns.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "pipelines/parameters.h"
#include "transom/hub.h"
#include "transom/model.h"

namespace transom {

struct TextModel;  // pipelines/text_model.h

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  // One input: a string, or an object with the fields of the task. `parameters` as pipeline() takes them (top_k ...);
  // unknown ones are refused by name.
  virtual Json run(const Json& input, const Json& parameters) const = 0;
  // Several inputs, one result each; a task that can computes them in batches.
  virtual std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const;
  virtual TaskParameters parameters() const = 0;
  // Null where it is elsewhere.
  virtual Model* model() const { return nullptr; }
  // Of fill-mask the model with its tokenizer.
  virtual const TextModel* text_model() const { return nullptr; }
  // What pipeline() returns for a list of inputs: the list of their results, or what a task makes of it.
  virtual Json joined(std::vector<Json> results) const;
  // Whether a list is one input (the messages of a chat) rather than several.
  virtual bool is_one_input(const Json& /*list*/) const { return false; }
  // Whether inputs are the paths of image files.
  virtual bool takes_images() const { return false; }
  // Whether they are the paths of sound files.
  virtual bool takes_audio() const { return false; }
};

std::vector<std::string> pipeline_tasks();
// What a task takes, without a model; `task` may be an alias or translation_xx_to_yy. Refuses unknown tasks.
TaskParameters parameters_of_task(const std::string& task);
// What the inputs of a task are.
enum class InputKind { kText, kQuestion, kSentences, kImage, kAudio };
InputKind input_kind_of_task(const std::string& task);
bool is_pipeline_task(const std::string& task);
// The name of a task that may be given by its alias; translation_xx_to_yy stays what it is.
std::string canonical_task(const std::string& task);
// Loads the model, of a directory or an id of the Hub, and its tokenizer or image processor, for a task; refuses
// unknown tasks with the known ones.
std::unique_ptr<Pipeline> make_pipeline(const std::string& task, const std::string& model, const HubOptions& hub = {},
                                        LoadOptions options = {});
// Checks the names of the parameters, then runs.
Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters);
std::vector<Json> run_pipeline(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters);

// ---- what the tasks share

std::vector<double> softmax_of(const std::vector<float>& logits);
int64_t batch_size_of(const Json& parameters);  // `batch_size`; 1 without it
std::string text_input(const Json& input, const std::string& field = "text");
// Of a picture or sound whose bytes are given (Json's binary) in place of a path; they live as long as the input.
std::optional<std::span<const std::byte>> bytes_input(const Json& input, const std::string& field);
int64_t int_parameter(const Json& parameters, const char* name, int64_t otherwise);
std::string string_parameter(const Json& parameters, const char* name, const std::string& otherwise);
bool bool_parameter(const Json& parameters, const char* name, bool otherwise);
// Refuses those of the names that are given, but for null and false: "prompt: has no effect without pooling".
void refuse_without_effect(const Json& parameters, const std::vector<std::string>& names, const std::string& why);

// What each task takes, beside its maker; of speech recognition what either kind of model takes, and each kind alone.
TaskParameters text_classification_parameters();
TaskParameters token_classification_parameters();
TaskParameters question_answering_parameters();
TaskParameters fill_mask_parameters();
TaskParameters feature_extraction_parameters();
TaskParameters sentence_similarity_parameters();
TaskParameters zero_shot_classification_parameters();
TaskParameters image_classification_parameters();
TaskParameters image_feature_extraction_parameters();
TaskParameters zero_shot_image_classification_parameters();
TaskParameters audio_classification_parameters();
TaskParameters automatic_speech_recognition_parameters();
TaskParameters ctc_recognition_parameters();
TaskParameters whisper_recognition_parameters();
TaskParameters text_generation_parameters();
TaskParameters text_to_text_parameters();

// One maker for each file of this folder.
std::unique_ptr<Pipeline> make_text_classification(TextModel model);
std::unique_ptr<Pipeline> make_token_classification(TextModel model);
std::unique_ptr<Pipeline> make_question_answering(TextModel model);
std::unique_ptr<Pipeline> make_fill_mask(TextModel model);
std::unique_ptr<Pipeline> make_feature_extraction(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_sentence_similarity(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_zero_shot_classification(TextModel model);
std::unique_ptr<Pipeline> make_image_classification(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_image_feature_extraction(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_zero_shot_image_classification(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_audio_classification(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_automatic_speech_recognition(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_whisper_recognition(const std::string& directory, const LoadOptions& options);
std::unique_ptr<Pipeline> make_text_generation(const std::string& directory, const LoadOptions& options);
// text2text-generation, summarization, translation and translation_xx_to_yy.
std::unique_ptr<Pipeline> make_text_to_text(const std::string& task, const std::string& directory,
                                            const LoadOptions& options);

}  // namespace transom
