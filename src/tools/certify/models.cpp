// SPDX-License-Identifier: Apache-2.0
// Level 2: whole models, on the device and on the reference device: outputs, gradients, and the losses of 20 updates in
// f32; outputs and gradients with matrix products in bf16, by what bf16 costs the reference device.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "tools/bench/workload.h"
#include "tools/certify/certify.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom::certify {
namespace {

constexpr int64_t kSteps = 20;
// Relative to the largest element of the tensor; float32 on both sides, sums in another order.
constexpr double kOutputs = 1e-4, kGradients = 1e-3, kLosses = 1e-3;
// In bf16 the device may be as far from f32 as the reference device, so many times (one rounding or another decides
// which of the two is nearer), and where that is luckily near, by this much.
constexpr double kOfReference = 3, kNearInBf16 = 0.02;

struct Subject {
  std::string name, config, directory;  // a configuration, or the directory of a checkpoint
};

std::vector<Subject> own_models() {
  return {{"bert classification", R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
            "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 24, "max_position_embeddings": 32, "type_vocab_size": 2,
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1})",
           ""},
          {"gpt2 language model", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50,
            "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32})",
           ""},
          {"vit classification", R"({"model_type": "vit", "architectures": ["ViTForImageClassification"],
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
            "image_size": 8, "patch_size": 4, "num_channels": 3})",
           ""},
          {"resnet classification", R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
            "image_size": 16, "num_channels": 3, "embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1],
            "layer_type": "basic"})",
           ""}};
}

using NamedValues = std::map<std::string, std::vector<double>>;

struct Run {
  NamedValues outputs, gradients;
  std::vector<double> losses;
};

// What gradients are taken of: the loss, or for a model without a head a sum of its outputs with random weights.
Tensor objective(const NamedTensors& outputs) {
  if (const Tensor loss = outputs.find("loss"); loss.defined()) return loss;
  Mt19937 random(7);
  Tensor total;
  for (const auto& [name, value] : outputs.items()) {
    std::vector<float> weights(static_cast<size_t>(elements(value.shape())));
    random.fill_normal(weights, 0, 1);
    const Tensor part = sum(value * Tensor::from(weights, value.shape()));
    total = total.defined() ? total + part : part;
  }
  return total;
}

Run run(const Subject& subject, const std::string& device, uint64_t seed, bool bf16) {
  set_device(device);
  const std::unique_ptr<Model> model = subject.directory.empty()
                                           ? Model::from_config(subject.config, {.seed = seed})
                                           : Model::from_pretrained(subject.directory, {.seed = seed});
  BenchOptions shape;
  shape.batch_size = 2;
  shape.sequence_length = 8;
  if (bf16) model->set_computing({.dtype = DType::kBFloat16});
  const bool learns = has_synthetic_labels(*model);
  const NamedTensors inputs = synthetic_inputs(*model, shape, learns);
  Run result;
  const NamedTensors outputs = model->forward(inputs);
  std::vector<Tensor> values;
  for (const auto& [name, value] : outputs.items()) values.push_back(value);
  std::vector<Tensor> parameters;
  for (const auto& parameter : model->parameters()) parameters.push_back(parameter->value);
  const std::vector<Tensor> slopes = gradients(objective(outputs), parameters);
  values.insert(values.end(), slopes.begin(), slopes.end());
  eval(values);
  for (const auto& [name, value] : outputs.items()) result.outputs[name] = value.to_vector<double>();
  for (size_t i = 0; i < slopes.size(); ++i)
    result.gradients[model->parameters()[i]->name] = slopes[i].to_vector<double>();
  if (bf16 || !learns) return result;

  TrainingArguments arguments;
  arguments.learning_rate = 1e-3;
  TrainStep step(*model, arguments);
  for (int64_t i = 0; i < kSteps; ++i)
    result.losses.push_back(step({inputs}, arguments.learning_rate, i).loss.item<double>());
  return result;
}

