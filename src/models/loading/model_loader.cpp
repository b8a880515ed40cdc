// SPDX-License-Identifier: Apache-2.0
// From a directory to a model: which class, which tensor for which parameter, and new values for what is missing.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/model_config.h"
#include "files/config/model_type.h"
#include "models/family.h"
#include "models/generative.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/config_keys.h"
#include "models/loading/generation_file.h"
#include "models/loading/input_names.h"
#include "models/loading/load_changed.h"
#include "models/loading/weights/checkpoint_parameters.h"
#include "models/loading/weights/missing_weights.h"
#include "models/loading/weights/other_formats.h"
#include "models/loading/weights/packed_weights.h"
#include "models/nn/weight.h"
#include "models/precision.h"
#include "models/records.h"
#include "models/run_inside.h"
#include "transom/hub.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string joined_types() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  return fmt::format("{}", fmt::join(names, ", "));
}

struct Choice {
  const Family* family;
  const Architecture* architecture;
};

Choice choose(const Config& config, const std::string& task) {
  const std::vector<std::string> named = config.get_strings("architectures");
  const Family* family = find_family(config);
  const bool untyped = !family && !config.has("model_type");
  for (const Family& candidate : families())
    for (const Architecture& architecture : candidate.architectures) {
      if (named.empty() || architecture.name != named[0]) continue;
      if (untyped) family = &candidate;
      if (task.empty() && family == &candidate) return {family, &architecture};
    }
  if (!family) {
    std::vector<std::string> types;
    for (const Family& candidate : families()) types.push_back(candidate.model_type);
    const std::string type = model_type_of(config);
    fail(ErrorKind::kUnsupported, "{}: unknown model_type {}{} Known are: {}", config.where(),
         quoted(type.empty() && !named.empty() ? named[0] : type), did_you_mean(type, types), joined_types());
  }
  if (task.empty() && named.empty()) return {family, &family->architectures.at(0)};
  if (!task.empty())
    if (const Architecture* architecture = find_architecture(*family, task)) return {family, architecture};
  std::vector<std::string> names, tasks;
  for (const Architecture& architecture : family->architectures) {
    names.push_back(architecture.name);
    tasks.insert(tasks.end(), architecture.head.pipelines->begin(), architecture.head.pipelines->end());
  }
  if (!task.empty())
    fail(ErrorKind::kUnsupported, "{}: a model of type '{}' has no head for the task {}{} It has: {}", config.where(),
         family->model_type, quoted(task), did_you_mean(task, tasks), fmt::join(tasks, ", "));
  fail(ErrorKind::kUnsupported, "{}: unknown architecture {}{} Known for '{}' are: {}", config.where(),
       quoted(named[0]), did_you_mean(named[0], names), family->model_type, fmt::join(names, ", "));
}

// The type that the weights get: what the options name, else the configuration, else the checkpoint.
DType weight_dtype(const LoadOptions& options, const Config& config, const Checkpoint* checkpoint) {
  if (const std::optional<DType> named = dtype_of(options.dtype)) return *named;
  const auto known = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  };
  for (const char* field : {"dtype", "torch_dtype"})
    if (config.has(field))
      if (const DType dtype = parse_dtype(config.get_string(field)); known(dtype)) return dtype;
  if (checkpoint)
    for (const auto& [name, view] : checkpoint->tensors())
      if (known(view.dtype)) return view.dtype;
  return DType::kFloat32;
}

// A checkpoint with a table and a head of different values has no ties, whatever its configuration says: Transformers
// takes both as well.
void untie(Config& config, const Family& family, const std::pair<std::string, std::string>& names,
           const std::string& where) {
  log(LogLevel::kWarning,
      fmt::format("{}: {} and {} hold different values, though config.json ties them: both are read as they are; "
                  "\"tie_word_embeddings\": false in config.json says so",
                  where, quoted(names.first), quoted(names.second)));
  if (family.ties_scale_head)
    set_field(config, "scale_decoder_outputs",
              config.get_bool("scale_decoder_outputs", config.get_bool("tie_word_embeddings", true)));
  set_field(config, "tie_word_embeddings", false);
}

void apply_labels(Config& config, const LoadOptions& options) {
  std::vector<std::string> labels = options.labels;
  if (labels.empty() && options.num_labels)
    for (int64_t i = 0; i < *options.num_labels; ++i) labels.push_back("LABEL_" + std::to_string(i));
  if (!labels.empty()) {
    Json by_id = Json::object(), by_name = Json::object();
    for (size_t i = 0; i < labels.size(); ++i) by_id[std::to_string(i)] = labels[i], by_name[labels[i]] = i;
    set_field(config, "id2label", by_id);
    set_field(config, "label2id", by_name);
    if (config.has("pretrained_cfg")) {  // timm's names for the same
      set_field(config, "num_classes", labels.size());
      Json arguments = json_of(config).value("model_args", Json::object());
      if (arguments.is_object() && arguments.contains("num_classes")) {
        arguments["num_classes"] = labels.size();
        set_field(config, "model_args", arguments);
      }
      set_field(config, "label_names", labels);
    }
  }
  if (!options.problem_type.empty()) set_field(config, "problem_type", options.problem_type);
}

}  // namespace

namespace {

// Rounds a linear weight by the method of LoadOptions::quantization, where that has codes of its own.
void pack(Parameter& weight, OneOf<Quantization> quantization) {
  weight.packed = codes_of_weight(weight, quantization);
  if (weight.packed) weight.value = {};
}

}  // namespace

