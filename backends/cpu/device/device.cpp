// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/device.h"

#include <oneapi/dnnl/dnnl.h>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "cpu/attention/paged_attention.h"
#include "cpu/codegen/kernels.h"
#include "cpu/device/library.h"
#include "cpu/device/processor.h"
#include "cpu/device/threads.h"
#include "cpu/device/types.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "CPU";
}

template <size_t Size>
void put(char (&field)[Size], std::string_view text) {
  const size_t length = std::min(text.size(), Size - 1);
  text.copy(field, length);
  field[length] = '\0';
}

}  // namespace

transom_device_properties describe_processor() {
  const ProcessorFeatures& features = processor_features();
  std::string architecture = vector_kernels().name;
  for (const auto& [has, name] : {std::pair{features.avx2_vnni, ", avx2_vnni"},
                                  {features.avx512_vnni, ", avx512_vnni"},
                                  {features.avx512_bf16, ", avx512_bf16"},
                                  {features.amx_bf16, ", amx_bf16"},
                                  {features.amx_int8, ", amx_int8"}})
    if (has) architecture += name;
  const dnnl_version_t* library = dnnl_version();

  transom_device_properties properties{};
  put(properties.name, processor_name());
  put(properties.architecture, architecture);
  put(properties.driver, fmt::format("oneDNN {}.{}.{}; {}", library->major, library->minor, library->patch,
                                     codegen::describe_generator()));
  properties.flags = TRANSOM_DEVICE_HOST_MEMORY;
  properties.memory_bytes = physical_memory();
  properties.compute_units = static_cast<uint32_t>(thread_count());
  properties.fast_dtypes = library_computes(TRANSOM_BFLOAT16) ? 1u << TRANSOM_BFLOAT16 : 0;
  return properties;
}

// Products and rows of f32 or bf16, which goes through f32 where the library has no products of it; the gradient of
// capped scores is left to the primitives.
bool claims_attention(bool gradient, const transom_value* inputs, size_t inputs_count,
                      const transom_attribute* attributes, size_t attributes_count) {
  if (inputs_count < 3 || (inputs[0].dtype != TRANSOM_FLOAT32 && inputs[0].dtype != TRANSOM_BFLOAT16)) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (inputs[i].dtype != inputs[0].dtype) return false;
    for (int32_t axis = 0; axis < inputs[i].rank; ++axis)
      if (inputs[i].shape[axis] == 0) return false;
  }
  for (size_t i = 0; i < attributes_count; ++i) {
    const std::string_view name = attributes[i].name;
    if (name == "soft_cap" && gradient && attributes[i].float_value > 0) return false;
    if (name == "biased" && attributes[i].int_value && inputs[3].dtype != TRANSOM_FLOAT32) return false;
  }
  return true;
}

bool claims_composite(const char* op, const transom_value* inputs, size_t inputs_count,
                      const transom_attribute* attributes, size_t attributes_count) {
  const std::string_view name = op;
  if (name == "fusion" || name == "row_fusion") return true;
  if (name == "attention" || name == "attention_gradient")
    return claims_attention(name != "attention", inputs, inputs_count, attributes, attributes_count);
  if (name == "paged_attention") return claims_paged_attention(inputs, inputs_count);
  if (name == "scatter") return inputs_count == 3;
  if (name == "quantized_matmul" || name == "quantized_matmul_gradient")
    return inputs_count >= 3 &&
           (inputs[0].dtype == TRANSOM_FLOAT32 || is_half(static_cast<transom_dtype>(inputs[0].dtype)));
  if (name == "max_pool" || name == "sum_pool") return inputs_count == 1 && inputs[0].dtype == TRANSOM_FLOAT32;
  static constexpr std::string_view kRowComposites[] = {"linear",
                                                        "quantized_linear",
                                                        "softmax",
                                                        "log_softmax",
                                                        "softmax_gradient",
                                                        "log_softmax_gradient",
                                                        "layer_norm",
                                                        "layer_norm_gradient",
                                                        "channels_last_convolution",
                                                        "channels_last_convolution_input_gradient",
                                                        "channels_last_convolution_weight_gradient"};
  if (std::find(std::begin(kRowComposites), std::end(kRowComposites), name) == std::end(kRowComposites)) return false;
  for (size_t i = 0; i < inputs_count; ++i) {
    const auto dtype = static_cast<transom_dtype>(inputs[i].dtype);
    if (inputs[i].dtype != inputs[0].dtype) return false;
    if (dtype != TRANSOM_FLOAT32 && !is_half(dtype)) return false;
  }
  return inputs_count > 0;
}

}  // namespace transom::cpu
