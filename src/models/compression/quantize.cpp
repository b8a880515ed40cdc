// SPDX-License-Identifier: Apache-2.0
#include "models/compression/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "io/blocks/awq_activations.h"
#include "io/blocks/gptq_config.h"
#include "io/blocks/quantized_writer.h"
#include "io/blocks/rounded_matrix.h"
#include "io/checkpoint.h"
#include "io/config.h"
#include "models/compression/calibrated_layers.h"
#include "models/compression/calibration_texts.h"
#include "models/compression/gguf_model.h"
#include "models/compression/linear_rows.h"
#include "models/compression/static_quantization.h"
#include "models/compression/vocabulary_heads.h"
#include "models/generative.h"
#include "models/loading/input_names.h"
#include "models/loading/packed_weights.h"
#include "models/precision.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string type_of(const QuantizeOptions& options) {
  return !options.type.empty() ? options.type : options.bits == 8 ? "q8_0" : "q4_K_M";
}

std::string name_of_bits(int64_t bits) { return bits == kBitsByLayer ? "auto" : std::to_string(bits); }

void check_quantize_options(const QuantizeOptions& options) {
  const std::vector<std::string> methods{"rtn", "gptq", "awq", "smoothquant", "static"};
  if (std::find(methods.begin(), methods.end(), options.method) == methods.end())
    fail(ErrorKind::kUsage, "--method: expected {}, found {}", fmt::join(methods, ", "), quoted(options.method));
  if (options.method == "static") {
    if (options.bits != 8 || options.format != "compressed-tensors")
      fail(ErrorKind::kUsage, "--bits, --format: static has 8 bits and compressed-tensors, found {} and {}",
           name_of_bits(options.bits), options.format);
    if (options.inputs.empty())
      fail(ErrorKind::kUsage, "--calibration_file: static needs pictures, texts or tensors, whose ranges it keeps");
    return;
  }
  if (options.method != "rtn" && options.calibration_file.empty())
    fail(ErrorKind::kUsage, "--calibration_file: {} needs a text", options.method);
  if (options.method == "awq" && options.bits != 4)
    fail(ErrorKind::kUsage, "--bits: --method awq has 4, found {}", name_of_bits(options.bits));
  if (options.method == "smoothquant" && (options.bits != 8 || options.format != "compressed-tensors"))
    fail(ErrorKind::kUsage, "--bits, --format: smoothquant has 8 bits and compressed-tensors, found {} and {}",
         name_of_bits(options.bits), options.format);
  if (options.act_order && (options.method != "gptq" || options.format != "gptq"))
    fail(ErrorKind::kUsage, "--act_order: is for --method gptq with --format gptq");
  if (options.calibration_samples < 1 || options.calibration_length < 2 || !(options.max_memory > 0))
    fail(ErrorKind::kUsage, "--calibration_samples, --calibration_length, --max_memory: found {}, {}, {}",
         options.calibration_samples, options.calibration_length, options.max_memory);
  if (options.bits != 4 && options.bits != 8 && options.bits != kBitsByLayer)
    fail(ErrorKind::kUsage, "--bits: expected 4, 8 or auto, found {}", options.bits);
  if (options.bits == kBitsByLayer) {
    if (options.format != "compressed-tensors" || (options.method != "rtn" && options.method != "gptq"))
      fail(ErrorKind::kUsage,
           "--bits: auto is for --method rtn or gptq with --format compressed-tensors, found {} and {}", options.method,
           options.format);
    if (!(options.target_bits >= 4 && options.target_bits <= 16))
      fail(ErrorKind::kUsage, "--target_bits: expected 4 to 16, found {}", options.target_bits);
  }
  if (options.group_size != -1 && (options.group_size < 8 || options.group_size % 8 != 0))
    fail(ErrorKind::kUsage, "--group_size: expected -1 or a multiple of 8, found {}", options.group_size);
  if (options.format == "gguf") {
    if (options.method != "rtn")
      fail(ErrorKind::kUsage, "--method: gguf is written with rtn, found {}", options.method);
    check_gguf_type(type_of(options));
  } else if (!options.type.empty()) {
    fail(ErrorKind::kUsage, "--type: is for --format gguf, found {}", options.format);
  }
  if (options.format == "awq" && options.bits != 4)
    fail(ErrorKind::kUsage, "--bits: awq has 4, found {}", options.bits);
}

double relative_error(const BlockMatrix& matrix, const std::vector<float>& exact) {
  const auto depth = static_cast<size_t>(matrix.layout().depth);
  std::vector<float> row(depth);
  double error = 0, size = 0;
  for (size_t r = 0; r < static_cast<size_t>(matrix.layout().rows); ++r) {
    matrix.dequantise_row(static_cast<int64_t>(r), row.data());
    for (size_t k = 0; k < depth; ++k) {
      const double value = exact[r * depth + k], rest = value - row[k];
      error += rest * rest, size += value * value;
    }
  }
  return size > 0 ? std::sqrt(error / size) : 0;
}

