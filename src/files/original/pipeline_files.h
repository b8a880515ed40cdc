// SPDX-License-Identifier: Apache-2.0
// Names of the files in a directory that diffusers' pipelines write.
#pragma once

namespace transom {

inline constexpr const char* kPipelineIndexName = "model_index.json";
inline constexpr const char* kSchedulerConfigName = "scheduler_config.json";
inline constexpr const char* kNetworkWeightsName = "diffusion_pytorch_model.safetensors";
inline constexpr const char* kLoraWeightsName = "pytorch_lora_weights.safetensors";

}  // namespace transom
