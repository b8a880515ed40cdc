// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/workload.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/config.h"
#include "files/config/model_type.h"
#include "files/hub/resolve.h"
#include "models/loading/adapters/adaptation.h"
#include "models/nn/losses/labelled_positions.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/precision.h"
#include "models/records.h"
#include "runtime/device/device.h"
#include "tools/bench/generation_workload.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/pipelines/pipeline.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

bool is_pipeline(const std::string& task) {
  for (const std::string& known : pipeline_tasks())
    if (task == known) return true;
  return false;
}

// The tasks whose models write with generate(). Speech is recognised by Whisper so, by others in one pass.
bool writes_text(const std::string& task, const Model& model) {
  if (task == "automatic-speech-recognition") return is_encoder_decoder(head_of(model));
  for (const char* known : {"text-generation", "text2text-generation", "summarization", "translation"})
    if (task == known) return true;
  return false;
}

// Training has weights of f32.
LoadOptions precision_of(const BenchOptions& options) {
  LoadOptions load;
  if (!options.training()) load.dtype = options.dtype, load.quantization = options.quantization;
  if (options.training() || options.gradients()) load.quantization = "decompressed";
  else load.activations = "fastest";
  return load;
}

}  // namespace

std::unique_ptr<Model> load_model(const BenchOptions& options) {
  LoadOptions load = precision_of(options);
  load.seed = static_cast<uint64_t>(options.seed);
  if (is_pipeline(options.task)) load.task = options.task;
  if (!onnx::find_onnx_file(options.model).empty()) return Model::from_pretrained(options.model, load);
  const fs::path directory(options.model);
  if (!directory_exists(directory) && !is_container(directory))
    fail("{}: expected a directory with config.json", options.model);
  if (options.no_weights || !(Checkpoint::exists(directory) || holds_adapters(directory)))
    return Model::from_config(read_file(directory_of_model(directory) / "config.json"), load);
  return Model::from_pretrained(options.model, load);
}

namespace {

NamedTensors inputs_of(const Model& model, const BenchOptions& options, bool labels) {
  return options.inputs.empty() ? synthetic_inputs(model, options, labels) : load_inputs(options.inputs);
}

class ModelWorkload : public Workload {
 public:
  ModelWorkload(std::unique_ptr<Model> model, const BenchOptions& options, bool labels)
      : options_(options), model_(std::move(model)), inputs_(inputs_of(*model_, options, labels)) {
    count_samples();
  }
  void take_inputs(const std::string& file) override {
    options_.inputs = file;
    inputs_ = load_inputs(file);
    count_samples();
  }
  double samples() const override { return samples_; }
  std::string model_type() const override { return model_type_of(model_->config()); }

 protected:
  BenchOptions options_;
  std::unique_ptr<Model> model_;
  NamedTensors inputs_;
  double samples_;

 private:
  void count_samples() {
    if (inputs_.empty()) fail("{}: expected at least one tensor", options_.inputs);
    const Tensor& first = inputs_.items()[0].second;
    samples_ = first.rank() ? static_cast<double>(first.dim(0)) : 1;
  }
};

class ForwardWorkload : public ModelWorkload {
 public:
  ForwardWorkload(std::unique_ptr<Model> model, const BenchOptions& options)
      : ModelWorkload(std::move(model), options, false) {}

  void run() override {
    const NoGradient inference;
    const NamedTensors outputs = model_->forward(inputs_);
    std::vector<Tensor> values;
    for (const auto& [name, tensor] : outputs.items()) values.push_back(tensor);
    eval(values);
    default_device()->synchronize();
  }
};

class GradientsWorkload : public ModelWorkload {
 public:
  explicit GradientsWorkload(const BenchOptions& options) : ModelWorkload(load_model(options), options, true) {}

  void run() override {
    const Tensor key = Tensor::from(std::vector<int64_t>{options_.seed, passes_++ << 20}, {2});
    const Tensor loss = model_
                            ->forward(inputs_, {.training = true,
                                                .dropout_key = key,
                                                .gradient_checkpointing = options_.gradient_checkpointing,
                                                .return_loss = true,
                                                .computing = {.max_predictions = options_.max_predictions_per_seq}})
                            .find("loss");
    if (!loss.defined()) fail("{}: the model gave no loss that could have gradients", options_.model);
    std::vector<Tensor> values;
    for (const auto& parameter : model_->parameters()) values.push_back(parameter->value);
    std::vector<Tensor> results = gradients(loss, values);
    std::erase_if(results, [](const Tensor& result) { return !result.defined(); });
    results.push_back(loss);
    eval(results);
    default_device()->synchronize();
  }

 private:
  int64_t passes_ = 0;
};

class TrainingWorkload : public ModelWorkload {
 public:
  explicit TrainingWorkload(const BenchOptions& options)
      : ModelWorkload(load_model(options), options, true), step_(*model_, arguments_of(options)) {}

  void run() override {
    const TrainStep::Result result = step_({inputs_}, 5e-5, steps_++);
    result.loss.item<float>();  // waits for the device
    default_device()->synchronize();
  }

