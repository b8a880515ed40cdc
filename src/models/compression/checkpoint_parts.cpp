// SPDX-License-Identifier: Apache-2.0
#include "models/compression/checkpoint_parts.h"

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "models/precision.h"

namespace transom {

TensorView bytes_of_tensor(const Tensor& value) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
  return {value.dtype(), value.shape(), *bytes, bytes};
}

void write_configurations(const Model& model, const Json& quantization_config, const fs::path& output) {
  Config config = model.config();
  set_field(config, "quantization_config", quantization_config);
  if (!config.has("dtype") && !config.has("torch_dtype"))
    set_field(config, "torch_dtype", Json(name_of_precision(model.dtype())));
  write_file(output / "config.json", config.dump());
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (writer && writer->can_generate())
    write_file(output / "generation_config.json", writer->generation_config().dump());
}

}  // namespace transom
