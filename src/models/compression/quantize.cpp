// SPDX-License-Identifier: Apache-2.0
#include "models/compression/quantize.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "models/compression/calibration/calibration_texts.h"
#include "models/compression/gguf/gguf_model.h"
#include "models/compression/quantize_options.h"
#include "models/compression/quantized_checkpoint.h"
#include "models/compression/static_quantization.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/missing_weights.h"
#include "transom/model.h"

namespace transom {
namespace {

CalibrationTexts read_texts(const Model& model, const std::string& source, const QuantizeOptions& options) {
  return read_calibration_texts(model, source,
                                {.calibration_file = options.calibration_file,
                                 .validation_file = options.validation_file,
                                 .samples = options.calibration_samples,
                                 .length = options.calibration_length,
                                 .max_memory = options.max_memory});
}

QuantizeReport quantize_to_gguf(const std::string& source, const std::string& output, const QuantizeOptions& options) {
  const auto model = load_trained(source, {.dtype = "auto", .quantization = "decompressed"});
  expect_merged(*model);
  const std::string path = gguf_path(output);
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) make_directories(folder);
  const CalibrationTexts texts = read_texts(*model, source, options);
  const std::optional<double> before = judged_perplexity(*model, texts);
  QuantizeReport report = write_gguf_model(*model, source, path, gguf_type_of(options), options.on_layer);
  report.perplexity_before = before;
  if (before) report.perplexity_after = judged_perplexity(*load_trained(path), texts);
  return report;
}

}  // namespace

std::string gguf_path(const std::string& output) {
  return output.ends_with(".gguf") || output.ends_with(".GGUF") ? output : (fs::path(output) / "model.gguf").string();
}

QuantizeReport quantize_model(const std::string& source, const std::string& output, const QuantizeOptions& options) {
  check_quantize_options(options);
  if (options.format != "gguf" && gguf_path(output) == output)
    fail(ErrorKind::kUsage, "{}: format {} writes a directory, found the name of a .gguf file", quoted(output),
         options.format);
  if (options.method == "static") return quantize_statically(source, output, options);
  if (options.format == "gguf") return quantize_to_gguf(source, output, options);
  const QuantizedFormat format = parse_quantized_format(options.format, "--format");
  const auto model = load_trained(source, {.dtype = "auto", .quantization = "decompressed"});
  expect_merged(*model);
  check_quantized_format(*model, format, options);
  const CalibrationTexts texts = read_texts(*model, source, options);
  const std::optional<double> before = judged_perplexity(*model, texts);
  QuantizeReport report = write_quantized_checkpoint(*model, texts, format, source, output, options);
  report.perplexity_before = before;
  if (before) report.perplexity_after = judged_perplexity(*load_trained(output), texts);
  return report;
}

}  // namespace transom