 private:
  static TrainingArguments arguments_of(const BenchOptions& options) {
    TrainingArguments arguments;
    arguments.bf16 = OneOf<ModelDType>::parse(options.dtype, "--dtype") == ModelDType::kBFloat16;
    arguments.seed = options.seed;
    arguments.activation_checkpointing = options.gradient_checkpointing;
    arguments.max_predictions_per_seq = options.max_predictions_per_seq;
    return arguments;
  }
  TrainStep step_;
  int64_t steps_ = 0;
};

std::vector<TaskInput> lines_of(const std::string& file) {
  const std::string text = read_file(file);
  std::vector<TaskInput> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.emplace_back(TextInput(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  if (lines.empty()) fail("{}: expected lines of text, found none", file);
  return lines;
}

// Everything from text to answers, tokenising included.
class PipelineWorkload : public Workload {
 public:
  explicit PipelineWorkload(const BenchOptions& options)
      : lines_(lines_of(options.inputs)),
        pipeline_(make_pipeline(options.task, options.model, {}, precision_of(options))) {
    if (options.task == "feature-extraction") options_.set("pooling", "auto");
    else if (options.batch_size > 1) options_.set("batch_size", options.batch_size);
    const Config config = Config::read(directory_of_model(options.model) / "config.json");
    model_type_ = model_type_of(config);
  }

  void run() override { run_pipeline(*pipeline_, lines_, options_); }
  void take_inputs(const std::string& file) override {
    fail(ErrorKind::kUsage, "{}: other inputs are for benchmarks over tensors, this one runs over lines of text",
         quoted(file));
  }
  double samples() const override { return static_cast<double>(lines_.size()); }
  std::string model_type() const override { return model_type_; }

 private:
  std::vector<TaskInput> lines_;
  std::unique_ptr<Pipeline> pipeline_;
  TaskOptions options_;
  std::string model_type_;
};

}  // namespace

void BenchOptions::check() const {
  if (task != "forward" && task != "gradients" && task != "train" && !is_pipeline(task)) {
    std::vector<std::string> known{"forward", "gradients", "train"};
    for (const std::string& name : pipeline_tasks()) known.push_back(name);
    fail(ErrorKind::kUsage, "--task: unknown task {}{} Known are: {}", quoted(task), did_you_mean(task, known),
         fmt::join(known, ", "));
  }
  if (!scenario.empty() && scenario != "inference" && scenario != "training")
    fail(ErrorKind::kUsage, "--scenario: expected inference or training, found {}", quoted(scenario));
  if (task == "train" && scenario == "inference")
    fail(ErrorKind::kUsage,
         "--scenario: the task train is a scenario of training; for a forward pass give --task forward");
  if (OneOf<ModelDType>::parse(dtype, "--dtype") == ModelDType::kFloat16 && training())
    fail(ErrorKind::kUsage, "--dtype: training in float16 is not offered; expected float32 or bfloat16");
  OneOf<Quantization>::parse(quantization, "--quantization");
  if (quantization != "none" && (training() || gradients()))
    fail(ErrorKind::kUsage, "--quantization: is for inference; training needs gradients");
  if (gradients() && !scenario.empty())
    fail(ErrorKind::kUsage, "--scenario: the task gradients is one of its own; leave --scenario out");
  if (gradient_checkpointing && !training() && !gradients())
    fail(ErrorKind::kUsage, "--gradient_checkpointing: is for the tasks train and gradients, found {}", task);
  if (max_predictions_per_seq != 0 && !training() && !gradients())
    fail(ErrorKind::kUsage, "--max_predictions_per_seq: is for the tasks train and gradients, found {}", task);
  const auto at_least = [](const char* flag, auto value, auto least) {
    if (!(value >= least)) fail(ErrorKind::kUsage, "{}: expected at least {}, found {}", flag, least, value);
  };
  at_least("--batch_size", batch_size, int64_t{1});
  at_least("--sequence_length", sequence_length, int64_t{1});
  at_least("--max_predictions_per_seq", max_predictions_per_seq, int64_t{0});
  at_least("--max_new_tokens", max_new_tokens, int64_t{2});
  at_least("--num_beams", num_beams, int64_t{1});
  at_least("--warmup_runs", warmup_runs, int64_t{0});
  at_least("--iterations", iterations, int64_t{1});
  at_least("--duration", duration, 0.0);
  if (std::max(batch_size, num_beams) > int64_t{1} << 20 || std::max(sequence_length, max_new_tokens) > int64_t{1}
                                                                                                            << 24)
    fail(ErrorKind::kUsage, "--batch_size, --sequence_length: found {} and {}, which no machine holds", batch_size,
         std::max(sequence_length, max_new_tokens));
}

std::unique_ptr<Workload> make_workload(const BenchOptions& options) {
  options.check();
  const bool lines = !options.inputs.empty() && !options.inputs.ends_with(".safetensors");
  if (options.training()) {
    if (lines)
      fail(ErrorKind::kUsage, "--inputs: training takes tensors (.safetensors), found {}", quoted(options.inputs));
    return std::make_unique<TrainingWorkload>(options);
  }
  if (options.gradients()) {
    if (lines)
      fail(ErrorKind::kUsage, "--inputs: gradients take tensors (.safetensors), found {}", quoted(options.inputs));
    return std::make_unique<GradientsWorkload>(options);
  }
  if (options.inputs.empty() && is_pipeline(options.task)) {
    std::unique_ptr<Model> model = load_model(options);
    if (writes_text(options.task, *model)) return make_generation_workload(std::move(model), options);
    return std::make_unique<ForwardWorkload>(std::move(model), options);
  }
  if (!lines) return std::make_unique<ForwardWorkload>(load_model(options), options);
  if (!is_pipeline(options.task))
    fail(ErrorKind::kUsage, "--inputs: lines of text need a pipeline's task, such as --task feature-extraction");
  return std::make_unique<PipelineWorkload>(options);
}

std::string mode_name() {
  switch (mode()) {
    case Mode::kEager:
      return "eager";
    case Mode::kCompile:
      return "compile";
    case Mode::kGraph:
      return "graph";
    default:
      return "lazy";
  }
}

}  // namespace transom