class ModelLoader {
 public:
  // `folder` is empty for a new model.
  static std::unique_ptr<Model> load(Config config, const fs::path& folder, const Checkpoint* checkpoint,
                                     const LoadOptions& options, LoadReport* report) {
    const bool same_labels = options.labels.empty() && !options.num_labels;
    if (!same_labels || !options.problem_type.empty()) apply_labels(config, options);
    const Choice choice = choose(config, options.task);
    set_field(config, "architectures", Json::array({choice.architecture->name}));
    // The model is saved without.
    if (config.has("quantization_config")) set_field(config, "quantization_config", nullptr);
    const DType dtype = weight_dtype(options, config, checkpoint);
    std::optional<CheckpointParameters> parameters(std::in_place, checkpoint, *choice.family, options, dtype);
    std::unique_ptr<Model> model = choice.architecture->make(config, Scope(*parameters));
    if (!parameters->untied().empty()) {
      const Config tied = config;
      untie(config, *choice.family, parameters->untied()[0], checkpoint->where());
      parameters.emplace(checkpoint, *choice.family, options, dtype);
      model = choice.architecture->make(config, Scope(*parameters));
      if (choice.family->ties_scale_head) config = tied;
    }
    CheckpointParameters& source = *parameters;
    for (const auto& [name, other] : source.overruled())
      log(LogLevel::kWarning, fmt::format("{}: {} and {} hold different values; the second is read",
                                          checkpoint->where(), quoted(name), quoted(other)));
    if (!source.untied().empty())
      fail(ErrorKind::kUnsupported, "{}: {} and {} hold different values, and {} has one tensor for both",
           checkpoint->where(), quoted(source.untied()[0].first), quoted(source.untied()[0].second),
           choice.architecture->name);
    check_config_keys(config);
    source.finish(config);
    if (checkpoint && !report) warn_of_missing(source.report, checkpoint->where());  // who asks for it, says it
    model->dtype_ = dtype;
    model->computing_ = {.dtype = dtype,
                         .int8 = options.quantization == Quantization::kInt8,
                         .batch_invariant = options.batch_invariant};
    for (const auto& buffer : source.buffers) source.turn_coded(*buffer);
    for (const auto& parameter : source.parameters) {
      if (source.turn_coded(*parameter)) parameter->value.set_requires_grad();
      const bool linear = parameter->use != Parameter::Use::kOther;
      source.convert_stored(*parameter, config.get_int("vocab_size", 0));
      if (!parameter->packed) pack(*parameter, options.quantization);
      // Who asks for the numbers gets them; embeddings and heads compute from the codes.
      if (parameter->packed && !linear) {
        PackedMatrix table = *parameter->packed;  // of convolutions too
        table.activations = rounded_head_activations(table.activations);
        parameter->packed = std::make_shared<const PackedMatrix>(std::move(table));
        parameter->value = unpacked(*parameter, dtype);
      }
      (parameter->packed ? model->frozen_ : model->parameters_).push_back(parameter);
    }
    model->buffers_ = std::move(source.buffers);
    if (auto* writer = dynamic_cast<GenerativeModel*>(model.get()))
      writer->generation_config_ = std::make_shared<Config>(read_generation_config(folder, config));
    model->config_ = std::make_shared<Config>(std::move(config));
    model->architecture_ = choice.architecture->name;
    if (report) *report = std::move(source.report);
    return model;
  }

  static void complete(Model& model, Config config, const std::string& architecture, const fs::path& folder) {
    if (auto* writer = dynamic_cast<GenerativeModel*>(&model))
      writer->generation_config_ = std::make_shared<Config>(read_generation_config(folder, config));
    model.config_ = std::make_shared<Config>(std::move(config));
    model.architecture_ = architecture;
  }

  static std::vector<std::string> inputs(const Model& model) { return model.input_names(); }

  static NamedTensors run(const Model& model, const NamedTensors& inputs, ForwardContext& context) {
    return model.run(inputs, context);
  }
};

NamedTensors run_inside(const Model& part, const NamedTensors& inputs, ForwardContext& context) {
  return ModelLoader::run(part, inputs, context);
}

std::vector<std::string> input_names_of(const Model& model) { return ModelLoader::inputs(model); }

void complete_model(Model& model, Config config, const std::string& architecture, const fs::path& folder) {
  ModelLoader::complete(model, std::move(config), architecture, folder);
}

std::unique_ptr<Model> Model::from_pretrained(const std::string& name_or_path, const LoadOptions& options,
                                              LoadReport* report) {
  const fs::path folder = resolve_model(name_or_path);
  if (std::unique_ptr<Model> other = load_other_format(folder, options)) {
    other->set_computing({.batch_invariant = options.batch_invariant});
    return other;
  }
  if (holds_adapters(folder)) return Adaptation::load(folder, options, report);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  return ModelLoader::load(read_model_config(folder), folder, &checkpoint, options, report);
}

std::unique_ptr<Model> load_changed(const std::string& name_or_path, const Json& changes, const LoadOptions& options,
                                    LoadReport* report) {
  const fs::path folder = resolve_model(name_or_path);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  Config config = read_model_config(folder);
  for (const auto& [field, value] : changes.items()) set_field(config, field, value);
  return ModelLoader::load(std::move(config), folder, &checkpoint, options, report);
}

std::unique_ptr<Model> Model::from_config(const std::string& config_json, const LoadOptions& options) {
  return ModelLoader::load(with_architecture(Config::parse(config_json, "the configuration")), {}, nullptr, options,
                           nullptr);
}

}  // namespace transom
