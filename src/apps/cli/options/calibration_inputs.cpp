// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/calibration_inputs.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/files/directories.h"
#include "inputs/images/image_processor.h"
#include "transom/ops.h"
#include "transom/tokenizer.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

constexpr int64_t kRows = 8;  // of a batch: all values of a graph are held at once
constexpr uint64_t kMostText = uint64_t{1} << 28;

std::vector<NamedTensors> batches_of(const NamedTensors& all, const std::string& where) {
  if (all.empty()) fail("{}: expected at least one tensor", where);
  int64_t rows = -1;
  for (const auto& [name, tensor] : all.items()) {
    const int64_t found = tensor.rank() ? tensor.dim(0) : 0;
    if (found < 1 || (rows >= 0 && found != rows))
      fail("{}: expected as many rows in each tensor, found {} in {}", where, found, name);
    rows = found;
  }
  std::vector<NamedTensors> batches;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    NamedTensors batch;
    for (const auto& [name, tensor] : all.items())
      if (name != "labels") batch.set(name, slice(tensor, 0, begin, std::min(begin + kRows, rows)));
    batches.push_back(std::move(batch));
  }
  return batches;
}

NamedTensors of_picture(const ImageProcessor& processor, const fs::path& file) {
  const ImageProcessor::Pixels pixels = processor(read_image(file));
  return {{"pixel_values", Tensor::from(pixels.values, pixels.shape())}};
}

std::vector<NamedTensors> of_texts(const fs::path& file, const fs::path& model) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.string());
  std::vector<NamedTensors> inputs;
  std::istringstream lines(read_file(file, kMostText));
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const Encoding encoding =
        tokenizer.encode(line, std::nullopt, EncodeOptions{.truncation = Truncation::kLongestFirst});
    const auto row = [](const std::vector<int64_t>& values) {
      return Tensor::from(values, {1, static_cast<int64_t>(values.size())});
    };
    inputs.push_back({{"input_ids", row(encoding.ids)},
                      {"attention_mask", row(encoding.attention_mask)},
                      {"token_type_ids", row(encoding.type_ids)}});
  }
  if (inputs.empty()) fail("{}: expected texts, one a line, found none", file.string());
  return inputs;
}

}  // namespace

std::vector<NamedTensors> calibration_inputs(const fs::path& file, const fs::path& model) {
  if (file.extension() == ".safetensors") return batches_of(load_inputs(file), file.string());
  if (!directory_exists(file) && !is_image_name(file)) return of_texts(file, model);
  std::vector<fs::path> pictures;
  if (!directory_exists(file)) pictures.push_back(file);
  else
    for (const fs::path& path : list_directory(file))
      if (is_image_name(path)) pictures.push_back(path);
  if (pictures.empty()) fail("{}: expected pictures (PNG, JPEG, WebP, GIF, BMP), found none", file.string());
  std::sort(pictures.begin(), pictures.end());
  const ImageProcessor processor = ImageProcessor::from_pretrained(model);
  std::vector<NamedTensors> inputs;
  for (const fs::path& picture : pictures) inputs.push_back(of_picture(processor, picture));
  return inputs;
}

}  // namespace transom
