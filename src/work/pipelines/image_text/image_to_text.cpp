// SPDX-License-Identifier: Apache-2.0
// image-to-text: an encoder-decoder writes about a picture: a caption, or what stands in it.
#include "base/json/json.h"
#include "files/hub/resolve.h"
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
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const ImageProcessor::Pixels image = processor_(image_of(image_input(input).source));
      const GenerationOutput output = generate(*model_.model, {{"pixel_values", pixel_values({&image, 1})}}, config,
                                               {.streamer = nullptr, .tokenizer = &model_.tokenizer});
      std::vector<WrittenText> texts;
      for (const TokenIds& row : output.sequences) texts.emplace_back(model_.tokenizer.decode(row, true));
      results.emplace_back(std::move(texts));
    }
    return results;
  }

 private:
  GenerationModel model_;
  ImageProcessor processor_;
};

TaskParameters image_to_text_parameters() { return generation_parameters({}); }

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
