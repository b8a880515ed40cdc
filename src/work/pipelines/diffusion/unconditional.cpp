// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/unconditional.h"

#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "base/threads/interrupt.h"
#include "files/config/config.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/picture_pixels.h"
#include "work/pipelines/diffusion/picture_request.h"

namespace transom {
namespace {

constexpr std::string_view kDdpmPipeline = "DDPMPipeline", kDdimPipeline = "DDIMPipeline";

class Unconditional : public Pipeline {
 public:
  Unconditional(const PipelineDirectory& directory, const LoadOptions& options)
      : scheduler_(directory.scheduler()), implicit_(directory.class_name() == kDdimPipeline) {
    unet_ = directory.load("unet", "UNet2DModel", options);
    const Config& config = unet_->config();
    const auto extents = config.get_pair("sample_size", 0);
    height_ = extents[0], width_ = extents[1];
    channels_ = config.get_int("in_channels", 3);
    if (height_ < 1 || width_ < 1)
      fail("{}: unet: sample_size: expected the extents of a picture, found {} x {}", directory.where(), width_,
           height_);
    if ((channels_ != 1 && channels_ != 3) || config.get_int("out_channels", 3) != channels_)
      fail(ErrorKind::kUnsupported, "{}: unet: expected 1 channel or 3, in and out, found {}", directory.where(),
           channels_);
    make_scheduler(scheduler_, implicit_ ? "ddim" : "");
  }
  Model* model() const override { return unet_.get(); }

  TaskParameters parameters() const override {
    TaskParameters all;
    for (TaskParameter& each : picture_parameters())
      for (const char* name : {"num_inference_steps", "seed", "scheduler", "num_images_per_prompt", "eta"})
        if (each.name == name) all.push_back(std::move(each));
    return all;
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      if (!text_input(input).text.empty())
        fail(ErrorKind::kUsage, "the prompt: expected \"\", since the model draws without a text, found {}",
             quoted(text_input(input).text, 60));
      refuse_without_effect(options, {"timesteps", "sigmas"}, "for a pipeline without a text, as in diffusers");
      const PictureDefaults defaults{.steps = implicit_ ? 50 : 1000, .height = height_, .width = width_};
      const PictureRequest request = picture_request("", options, defaults);
      check_request(request, 1);
      results.emplace_back(drawn(request));
    }
    return results;
  }

 private:
  std::vector<Picture> drawn(const PictureRequest& r) const {
    const NoGradient inference;
    const Shape shape{r.pictures, channels_, height_, width_};
    const auto scheduler = make_scheduler(scheduler_, !r.scheduler.empty() ? r.scheduler : implicit_ ? "ddim" : "");
    scheduler->set_timesteps(r.steps);
    Mt19937 random;
    random.seed(r.seed);
    std::vector<float> sample(static_cast<size_t>(elements(shape)));
    random.fill_normal(sample);
    for (float& value : sample) value *= scheduler->initial_deviation();
    report_unused_eta(*scheduler, r);
    DenoisingStep step{.rows = r.pictures, .channels = channels_, .eta = r.eta};
    step.noise = [&](std::span<float> values) { random.fill_normal(values); };
    for (size_t i = 0; i < scheduler->timesteps().size(); ++i) {
      check_interrupted();
      std::vector<float> seen = sample;
      scheduler->scale_input(seen, i);
      const auto t = static_cast<float>(scheduler->timesteps()[i]);
      const NamedTensors outputs = unet_->forward({{"sample", cast(Tensor::from(seen, shape), unet_->dtype())},
                                                   {"timestep", Tensor::from(std::vector<float>{t}, {1})}});
      sample = scheduler->step(i, cast(outputs.at("sample"), DType::kFloat32).to_vector<float>(), sample, step);
    }
    expect_finite(sample);
    std::vector<Picture> pictures;
    const Tensor all = Tensor::from(sample, shape);
    for (int64_t b = 0; b < r.pictures; ++b) pictures.push_back(picture_of_sample(slice(all, 0, b, b + 1)));
    return pictures;
  }

  Config scheduler_;
  bool implicit_;
  std::unique_ptr<Model> unet_;
  int64_t height_ = 0, width_ = 0, channels_ = 3;
};

}  // namespace

bool is_unconditional(const PipelineDirectory& directory) {
  return directory.class_name() == kDdpmPipeline || directory.class_name() == kDdimPipeline;
}

std::unique_ptr<Pipeline> load_unconditional(const PipelineDirectory& directory, const LoadOptions& options) {
  return std::make_unique<Unconditional>(directory, options);
}

}  // namespace transom
