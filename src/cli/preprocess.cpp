// SPDX-License-Identifier: Apache-2.0
// transom preprocess: files to the tensors that a model takes.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#include "images/image_processor.h"
#include "io/safetensors.h"

namespace transom {
namespace {

struct Options {
  std::string processor, outputs;
  std::vector<std::string> files;
};

int preprocess(const Options& options) {
  const ImageProcessor processor = ImageProcessor::from_pretrained(options.processor);
  NamedViews views;
  for (const std::string& file : options.files) {
    const std::string name = std::filesystem::path(file).filename().string() + "/pixel_values";
    if (std::any_of(views.begin(), views.end(), [&](const auto& view) { return view.first == name; }))
      fail(ErrorKind::kUsage, "{}: another file of this name was given", file);
    const auto pixels = std::make_shared<const ImageProcessor::Pixels>(processor(read_image(file)));
    views.emplace_back(
        name,
        TensorView{
            DType::kFloat32, {1, 3, pixels->height, pixels->width}, std::as_bytes(std::span(pixels->values)), pixels});
  }
  write_safetensors(options.outputs, views, {});
  return 0;
}

}  // namespace

Command preprocess_command() {
  static Options options;
  Command command{.name = "preprocess",
                  .help = "Turn image files into the tensors that a model takes",
                  .examples = "  transom preprocess --processor DIR cat.png dog.jpg --outputs pixels.safetensors"};
  command.options = {
      {"files", &options.files, "PNG, JPEG, WebP, GIF or BMP files", true},
      {"--processor", &options.processor, "directory with preprocessor_config.json", true},
      {"--outputs", &options.outputs, "safetensors file; tensors are named <file name>/pixel_values", true}};
  command.run = [] { return preprocess(options); };
  return command;
}

}  // namespace transom
