// SPDX-License-Identifier: Apache-2.0
// Writes a model with its linear layers in 4 or 8 bits, in a format that Transformers and vLLM read, or as a GGUF file
// for llama.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

constexpr int64_t kBitsByLayer = 0;

struct QuantizeOptions {
  std::string method =
      "rtn";         // rounding to the nearest, with scales of the least squared error; gptq, awq, smoothquant, static
  int64_t bits = 4;  // or 8; kBitsByLayer: 4 or 8, by what each layer loses
  double target_bits = 4.5;                   // the most that a weight has in the mean then, scales included
  int64_t group_size = 128;                   // -1: whole rows
  std::string format = "compressed-tensors";  // or gptq, awq, gguf
  std::string type;                           // of a GGUF file; empty: q4_K_M, or q8_0 of 8 bits
  std::string calibration_file;               // text, for gptq, awq and smoothquant
  std::string validation_file;  // text for perplexities; empty: some rows of the calibration's, which it does not see
  int64_t calibration_samples = 128, calibration_length = 512;  // rows and their tokens
  double max_memory = 4;                  // GB for what the rows need in a layer: fewer rows above
  bool act_order = false;                 // gptq
  std::vector<NamedTensors> inputs = {};  // of static: batches of the model's inputs, on which scales are found
  std::function<void(int64_t done, int64_t total, const std::string& layer)> on_layer = {};
};

struct QuantizeReport {
  struct Layer {
    std::string name;
    // Root of the mean square of the rounding over that of the weight; where the method is calibrated, of the outputs'
    // error over that of the outputs.
    double error = 0;
    int64_t bits = 0;  // of a number; 0 in GGUF files, whose types have names
  };
  std::vector<Layer> layers;
  std::optional<double> mean_bits;  // of a weight of these layers with its scales, where bits are by layer
  std::vector<std::string> kept;    // linear layers whose sizes do not fit
  int64_t bytes_before = 0, bytes_after = 0;
  int64_t calibration_rows = 0;
  std::optional<double> perplexity_before, perplexity_after;  // where there is a text for them
  // Of static: the first output against that before, in dB, and of outputs [rows, classes] the share of rows with the
  // same first class; on rows that calibration does not see, where there are enough.
  std::optional<double> signal_to_noise, same_first;
  int64_t judged_rows = 0;
};

// The file of format gguf: `output` where it ends in .gguf, else model.gguf in that directory.
std::string gguf_path(const std::string& output);

// Writes config.json, model.safetensors and generation_config.json into `output`. Heads and embeddings stay as they
// are. Layers are rounded one after the other; calibrated ones in one pass of all rows through the model.
QuantizeReport quantize_model(const std::string& model, const std::string& output, const QuantizeOptions& options);

}  // namespace transom