TensorView view_of(const Tensor& value) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
  return {value.dtype(), value.shape(), *bytes, bytes};
}

int64_t bytes_of(const NamedViews& tensors, size_t first = 0) {
  int64_t bytes = 0;
  for (size_t i = first; i < tensors.size(); ++i) bytes += static_cast<int64_t>(tensors[i].second.bytes.size());
  return bytes;
}

CalibrationTexts read_texts(const Model& model, const std::string& source, const QuantizeOptions& options) {
  return read_calibration_texts(model, source,
                                {.calibration_file = options.calibration_file,
                                 .validation_file = options.validation_file,
                                 .samples = options.calibration_samples,
                                 .length = options.calibration_length,
                                 .max_memory = options.max_memory});
}

// Refuses what the format's own library could not read.
void check_format(const Model& model, QuantizedFormat format, const QuantizeOptions& options) {
  const std::string type = model.config().get_string("model_type", model.architecture());
  const auto& parameters = model.parameters();
  const bool turned = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return parameter->use == Parameter::Use::kTransposedLinear;
  });
  if (turned && format != QuantizedFormat::kGptq)
    fail(ErrorKind::kUnsupported,
         "--format: {} has no codes for layers that hold their weights [inputs, outputs], as {} does; expected gptq or "
         "gguf",
         options.format, type);
  // Transformers gives such models' linear layers new values by their plain weights before it reads codes.
  for (const char* unread : {"t5", "modernbert"})
    if (type == unread && format != QuantizedFormat::kCompressedTensors)
      fail(ErrorKind::kUnsupported, "--format: Transformers opens no {} of {}; expected compressed-tensors{}",
           options.format, type, type == "t5" ? " or gguf" : "");
  const std::vector<std::string> names = input_names_of(model);
  if (format == QuantizedFormat::kGptq && std::find(names.begin(), names.end(), "input_ids") == names.end())
    fail(ErrorKind::kUnsupported,
         "--format: gptq is read of models of texts, and {} reads {}; expected compressed-tensors", type, names.at(0));
}

std::vector<std::string> names_of(const std::vector<QuantizeReport::Layer>& layers) {
  std::vector<std::string> names;
  for (const QuantizeReport::Layer& layer : layers) names.push_back(layer.name);
  return names;
}

QuantizeReport quantize_to_gguf(const std::string& source, const std::string& output, const QuantizeOptions& options) {
  const auto model = Model::from_pretrained(source, {.dtype = "auto", .quantization = "decompressed"});
  const std::string path = gguf_path(output);
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) make_directories(folder);
  const CalibrationTexts texts = read_texts(*model, source, options);
  const std::optional<double> before = judged_perplexity(*model, texts);
  QuantizeReport report = write_gguf_model(*model, source, path, type_of(options), options.on_layer);
  report.perplexity_before = before;
  if (before) report.perplexity_after = judged_perplexity(*Model::from_pretrained(path), texts);
  return report;
}

}  // namespace

std::string gguf_path(const std::string& output) {
  return output.ends_with(".gguf") ? output : (fs::path(output) / "model.gguf").string();
}

