// SPDX-License-Identifier: Apache-2.0
// image-to-text: an encoder-decoder writes about a picture: a caption, or what stands in it.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "models/loading/input_names.h"
#include "work/pipelines/generation/generation_model.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class ImageToText : public Pipeline {
 public:
  ImageToText(GenerationModel model, ImageProcessor processor)
      : model_(std::move(model)), processor_(std::move(processor)) {}
  Model* model() const override { return model_.model.get(); }

  // One text for each returned sequence.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const GenerationConfig config = model_.config_for(options, Json{{"max_new_tokens", 256}});
    const Tensor begins = beginning(options);
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const ImageProcessor::Pixels image = processor_(image_of(image_input(input).source));
      NamedTensors seen{{"pixel_values", pixel_values({&image, 1})}};
      if (begins.defined()) seen.set("input_ids", begins);
      const GenerationOutput output =
          generate(*model_.model, seen, config, {.streamer = nullptr, .tokenizer = &model_.tokenizer});
      std::vector<WrittenText> texts;
      for (const TokenIds& row : output.sequences) texts.emplace_back(model_.tokenizer.decode(row, true));
      results.emplace_back(std::move(texts));
    }
    return results;
  }

 private:
  // The tokens of the prompt, for models that read some before they write; empty: there is none.
  Tensor beginning(const TaskOptions& options) const {
    const std::string prompt = text_option(options, "prompt", "");
    if (prompt.empty()) return {};
    const std::vector<std::string> names = input_names_of(*model_.model);
    if (std::find(names.begin(), names.end(), "input_ids") == names.end())
      fail(ErrorKind::kUsage, "prompt: {} writes about a picture alone; leave it out", model_.model->architecture());
    const TokenIds ids = model_.tokenizer.encode(prompt).ids;
    return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  }

  GenerationModel model_;
  ImageProcessor processor_;
};

TaskParameters image_to_text_parameters() {
  return generation_parameters(
      {{"prompt", TaskParameter::Type::kText, "how the text begins, of models that go on with one (BLIP)"}});
}

std::unique_ptr<Pipeline> load_image_to_text(const std::string& directory, const LoadOptions& options,
                                             const std::string& /*task*/) {
  return std::make_unique<ImageToText>(GenerationModel::load(directory, options),
                                       ImageProcessor::from_pretrained(directory_of_model(directory)));
}

constexpr TaskRecord kImageToText{.name = "image-to-text",
                                  .example = "line.png --max_new_tokens 60",
                                  .input = InputKind::kImage,
                                  .result = ResultKind::kTexts,
                                  .parameters = image_to_text_parameters,
                                  .load = load_image_to_text};
const RegisterTask kRegisterImageToText(kImageToText);

}  // namespace
}  // namespace transom
