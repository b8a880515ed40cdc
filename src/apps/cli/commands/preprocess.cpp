// SPDX-License-Identifier: Apache-2.0
// transom preprocess: files to the tensors that a model takes.
#include <filesystem>
#include <optional>
#include <set>

#include "apps/cli/command.h"
#include "base/error.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/audio/feature_extractor.h"
#include "inputs/images/image_processor.h"

namespace transom {
namespace {

struct PreprocessArguments {
  std::string processor, outputs;
  std::vector<std::string> files;
};

template <typename T>
void add(NamedViews& views, std::string name, DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  views.emplace_back(std::move(name), TensorView{dtype, std::move(shape), std::as_bytes(std::span(*owner)), owner});
}

void add_image(const ImageProcessor& processor, const std::string& file, const std::string& name, NamedViews& views) {
  ImageProcessor::Pixels pixels = processor(read_image(file));
  const std::vector<int64_t> shape = pixels.shape();
  if (!pixels.mask.empty()) {
    const std::vector<int64_t> shape_of_mask = pixels.mask_shape();
    add(views, name + "/" + pixels.mask_name(), DType::kInt64, shape_of_mask, std::move(pixels.mask));
  }
  for (auto& [beside, numbers] : pixels.beside) {
    std::vector<int64_t> shape_of_numbers = pixels.shape_beside(numbers);
    add(views, name + "/" + beside, DType::kInt64, std::move(shape_of_numbers), std::move(numbers));
  }
  add(views, name + "/pixel_values", DType::kFloat32, shape, std::move(pixels.values));
}

void add_sound(const FeatureExtractor& extractor, const std::string& file, const std::string& name, NamedViews& views) {
  const Sound sound = resampled(read_sound(file), extractor.sampling_rate());
  AudioFeatures features = extractor(std::span(&sound, 1));
  if (!features.attention_mask.empty())
    add(views, name + "/attention_mask", DType::kInt64, features.shape, std::move(features.attention_mask));
  add(views, name + "/" + features.name, DType::kFloat32, std::move(features.shape), std::move(features.values));
}

int preprocess(const PreprocessArguments& options) {
  std::optional<ImageProcessor> images;
  std::unique_ptr<FeatureExtractor> sounds;
  std::set<std::string> names;
  NamedViews views;
  for (const std::string& file : options.files) {
    const std::string name = std::filesystem::path(file).filename().string();
    if (!names.insert(name).second) fail(ErrorKind::kUsage, "{}: another file of this name was given", file);
    if (is_sound_name(file)) {
      if (!sounds) sounds = FeatureExtractor::read(options.processor);
      add_sound(*sounds, file, name, views);
    } else {
      if (!images) images = ImageProcessor::from_pretrained(options.processor);
      add_image(*images, file, name, views);
    }
  }
  write_safetensors(options.outputs, views, {});
  return 0;
}

}  // namespace

Command preprocess_command() {
  static PreprocessArguments options;
  Command command{.name = "preprocess",
                  .help = "Turn image or sound files into the tensors that a model takes",
                  .examples = "  transom preprocess --processor DIR cat.png dog.jpg --outputs pixels.safetensors"};
  command.options = {{"files", &options.files, "PNG, JPEG, WebP, GIF or BMP files; WAV, FLAC, OGG or MP3 files", true},
                     {"--processor,--model,-m", &options.processor, "directory with preprocessor_config.json", true},
                     {"--outputs", &options.outputs,
                      "safetensors file; tensors are named <file name>/pixel_values, /input_values ...", true}};
  command.run = [] { return preprocess(options); };
  return command;
}

}  // namespace transom
