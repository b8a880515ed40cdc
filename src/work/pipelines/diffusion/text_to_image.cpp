// SPDX-License-Identifier: Apache-2.0
// Pictures of what a text says, or, where a pipeline knows no text, pictures.
#include <algorithm>

#include "work/pipelines/diffusion/image_to_image.h"
#include "work/pipelines/diffusion/picture_model.h"
#include "work/pipelines/diffusion/unconditional.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

class TextToImage : public Pipeline {
 public:
  TextToImage(const PipelineDirectory& directory, const LoadOptions& options)
      : model_(load_picture_model(directory, options)) {}
  Model* model() const override { return model_->network(); }
  std::shared_ptr<const PictureModel> networks() const { return model_; }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) results.emplace_back(model_->draw(request_of(input, options)));
    return results;
  }

  // Pictures of one size, whatever their texts, seeds, schedules and numbers of steps. Files change the weights of all;
  // who gives a picture to a ControlNet is drawn alone.
  std::optional<Company> company(const TaskOptions& options) const override {
    for (const char* own : {"lora", "textual_inversion", "control_image"})
      if (is_given(options, own)) return std::nullopt;
    const PictureRequest request = request_of(TextInput(""), options);
    check_request(request, model_->defaults(false, false).unit);
    constexpr int64_t kPixelsOfToken = 16 * 16;
    return Company{fmt::format("{} pictures of {} x {}", request.pictures, request.height, request.width),
                   std::max<int64_t>(request.pictures * request.height * request.width / kPixelsOfToken, 1)};
  }
  std::vector<TaskResult> run_each(const std::vector<TaskInput>& inputs,
                                   const std::vector<TaskOptions>& options) const override {
    std::vector<PictureRequest> requests;
    for (size_t i = 0; i < inputs.size(); ++i) requests.push_back(request_of(inputs[i], options[i]));
    std::vector<TaskResult> results;
    for (std::vector<Picture>& pictures : model_->draw_together(requests)) results.emplace_back(std::move(pictures));
    return results;
  }

 private:
  PictureRequest request_of(const TaskInput& input, const TaskOptions& options) const {
    return picture_request(text_input(input).text, options, model_->defaults(false, false));
  }

  std::shared_ptr<const PictureModel> model_;
};

std::unique_ptr<Pipeline> load_text_to_image(const std::string& directory, const LoadOptions& options,
                                             const std::string& /*task*/) {
  const PipelineDirectory index{fs::path(directory)};
  if (is_unconditional(index)) return load_unconditional(index, options);
  return std::make_unique<TextToImage>(index, options);
}

constexpr TaskRecord kTextToImage{.name = "text-to-image",
                                  .example = "--prompt \"a lighthouse in the fog\" --seed 7 --output lighthouse.png",
                                  .input = InputKind::kText,
                                  .result = ResultKind::kPictures,
                                  .parameters = picture_parameters,
                                  .load = load_text_to_image};
const RegisterTask kRegisterTextToImage(kTextToImage);

}  // namespace

std::shared_ptr<const PictureModel> picture_model_of(const Pipeline& drawing) {
  const auto* by_text = dynamic_cast<const TextToImage*>(&drawing);
  return by_text ? by_text->networks() : nullptr;
}

}  // namespace transom
