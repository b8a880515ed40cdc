// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/picture_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/interrupt.h"
#include "files/config/config.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/flow_pictures.h"
#include "work/pipelines/diffusion/picture_pixels.h"
#include "work/pipelines/diffusion/stable_diffusion.h"

namespace transom {

std::unique_ptr<PictureModel> load_picture_model(const PipelineDirectory& directory, const LoadOptions& options) {
  std::vector<std::string> known = FlowPictures::class_names();
  for (const std::string& name : known)
    if (name == directory.class_name()) return std::make_unique<FlowPictures>(directory, options);
  for (const std::string& name : StableDiffusion::class_names()) {
    if (name == directory.class_name()) return std::make_unique<StableDiffusion>(directory, options);
    known.push_back(name);
  }
  fail(ErrorKind::kUnsupported, "{}: _class_name: expected one of {}, found {}", directory.where(),
       fmt::join(known, ", "), quoted(directory.class_name(), 80));
}

namespace {

// So many are drawn at once at most, which bounds what a pass takes.
constexpr int64_t kMostPixelsTogether = 4 << 20;

}  // namespace

Latents PictureModel::latents(const PictureRequest& request) const {
  const NoGradient inference;
  std::vector<std::unique_ptr<PictureRun>> run;
  run.push_back(begin(request));
  while (!run[0]->finished()) {
    check_interrupted();
    step_together(*network(), run);
  }
  expect_finite(run[0]->now().values);
  return run[0]->now();
}

std::vector<Picture> PictureModel::draw(const PictureRequest& request) const {
  const std::lock_guard one_at_a_time(drawing_);
  use_files(request);
  return pictures(latents(request));
}

std::vector<std::vector<Picture>> PictureModel::draw_together(std::span<const PictureRequest> requests) const {
  const std::lock_guard one_at_a_time(drawing_);
  const NoGradient inference;
  std::vector<std::vector<Picture>> drawn;
  if (!requests.empty()) use_files(requests[0]);
  while (drawn.size() < requests.size()) {
    std::vector<std::unique_ptr<PictureRun>> runs;
    int64_t pixels = 0;
    for (const PictureRequest& request : requests.subspan(drawn.size())) {
      pixels += request.height * request.width * request.pictures;
      if (!runs.empty() && pixels > kMostPixelsTogether) break;
      runs.push_back(begin(request));
    }
    const auto goes_on = [](const std::unique_ptr<PictureRun>& run) { return !run->finished(); };
    while (std::any_of(runs.begin(), runs.end(), goes_on)) {
      check_interrupted();
      step_together(*network(), runs);
    }
    for (const std::unique_ptr<PictureRun>& run : runs) {
      expect_finite(run->now().values);
      drawn.push_back(pictures(run->now()));
    }
  }
  return drawn;
}

std::unique_ptr<Model> load_picture_decoder(const PipelineDirectory& directory, LoadOptions options) {
  if (options.dtype == ModelDType::kFloat16) options.dtype = ModelDType::kFloat32;
  return directory.load("vae", "AutoencoderKL", options);
}

std::vector<Picture> decoded_pictures(const Model& decoder, const std::vector<float>& values, const Shape& whole) {
  std::vector<Picture> pictures;
  const int64_t B = whole[0], size = elements(whole) / B;
  Shape shape = whole;
  shape[0] = 1;
  for (int64_t b = 0; b < B; ++b) {
    check_interrupted();
    const auto begin = values.begin() + b * size;
    const Tensor one = Tensor::from(std::vector<float>(begin, begin + size), shape);
    const Tensor sample = decoder.forward({{"latents", cast(one, decoder.dtype())}}).at("sample");
    pictures.push_back(picture_of_sample(cast(sample, DType::kFloat32)));
  }
  return pictures;
}

Tensor repeated_rows(const Tensor& x, int64_t count) {
  return count == 1 ? x : concatenate(std::vector<Tensor>(static_cast<size_t>(count), x), 0);
}

}  // namespace transom