// The largest difference of values by name, each measured by the largest of its tensor (and a thousandth of the largest
// of all, for what is zero but for rounding); `note` names the first that is beyond what is allowed.
double worst_error(const NamedValues& expected, const NamedValues& found, double allowed, std::string& note) {
  double everywhere = 0, worst = 0;
  for (const auto& [name, values] : expected)
    for (const double value : values) everywhere = std::max(everywhere, std::abs(value));
  for (const auto& [name, values] : expected) {
    const std::vector<double>& other = found.at(name);
    double largest = 1e-3 * everywhere;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(values[i] - other[i]);
      const double error = values[i] == other[i] ? 0 : std::isfinite(difference) ? difference / largest : INFINITY;
      worst = std::max(worst, error);
      if (error > allowed && note.empty())
        note = fmt::format("{} [{}]: expected {:.9g}, found {:.9g}", name, i, values[i], other[i]);
    }
  }
  return worst;
}

void compare_values(Recorder& recorder, const Subject& subject, const char* variant, const NamedValues& expected,
                    const NamedValues& found, double allowed) {
  Row row{.level = "models", .subject = subject.name, .variant = variant};
  row.cases = static_cast<int64_t>(expected.size());
  row.bound = allowed;
  row.worst = worst_error(expected, found, allowed, row.note);
  if (!row.note.empty()) row.verdict = Verdict::kFail;
  row.ratio = row.worst / allowed;
  recorder.add(std::move(row));
}

void compare_in_bf16(Recorder& recorder, const Subject& subject, const std::string& device, const Run& exact) {
  const uint64_t seed = recorder.options().seed;
  const Run reference = run(subject, "reference", seed, true), found = run(subject, device, seed, true);
  const auto compare = [&](const char* variant, NamedValues Run::*values) {
    std::string ignored;
    const double cost = worst_error(exact.*values, reference.*values, INFINITY, ignored);
    compare_values(recorder, subject, variant, exact.*values, found.*values,
                   std::max(kOfReference * cost, kNearInBf16));
  };
  compare("outputs in bf16", &Run::outputs);
  compare("gradients in bf16", &Run::gradients);
}

}  // namespace

void certify_models(Recorder& recorder) {
  const std::string device = device_name();
  std::vector<Subject> subjects;
  for (const std::string& directory : recorder.options().models)
    subjects.push_back({fs::path(directory).filename().string(), "", directory});
  if (subjects.empty()) subjects = own_models();
  for (const Subject& subject : subjects) {
    if (recorder.stopped()) break;
    const auto fails = [&](const char* variant, Verdict verdict, const Error& error) {
      recorder.add({.level = "models",
                    .subject = subject.name,
                    .variant = variant,
                    .verdict = verdict,
                    .ratio = verdict == Verdict::kFail ? INFINITY : 0,
                    .note = error.what()});
    };
    const Run expected = run(subject, "reference", recorder.options().seed, false);
    try {
      const Run found = run(subject, device, recorder.options().seed, false);
      compare_values(recorder, subject, "outputs", expected.outputs, found.outputs, kOutputs);
      compare_values(recorder, subject, "gradients", expected.gradients, found.gradients, kGradients);
      if (!expected.losses.empty()) {
        compare_values(recorder, subject, "losses of 20 steps", {{"step", expected.losses}}, {{"step", found.losses}},
                       kLosses);
        recorder.report().curves.push_back({subject.name, expected.losses, found.losses});
      }
    } catch (const Error& error) {
      fails("", Verdict::kFail, error);
      continue;
    }
    try {
      compare_in_bf16(recorder, subject, device, expected);
    } catch (const Error& error) {  // a device may do without 16 bits
      const bool refused = std::string_view(error.what()).find(": not supported: ") != std::string_view::npos;
      fails("in bf16", refused ? Verdict::kNotSupported : Verdict::kFail, error);
    }
  }
  set_device(device);
}

}  // namespace transom::certify
