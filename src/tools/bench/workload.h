// SPDX-License-Identifier: Apache-2.0
// What a benchmark repeats: a forward pass, one with its gradients, an update, writing a text, or the pipeline of a
// task over lines of text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/phase.h"
#include "transom/model.h"

namespace transom {

struct BenchOptions {
  std::string model;             // a directory with config.json
  std::string task = "forward";  // forward, gradients, train, or a pipeline's name, which chooses the head
  std::string scenario;          // inference or training; empty: training where the task is train
  std::string inputs;            // .safetensors: tensors by name; else lines of text for the task's pipeline
  // Of the weights and of matrix products (LoadOptions::dtype); in training of matrix products alone, as --bf16.
  std::string dtype = "float32";
  std::string quantization = "none";    // int8: linear layers in 8-bit integers
  bool no_weights = false;              // random weights, whatever the directory holds
  bool gradient_checkpointing = false;  // of training and gradients: layers are computed again in the backward pass
  int64_t max_predictions_per_seq = 0;  // labelled positions of a sequence that the head of an MLM sees; 0: all
  int64_t batch_size = 1, sequence_length = 128;
  int64_t max_new_tokens = 64;  // that a run writes for each row, where the task is to write text
  int64_t num_beams = 1;        // of beam search, where the task is to write text
  int64_t warmup_runs = 10, iterations = 10;
  double duration = 10;  // seconds; runs go on until both this and `iterations` are reached
  int64_t seed = 42;

  // A pass and the gradients of its loss, in `dtype` throughout: what a micro-batch of accumulated gradients takes.
  bool gradients() const { return task == "gradients"; }
  bool training() const { return scenario.empty() ? task == "train" : scenario == "training"; }
  void check() const;  // kUsage, naming the flag
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual void run() = 0;  // once; returns when the results can be read
  virtual double samples() const = 0;
  virtual std::string model_type() const = 0;
  // Phases within the runs since the last forget_phases(): prefill and decode of text generation.
  virtual std::vector<Phase> phases(double /*max_ram*/) const { return {}; }
  virtual void forget_phases() {}
  // From the start of the first run to its first token; 0 where none is written.
  virtual double first_token_seconds() const { return 0; }
  // Other tensors (.safetensors) for the runs to come. kUsage where the workload runs over lines of text.
  virtual void take_inputs(const std::string& file) = 0;
};

// The model of the options, with random weights where they say so or the directory has none.
std::unique_ptr<Model> load_model(const BenchOptions& options);

// Loads the model and makes the inputs.
std::unique_ptr<Workload> make_workload(const BenchOptions& options);

// The mode in force, as --mode names it.
std::string mode_name();

// Inputs of random tokens (or pixels) that the model takes, with the labels of its head where it is to be trained.
NamedTensors synthetic_inputs(const Model& model, const BenchOptions& options, bool labels);
// Whether it is known which labels the model's head learns from; a model without a head learns from none.
bool has_synthetic_labels(const Model& model);

}  // namespace transom
