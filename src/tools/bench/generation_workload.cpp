// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/generation_workload.h"

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_type.h"
#include "transom/generation.h"

namespace transom {
namespace {

class GenerationWorkload : public Workload {
 public:
  GenerationWorkload(std::unique_ptr<Model> model, const BenchOptions& options)
      : options_(options), model_(std::move(model)), inputs_(synthetic_inputs(*model_, options_, false)) {
    config_.max_new_tokens = options_.max_new_tokens;  // no token ends a text, so that each run has as many
    config_.num_beams = options_.num_beams;
    if (!inputs_.find("decoder_input_ids").defined()) return;
    inputs_ = without_decoder(inputs_);
    config_.decoder_start_token_id = model_->config().get_int("decoder_start_token_id", 0);
  }

  // The scores of a step are asked for when they are known: the time from one to the next is a step's.
  void run() override {
    const double begin = seconds_now();
    std::vector<double> known;
    size_t row = 0;
    const auto note = [&](const TokenIds&, std::span<float>) {
      if (row++ % rows_of_a_step() == 0) known.push_back(seconds_now());
    };
    generate(*model_, inputs_, config_, {.streamer = nullptr, .tokenizer = nullptr, .process_logits = note});
    prefill_.push_back(known.at(0) - begin);
    if (first_token_ == 0) first_token_ = prefill_.back();
    for (size_t i = 1; i < known.size(); ++i) decode_.push_back(known[i] - known[i - 1]);
  }
  double first_token_seconds() const override { return first_token_; }
  void forget_phases() override { prefill_.clear(), decode_.clear(); }
  std::vector<Phase> phases(double max_ram) const override {
    const auto rows = static_cast<double>(options_.batch_size);
    return {{"prefill", prefill_, rows * static_cast<double>(options_.sequence_length), max_ram},
            {"decode", decode_, rows, max_ram}};
  }
  double samples() const override { return static_cast<double>(options_.batch_size * options_.max_new_tokens); }
  std::string model_type() const override { return model_type_of(model_->config()); }
  void take_inputs(const std::string& file) override {
    fail(ErrorKind::kUsage, "{}: other inputs are for benchmarks over tensors, this one writes text", quoted(file));
  }

 private:
  size_t rows_of_a_step() const { return static_cast<size_t>(options_.batch_size * options_.num_beams); }
  // Texts begin with the start token alone.
  static NamedTensors without_decoder(const NamedTensors& inputs) {
    NamedTensors encoder;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "decoder_input_ids") encoder.set(name, tensor);
    return encoder;
  }

  BenchOptions options_;
  std::unique_ptr<Model> model_;
  NamedTensors inputs_;
  GenerationConfig config_;
  std::vector<double> prefill_, decode_;  // seconds, of each run and of each step
  double first_token_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_generation_workload(std::unique_ptr<Model> model, const BenchOptions& options) {
  return std::make_unique<GenerationWorkload>(std::move(model), options);
}

}  // namespace transom
