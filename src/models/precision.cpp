// SPDX-License-Identifier: Apache-2.0
#include "models/precision.h"

namespace transom {

const OptionNames<ModelDType>& option_names(ModelDType) {
  using Name = OptionNames<ModelDType>::Name;
  static constexpr Name names[] = {
      {"auto", ModelDType::kAuto},       {"float32", ModelDType::kFloat32}, {"bfloat16", ModelDType::kBFloat16},
      {"float16", ModelDType::kFloat16}, {"fp32", ModelDType::kFloat32},    {"f32", ModelDType::kFloat32},
      {"bf16", ModelDType::kBFloat16},   {"fp16", ModelDType::kFloat16},    {"f16", ModelDType::kFloat16}};
  static constexpr OptionNames<ModelDType> all{"dtype", names};
  return all;
}

const OptionNames<Quantization>& option_names(Quantization) {
  using Name = OptionNames<Quantization>::Name;
  static constexpr Name names[] = {
      {"none", Quantization::kNone}, {"int8", Quantization::kInt8}, {"int8_channel", Quantization::kInt8Channel},
      {"nf4", Quantization::kNf4},   {"fp4", Quantization::kFp4},   {"decompressed", Quantization::kDecompressed}};
  static constexpr OptionNames<Quantization> all{"quantization", names};
  return all;
}

const OptionNames<Activations>& option_names(Activations) {
  using Name = OptionNames<Activations>::Name;
  static constexpr Name names[] = {{"float32", Activations::kFloat32},
                                   {"static", Activations::kStatic},
                                   {"int8", Activations::kInt8},
                                   {"fastest", Activations::kFastest},
                                   {"float8", Activations::kFloat8}};
  static constexpr OptionNames<Activations> all{"activations", names};
  return all;
}

std::optional<DType> dtype_of(ModelDType type) {
  switch (type) {
    case ModelDType::kAuto:
      return std::nullopt;
    case ModelDType::kFloat32:
      return DType::kFloat32;
    case ModelDType::kBFloat16:
      return DType::kBFloat16;
    case ModelDType::kFloat16:
      return DType::kFloat16;
  }
  return std::nullopt;
}

std::string name_of_precision(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace transom
