// SPDX-License-Identifier: Apache-2.0
// visual-question-answering: a model that reads a picture and a question writes an answer.
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "work/pipelines/generation/generation_model.h"
#include "work/pipelines/image_text/asked_picture.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class VisualQuestionAnswering : public Pipeline {
 public:
  VisualQuestionAnswering(GenerationModel model, ImageProcessor processor)
      : model_(std::move(model)), processor_(std::move(processor)) {}
  Model* model() const override { return model_.model.get(); }

  // An answer for each returned sequence.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    // As the last pipeline of Transformers that had the task (4.57).
    const GenerationConfig config = model_.config_for(options, Json{{"max_new_tokens", 256}});
    EncodeOptions encoding;
    if (flag_option(options, "truncation", false)) encoding.truncation = Truncation::kLongestFirst;
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const AskedPicture asked = asked_picture(input);
      const ImageProcessor::Pixels image = processor_(image_of(*asked.picture));
      const Encoding question = model_.tokenizer.encode(*asked.question, std::nullopt, encoding);
      const Shape row{1, static_cast<int64_t>(question.ids.size())};
      const GenerationOutput output = generate(*model_.model,
                                               {{"pixel_values", pixel_values({&image, 1})},
                                                {"input_ids", Tensor::from(question.ids, row)},
                                                {"attention_mask", Tensor::from(question.attention_mask, row)}},
                                               config, {.streamer = nullptr, .tokenizer = &model_.tokenizer});
      std::vector<AnswerSpan> answers;
      for (const TokenIds& ids : output.sequences)
        answers.push_back(written_answer(model_.tokenizer.decode(ids, true)));
      results.emplace_back(std::move(answers));
    }
    return results;
  }

 private:
  GenerationModel model_;
  ImageProcessor processor_;
};

TaskParameters visual_question_answering_parameters() {
  return generation_parameters(
      {{"truncation", TaskParameter::Type::kFlag, "cut questions that are longer than the model reads", "false"}});
}

std::unique_ptr<Pipeline> load_visual_question_answering(const std::string& directory, const LoadOptions& options,
                                                         const std::string& /*task*/) {
  return std::make_unique<VisualQuestionAnswering>(GenerationModel::load(directory, options),
                                                   ImageProcessor::from_pretrained(directory_of_model(directory)));
}

constexpr TaskRecord kVisualQuestionAnswering{.name = "visual-question-answering",
                                              .alias = "vqa",
                                              .example = "--image cat.png --question \"How many cats are there?\"",
                                              .takes_images = true,
                                              .text_name = "question",
                                              .result = ResultKind::kAnswers,
                                              .parameters = visual_question_answering_parameters,
                                              .load = load_visual_question_answering};
const RegisterTask kRegisterVisualQuestionAnswering(kVisualQuestionAnswering);

}  // namespace
}  // namespace transom
