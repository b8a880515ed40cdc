// SPDX-License-Identifier: Apache-2.0
// image-to-text: an encoder-decoder writes about a picture: a caption, or what stands in it.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "models/generative.h"
#include "models/loading/input_names.h"
#include "work/pipelines/generation/generation_model.h"
#include "work/pipelines/image_text/tagged_fields.h"
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
    const NamedTensors begins = beginning(options);
    const bool fields = flag_option(options, "token2json", false);
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const ImageProcessor::Pixels image = processor_(image_of(image_input(input).source));
      NamedTensors seen{{"pixel_values", pixel_values({&image, 1})}};
      for (const auto& [name, ids] : begins.items()) seen.set(name, ids);
      const GenerationOutput output =
          generate(*model_.model, seen, config, {.streamer = nullptr, .tokenizer = &model_.tokenizer});
      std::vector<WrittenText> texts;
      for (const TokenIds& row : output.sequences)
        texts.emplace_back(fields ? dump_json(fields_of_tags(tagged_text(row, model_.tokenizer), model_.tokenizer))
                                  : model_.tokenizer.decode(row, true));
      results.emplace_back(std::move(texts));
    }
    return results;
  }

 private:
  // The tokens of the prompt, for models that read some before they write, or whose text may begin with it.
  NamedTensors beginning(const TaskOptions& options) const {
    const std::string prompt = text_option(options, "prompt", "");
    if (prompt.empty()) return {};
    const std::vector<std::string> names = input_names_of(*model_.model);
    const bool reads = std::find(names.begin(), names.end(), "input_ids") != names.end();
    const auto* writer = dynamic_cast<const GenerativeModel*>(model_.model.get());
    if (!reads && (!writer || !writer->begins_as_given()))
      fail(ErrorKind::kUsage, "prompt: {} writes about a picture alone; leave it out", model_.model->architecture());
    const TokenIds ids = model_.tokenizer.encode(prompt, std::nullopt, {.add_special_tokens = reads}).ids;
    return {{reads ? "input_ids" : "decoder_input_ids", Tensor::from(ids, {1, static_cast<int64_t>(ids.size())})}};
  }

  GenerationModel model_;
  ImageProcessor processor_;
};

TaskParameters image_to_text_parameters() {
  return generation_parameters(
      {{"prompt", TaskParameter::Type::kText,
        "how the text begins, of models that go on with one (BLIP), or the tag of a task (Donut)"},
       {"token2json", TaskParameter::Type::kFlag, "the fields of a document, which Donut writes between tags, as JSON",
        "false"}});
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
