// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/image_to_image.h"

#include "base/error.h"
#include "work/pipelines/diffusion/stable_diffusion.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class PictureChange : public Pipeline {
 public:
  explicit PictureChange(std::shared_ptr<const StableDiffusion> model) : model_(std::move(model)) {}
  Model* model() const override { return model_->network(); }

  TaskParameters parameters() const override {
    TaskParameters all = changed_picture_parameters();
    for (TaskParameter& parameter : picture_parameters()) all.push_back(std::move(parameter));
    return all;
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) results.emplace_back(model_->draw(request_of(image_input(input), options)));
    return results;
  }

 private:
  PictureRequest request_of(const ImageInput& input, const TaskOptions& options) const {
    if (!is_given(options, "prompt"))
      fail(ErrorKind::kUsage, "prompt is missing: what the picture becomes (\"\" for no text)");
    const bool masked = is_given(options, "mask_image");
    if (!masked)
      refuse_without_effect(options, {"height", "width"}, "without a mask_image: the picture keeps its extents");
    PictureRequest request =
        picture_request(text_option(options, "prompt", ""), options, model_->defaults(true, masked));
    request.start = image_of(input.source);
    if (masked) {
      request.mask = image_of(text_option(options, "mask_image", ""));
    } else {
      request.height = request.start->height / model_->enlargement() * model_->enlargement();
      request.width = request.start->width / model_->enlargement() * model_->enlargement();
    }
    return request;
  }

  std::shared_ptr<const StableDiffusion> model_;
};

}  // namespace

std::unique_ptr<Pipeline> load_picture_change(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<PictureChange>(
      std::make_shared<const StableDiffusion>(PipelineDirectory{fs::path(directory)}, options));
}

std::unique_ptr<Pipeline> picture_change_beside(const Pipeline& drawing) {
  auto model = std::dynamic_pointer_cast<const StableDiffusion>(picture_model_of(drawing));
  return model ? std::make_unique<PictureChange>(std::move(model)) : nullptr;
}

}  // namespace transom