QuantizeReport quantize_model(const std::string& source, const std::string& output, const QuantizeOptions& options) {
  check_quantize_options(options);
  if (options.method == "static") return quantize_statically(source, output, options);
  if (options.format == "gguf") return quantize_to_gguf(source, output, options);
  const QuantizedFormat format = parse_quantized_format(options.format, "--format");
  const auto model = Model::from_pretrained(source, {.dtype = "auto", .quantization = "decompressed"});
  std::vector<std::shared_ptr<Parameter>> all = model->parameters();
  all.insert(all.end(), model->buffers().begin(), model->buffers().end());
  int64_t linear = 0, done = 0;
  for (const auto& parameter : all) linear += is_linear_matrix(*parameter);
  if (linear == 0) fail("{}: holds no linear layers that can be quantised", source);
  check_format(*model, format, options);

  QuantizeReport report;
  const CalibrationTexts texts = read_texts(*model, source, options);
  report.perplexity_before = judged_perplexity(*model, texts);
  CalibratedLayers calibrated;
  constexpr std::string_view kWeight = ".weight";
  // Readers of GPTQ look for codes in the blocks alone; those of AWQ leave modules whose names end like one that stays,
  // as `pre_classifier` beside `classifier`.
  const auto gets_codes = [&](const Parameter& weight) {
    return is_linear_matrix(weight) && weight.name.ends_with(kWeight) &&
           (format == QuantizedFormat::kCompressedTensors || is_in_block(weight.name));
  };
  const std::string type = model->config().get_string("model_type", "");
  std::vector<std::shared_ptr<Parameter>> weights;
  std::map<std::string, int> layer_bits;
  if (options.method != "rtn" || options.bits == kBitsByLayer) {
    const int fitting = options.bits == kBitsByLayer ? 8 : static_cast<int>(options.bits);
    for (const auto& parameter : all) {
      if (!gets_codes(*parameter)) continue;
      const auto [rows, depth] = extents_by_output(*parameter);
      const bool whole = options.method == "smoothquant" || options.group_size < 0;
      if (can_write_codes({.rows = rows, .depth = depth, .bits = fitting, .group = whole ? depth : options.group_size},
                          format))
        weights.push_back(parameter);
    }
  }
  if (options.bits == kBitsByLayer) {
    const std::vector<LayerSensitivity> losses =
        layer_sensitivities(*model, weights, texts.calibration, options.group_size);
    layer_bits = chosen_bits(losses, options.target_bits);
    double bits = 0, count = 0;
    for (const LayerSensitivity& layer : losses) {
      const auto size = static_cast<double>(layer.weights);
      bits += size * (layer_bits[layer.name] == 8 ? layer.bits_of_8 : layer.bits_of_4), count += size;
    }
    if (count > 0) report.mean_bits = bits / count;
  }
  const auto bits_of = [&](const std::string& module) {
    const auto found = layer_bits.find(module);
    return found != layer_bits.end() ? found->second : options.bits == 8 ? 8 : 4;
  };
  if (options.method != "rtn") {
    report.calibration_rows = static_cast<int64_t>(texts.calibration.size());
    calibrated = calibrated_layers(*model, weights, texts.calibration, options, layer_bits);
    report.layers = calibrated.errors;
  }
  NamedViews tensors;
  std::vector<std::string> ignored;
  for (const auto& parameter : all) {
    const TensorView exact = view_of(parameter->value);
    report.bytes_before += static_cast<int64_t>(exact.bytes.size());
    const bool is_matrix = parameter->value.rank() == 2 && parameter->name.ends_with(kWeight);
    const std::string module = parameter->name.substr(0, parameter->name.size() - (is_matrix ? kWeight.size() : 0));
    if (const std::string scales = format == QuantizedFormat::kAwq ? awq_activation_scales(type, module) : "";
        is_matrix && !scales.empty())
      tensors.emplace_back(scales, view_of(full({parameter->value.dim(0)}, 1, DType::kFloat16)));
    if (!gets_codes(*parameter)) {
      if (is_matrix && (is_linear_matrix(*parameter) || parameter->name.find("embed") == std::string::npos))
        ignored.push_back(module);
      tensors.emplace_back(parameter->name, exact);
      continue;
    }
    if (const auto found = calibrated.matrices.find(module); found != calibrated.matrices.end()) {
      write_codes(*found->second, format, module, tensors);
      continue;
    }
    const LinearRows w = rows_by_output(*parameter);
    const int64_t group = options.group_size > 0 ? options.group_size : w.depth;
    const auto matrix =
        rounded_matrix(w.numbers.data(), w.rows, w.depth, {.bits = bits_of(module), .group = group, .search = true});
    if (options.method != "smoothquant" && can_write_codes(matrix->layout(), format)) {
      write_codes(*matrix, format, module, tensors);
      report.layers.push_back({module, relative_error(*matrix, w.numbers), matrix->layout().bits});
    } else {
      tensors.emplace_back(parameter->name, exact);
      ignored.push_back(module), report.kept.push_back(module);
    }
    if (options.on_layer && options.method == "rtn") options.on_layer(++done, linear, module);
  }
  if (report.layers.empty())
    fail("{}: no linear layer fits {} in groups of {}; try another --group_size", source,
         options.bits == kBitsByLayer ? "4 and 8 bits" : fmt::format("{} bits", options.bits), options.group_size);
  ignore_vocabulary_heads(*model, ignored);
  report.bytes_after = bytes_of(tensors);
  make_directories(output);
  save_checkpoint(output, tensors, uint64_t{5} << 30);
  Config config = model->config();
  set_field(config, "quantization_config",
            options.method == "smoothquant" ? w8a8_config_of(ignored)
            : !layer_bits.empty()
                ? mixed_config_of(layer_bits, options.group_size > 0 ? options.group_size : 0, ignored)
            : format == QuantizedFormat::kGptq
                ? gptq_config_of(static_cast<int>(options.bits), options.group_size, options.act_order,
                                 names_of(report.layers), ignored)
                : quantization_config_of(format, static_cast<int>(options.bits),
                                         options.group_size > 0 ? options.group_size : 0, ignored));
  if (!config.has("dtype") && !config.has("torch_dtype"))
    set_field(config, "torch_dtype", Json(name_of_precision(model->precision().dtype)));
  write_file(fs::path(output) / "config.json", config.dump());
  const auto* writer = dynamic_cast<const GenerativeModel*>(model.get());
  if (writer && writer->can_generate())
    write_file(fs::path(output) / "generation_config.json", writer->generation_config().dump());
  if (report.perplexity_before) report.perplexity_after = judged_perplexity(*Model::from_pretrained(output), texts);
  return report;
}

}  // namespace transom
