// SPDX-License-Identifier: Apache-2.0
#include "models/compression/quantize.h"

#include <cmath>

#include "base/directories.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/blocks/quantized_writer.h"
#include "io/blocks/rounded_matrix.h"
#include "io/checkpoint.h"
#include "io/config.h"
#include "models/generative.h"
#include "models/precision.h"

namespace transom {
namespace {

void check(const QuantizeOptions& options) {
  if (options.method != "rtn") fail(ErrorKind::kUsage, "--method: {} is not supported; rtn is", quoted(options.method));
  if (options.bits != 4 && options.bits != 8)
    fail(ErrorKind::kUsage, "--bits: expected 4 or 8, found {}", options.bits);
  if (options.group_size != -1 && (options.group_size < 8 || options.group_size % 8 != 0))
    fail(ErrorKind::kUsage, "--group_size: expected -1 or a multiple of 8, found {}", options.group_size);
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

}  // namespace

QuantizeReport quantize_model(const std::string& source, const std::string& output, const QuantizeOptions& options) {
  check(options);
  const QuantizedFormat format = parse_quantized_format(options.format, "--format");
  const auto model = Model::from_pretrained(source, {.dtype = "auto", .quantization = "decompressed"});
  std::vector<std::shared_ptr<Parameter>> all = model->parameters();
  all.insert(all.end(), model->buffers().begin(), model->buffers().end());
  int64_t linear = 0, done = 0;
  for (const auto& parameter : all) linear += parameter->use == Parameter::Use::kLinear;
  if (linear == 0) fail("{}: holds no linear layers that can be quantised", source);

  QuantizeReport report;
  NamedViews tensors;
  std::vector<std::string> ignored;
  for (const auto& parameter : all) {
    const TensorView exact = view_of(parameter->value);
    report.bytes_before += static_cast<int64_t>(exact.bytes.size());
    constexpr std::string_view kWeight = ".weight";
    const bool is_matrix = parameter->value.rank() == 2 && parameter->name.ends_with(kWeight);
    const std::string module = parameter->name.substr(0, parameter->name.size() - (is_matrix ? kWeight.size() : 0));
    if (parameter->use != Parameter::Use::kLinear || !is_matrix) {
      if (is_matrix && parameter->name.find("embed") == std::string::npos) ignored.push_back(module);
      tensors.emplace_back(parameter->name, exact);
      continue;
    }
    const std::vector<float> numbers = parameter->value.to_vector<float>();
    const int64_t group = options.group_size > 0 ? options.group_size : parameter->value.dim(1);
    const auto matrix = rounded_matrix(numbers.data(), parameter->value.dim(0), parameter->value.dim(1),
                                       {.bits = static_cast<int>(options.bits), .group = group, .search = true});
    if (can_write_codes(matrix->layout(), format)) {
      write_codes(*matrix, format, module, tensors);
      report.layers.push_back({module, relative_error(*matrix, numbers)});
    } else {
      if (format == QuantizedFormat::kGptq)  // its configuration cannot name layers that stay
        fail("{}: layer {}: {} inputs are no whole groups of {}; choose another --group_size", source, module,
             parameter->value.dim(1), group);
      tensors.emplace_back(parameter->name, exact);
      ignored.push_back(module), report.kept.push_back(module);
    }
    if (options.on_layer) options.on_layer(++done, linear, module);
  }
  if (report.layers.empty())
    fail("{}: no linear layer fits {} bits in groups of {}; try another --group_size", source, options.bits,
         options.group_size);
  report.bytes_after = bytes_of(tensors);
  make_directories(output);
  save_checkpoint(output, tensors, uint64_t{5} << 30);
  Config config = model->config();
  set_field(config, "quantization_config",
            quantization_config_of(format, static_cast<int>(options.bits),
                                   options.group_size > 0 ? options.group_size : 0, ignored));
  if (!config.has("dtype") && !config.has("torch_dtype"))
    set_field(config, "torch_dtype", Json(name_of_precision(model->precision().dtype)));
  write_file(fs::path(output) / "config.json", config.dump());
  const auto* writer = dynamic_cast<const GenerativeModel*>(model.get());
  if (writer && writer->can_generate())
    write_file(fs::path(output) / "generation_config.json", writer->generation_config().dump());
  return report;
}

}  // namespace transom
