// SPDX-License-Identifier: Apache-2.0
// From a directory to a model: which class, which tensor for which parameter, and new values for what is missing.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "io/checkpoint.h"
#include "io/converted_view.h"
#include "io/model_config.h"
#include "models/family.h"
#include "models/generative.h"
#include "models/loading/generation_file.h"
#include "models/loading/input_names.h"
#include "models/loading/load_changed.h"
#include "models/loading/lora.h"
#include "models/loading/missing_weights.h"
#include "models/loading/other_formats.h"
#include "models/loading/packed_weights.h"
#include "models/precision.h"
#include "models/unfinite_numbers.h"
#include "nn/weight.h"
#include "transom/device.h"
#include "transom/gradients.h"
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
  // Configurations of timm's own say no type.
  const std::string type = config.get_string("model_type", config.has("pretrained_cfg") ? "timm_wrapper" : "");
  const Family* family = nullptr;
  for (const Family& candidate : families()) {
    if (!type.empty() && candidate.model_type == type) family = &candidate;
    for (const Architecture& architecture : candidate.architectures) {
      if (named.empty() || architecture.name != named[0]) continue;
      if (type.empty()) family = &candidate;
      if (task.empty() && family == &candidate) return {family, &architecture};
    }
  }
  if (!family) {
    std::vector<std::string> types;
    for (const Family& candidate : families()) types.push_back(candidate.model_type);
    fail(ErrorKind::kUnsupported, "{}: unknown model_type {}{} Known are: {}", config.where(),
         quoted(type.empty() && !named.empty() ? named[0] : type), did_you_mean(type, types), joined_types());
  }
  for (const Architecture& architecture : family->architectures)
    if (task.empty()
            ? named.empty()
            : std::find(architecture.tasks.begin(), architecture.tasks.end(), task) != architecture.tasks.end())
      return {family, &architecture};
  std::vector<std::string> names, tasks;
  for (const Architecture& architecture : family->architectures) {
    names.push_back(architecture.name);
    tasks.insert(tasks.end(), architecture.tasks.begin(), architecture.tasks.end());
  }
  if (!task.empty())
    fail(ErrorKind::kUnsupported, "{}: a model of type '{}' has no head for the task {}{} It has: {}", config.where(),
         family->model_type, quoted(task), did_you_mean(task, tasks), fmt::join(tasks, ", "));
  fail(ErrorKind::kUnsupported, "{}: unknown architecture {}{} Known for '{}' are: {}", config.where(),
       quoted(named[0]), did_you_mean(named[0], names), family->model_type, fmt::join(names, ", "));
}

// The names under which older checkpoints hold a parameter.
std::vector<std::string> older_names(const std::string& name) {
  std::vector<std::string> result{name};
  const auto with_end = [&](std::string_view now, std::string_view then) {
    if (name.ends_with(now)) result.push_back(name.substr(0, name.size() - now.size()) + std::string(then));
  };
  with_end("LayerNorm.weight", "LayerNorm.gamma");
  with_end("LayerNorm.bias", "LayerNorm.beta");
  with_end("parametrizations.weight.original0", "weight_g");
  with_end("parametrizations.weight.original1", "weight_v");
  return result;
}

// What older versions of Transformers stored beside the parameters, and newer ones compute: positions, causal masks,
// rotary frequencies.
bool is_buffer(std::string_view name) {
  for (const std::string_view end : {"position_ids", "token_type_ids", ".attn.bias", ".attn.masked_bias",
                                     ".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"})
    if (name.ends_with(end)) return true;
  return false;
}

constexpr size_t kMaximumTensors = 200'000;
constexpr int64_t kMaximumBytes = int64_t{1} << 42;  // of one tensor

class Source : public ParameterSource {
 public:
  Source(const Checkpoint* checkpoint, const Family& family, const LoadOptions& options, DType dtype)
      : checkpoint_(checkpoint), family_(family), options_(options), dtype_(dtype), generator_(options.seed) {}

  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) override {
    auto parameter = loaded(name, {dtype_, shape}, initial);
    if (!parameter->packed) parameter->value.set_requires_grad();
    parameters.push_back(parameter);
    return parameter;
  }

  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    buffers.push_back(loaded(name, type, initial));
    return buffers.back();
  }

  void tied(const std::string& name) override { used_.insert(name); }

  bool holds(const std::string& name) const override {
    if (!checkpoint_) return false;
    for (const std::string& candidate : candidates(name))
      if (checkpoint_->find(candidate) || checkpoint_->find_compressed(candidate)) return true;
    return false;
  }

  // Tensors that no parameter asked for. A checkpoint that gave nothing at all belongs to another model.
  void finish() {
    if (!checkpoint_) return;
    if (!parameters.empty() && report.missing.size() == parameters.size() + buffers.size())
      fail("{}: holds no tensor of the model that config.json describes: expected {} ..., found {}",
           checkpoint_->where(), quoted(report.missing[0]),
           checkpoint_->tensors().empty() ? "none" : quoted(checkpoint_->tensors()[0].first) + " ...");
    for (const auto& [name, view] : checkpoint_->tensors())
      if (!used_.contains(name) && !is_buffer(name)) report.unexpected.push_back(name);
    for (const auto& [name, weight] : checkpoint_->compressed())
      if (!used_.contains(name)) report.unexpected.push_back(name);
    if (!input_scales_.empty())  // layers of integers would hide what is not finite
      for (const auto& [name, view] : checkpoint_->tensors())
        if (used_.contains(name)) expect_finite(view, fmt::format("{}: tensor {}", checkpoint_->where(), quoted(name)));
  }

  // Converts a weight after all that is no linear layer's and no table of the vocabulary, of which rows are read and
  // which heads multiply with.
  void convert_stored(Parameter& parameter, int64_t vocabulary) const {
    const auto stored = stored_.find(&parameter);
    if (stored == stored_.end() || parameter.use == Parameter::Use::kLinear) return;
    if (parameter.use == Parameter::Use::kOther && stored->second.shape.at(0) == vocabulary) return;
    parameter.value = from_view(stored->second, parameter.value.dtype());
  }

  // Codes lie by outputs. Which weights lie [inputs, outputs] is known once the layers are made: those get their value
  // anew, which this says.
  bool turn_coded(Parameter& parameter) {
    const auto coded = coded_.find(&parameter);
    if (coded == coded_.end()) return false;
    const auto& [stored, wanted] = coded->second;
    const bool is_turned = parameter.use == Parameter::Use::kTransposedLinear;
    const Shape shape = is_turned ? turned(stored) : stored;
    if (shape != wanted.shape) {
      replace_mismatched(shape, wanted, parameter);
      return true;
    }
    if (!is_turned || parameter.packed) return false;
    const NoGradient plain;
    parameter.value = permute(parameter.value, {1, 0});
    eval({parameter.value});
    return true;
  }

  std::vector<std::shared_ptr<Parameter>> parameters, buffers;
  LoadReport report;

 private:
  std::shared_ptr<Parameter> loaded(const std::string& name, const Type& type, const Initial& initial) {
    const Shape& shape = type.shape;
    check_size(name, type);
    auto parameter = std::make_shared<Parameter>(Parameter{name, {}});
    if (const CompressedWeight* weight = find_compressed(name)) {
      load_compressed(*weight, type, *parameter);
      return parameter;
    }
    if (const TensorView* view = find(name)) {
      const bool codes = view->dtype == DType::kUInt8 || view->dtype == DType::kInt8;
      if (codes && is_floating(type.dtype) && shape.size() > 1)
        fail("{}: tensor {} holds codes ({}), of which config.json has no quantization_config; expected numbers",
             checkpoint_->where(), quoted(name), name_of(view->dtype));
      if (view->shape == shape && is_kept_stored(*view, type)) {
        parameter->value = cast(Tensor::from_frozen(view->bytes, {view->dtype, view->shape}, view->owner), type.dtype);
        stored_[parameter.get()] = *view;
      } else if (view->shape == shape) parameter->value = from_view(*view, type.dtype);
      else if (options_.ignore_mismatched_sizes) report.mismatched.push_back(name);
      else
        fail(
            "{}: tensor {} has shape {}, the model that config.json describes needs {}; ignore_mismatched_sizes makes "
            "it new",
            checkpoint_->where(), quoted(name), to_string(view->shape), to_string(shape));
    } else if (checkpoint_) {
      report.missing.push_back(name);
    }
    if (!parameter->value.defined()) parameter->value = fresh(type, initial);
    return parameter;
  }

  // Before the layers say whose weight it is: see convert_stored(). Other devices keep no weights of two types at once,
  // and who evaluates such a weight by itself, as eager mode does, gets numbers that are not frozen.
  bool is_kept_stored(const TensorView& view, const Type& type) const {
    return type.dtype == DType::kFloat32 && (view.dtype == DType::kBFloat16 || view.dtype == DType::kFloat16) &&
           type.shape.size() == 2 && options_.quantization == "none" && options_.keep_stored_types &&
           mode() != Mode::kEager && device_name().starts_with("cpu");
  }

  // Codes stay codes, unless the options or the size of their groups want plain numbers.
  void load_compressed(const CompressedWeight& weight, const Type& type, Parameter& parameter) {
    const BlockLayout& layout = weight.matrix->layout();
    const Shape shape = weight.shape.empty() ? Shape{layout.rows, layout.depth} : weight.shape;
    if (shape != type.shape && turned(shape) != type.shape) return replace_mismatched(shape, type, parameter);
    coded_.emplace(&parameter, std::pair(shape, type));
    if (weight.integers && options_.quantization != "decompressed" &&
        (options_.activations != "float32" || options_.quantization == "int8")) {
      parameter.packed = std::make_shared<const PackedMatrix>(integer_matrix(*weight.integers, input_scales_));
      return;
    }
    if (options_.quantization != "decompressed" && weight.shape.empty())
      if (std::optional<PackedMatrix> packed = packed_matrix(weight.matrix, true)) {
        if (options_.activations == "int8" || options_.quantization == "int8")
          packed->activations = rounded_activations(layout);
        else if (options_.activations == "fastest") packed->activations = fast_activations(layout);
        else if (options_.activations == "float8") {
          if (!holds_float8(layout))
            fail(ErrorKind::kUsage, "{}: activations float8: {} has codes of {} bits, expected f8_e4m3fn",
                 checkpoint_->where(), quoted(parameter.name), layout.bits);
          packed->activations = "float8";
        }
        parameter.packed = std::make_shared<const PackedMatrix>(*std::move(packed));
        return;
      }
    parameter.value = from_view(dequantised_view(*weight.matrix, weight.shape), type.dtype);
  }

  static Shape turned(const Shape& shape) { return shape.size() == 2 ? Shape{shape[1], shape[0]} : shape; }

  void replace_mismatched(const Shape& found, const Type& wanted, Parameter& parameter) {
    if (!options_.ignore_mismatched_sizes)
      fail("{}: the compressed weight {} has shape {}, the model that config.json describes needs {}",
           checkpoint_->where(), quoted(parameter.name), to_string(found), to_string(wanted.shape));
    report.mismatched.push_back(parameter.name);
    parameter.packed = nullptr;
    parameter.value = fresh(wanted, Initial::normal(0.02));
  }

  // What a configuration claims is checked before memory is taken for it.
  void check_size(const std::string& name, const Type& type) const {
    if (parameters.size() + buffers.size() >= kMaximumTensors)
      fail(
          "config.json: describes a model of more than {} tensors, up to {}; are num_hidden_layers and the like right?",
          kMaximumTensors, quoted(name));
    int64_t bytes = static_cast<int64_t>(sizeof(float));
    bool fits = true;
    for (const int64_t extent : type.shape) fits &= extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
    if (!fits || bytes > kMaximumBytes) fail("config.json: gives {} the shape {}", name, to_string(type.shape));
  }

  // A body without a head around it has no prefix; a model with a head has.
  std::vector<std::string> candidates(const std::string& name) const {
    std::vector<std::string> names{name, family_.base_prefix + "." + name}, result;
    if (name.starts_with(family_.base_prefix + ".")) names.push_back(name.substr(family_.base_prefix.size() + 1));
    // LlamaForQuestionAnswering and its like have another name for the body, which a checkpoint of a language model
    // does not know.
    constexpr std::string_view kOther = "transformer.";
    if (name.starts_with(kOther) && family_.base_prefix == "model") {
      names.push_back(name.substr(kOther.size()));
      names.push_back(family_.base_prefix + "." + names.back());
    }
    for (const std::string& candidate : names)
      for (const std::string& older : older_names(candidate)) result.push_back(older);
    return result;
  }

  const TensorView* find(const std::string& name) {
    if (!checkpoint_) return nullptr;
    for (const std::string& candidate : candidates(name))
      if (const TensorView* view = checkpoint_->find(candidate)) {
        used_.insert(candidate);
        return view;
      }
    return nullptr;
  }

  const CompressedWeight* find_compressed(const std::string& name) {
    if (!checkpoint_ || checkpoint_->compressed().empty()) return nullptr;
    for (const std::string& candidate : candidates(name))
      if (const CompressedWeight* weight = checkpoint_->find_compressed(candidate)) {
        used_.insert(candidate);
        return weight;
      }
    return nullptr;
  }

  static Tensor from_view(const TensorView& view, DType dtype) {
    const auto frozen = [](const TensorView& in) {
      return Tensor::from_frozen(in.bytes, {in.dtype, in.shape}, in.owner);
    };
    if (view.dtype == dtype) return frozen(view);
    if (const std::optional<TensorView> other = converted_view(view, dtype)) return frozen(*other);
    Tensor converted = cast(frozen(view), dtype);
    eval({converted});
    return converted;
  }

  Tensor fresh(const Type& type, const Initial& initial) {
    const Shape& shape = type.shape;
    const double constant = initial.kind == Initial::Kind::kOnes       ? 1.0
                            : initial.kind == Initial::Kind::kConstant ? initial.deviation
                                                                       : 0.0;
    std::vector<float> values(static_cast<size_t>(elements(shape)), static_cast<float>(constant));
    if (initial.kind == Initial::Kind::kGiven) values = initial.values;
    if (initial.kind == Initial::Kind::kNormal) {
      generator_.fill_normal(values, 0, static_cast<float>(initial.deviation));
      if (initial.zero_row >= 0 && shape.size() == 2 && initial.zero_row < shape[0])
        std::fill_n(values.begin() + initial.zero_row * shape[1], shape[1], 0.0f);
    }
    // As if they had been read: what is computed with fresh weights takes as long as with a checkpoint's.
    const auto held = std::make_shared<const std::vector<float>>(std::move(values));
    return from_view({DType::kFloat32, shape, std::as_bytes(std::span(*held)), held}, type.dtype);
  }

  const Checkpoint* checkpoint_;
  const Family& family_;
  const LoadOptions& options_;
  DType dtype_;
  Mt19937 generator_;
  std::set<std::string> used_;
  SharedInputScales input_scales_;
  std::map<const Parameter*, TensorView> stored_;             // of weights that are cast where they are read
  std::map<const Parameter*, std::pair<Shape, Type>> coded_;  // of weights in codes: their shape, and what is wanted
};

// The type that the weights get: what the options name, else the configuration, else the checkpoint.
DType weight_dtype(const LoadOptions& options, const Config& config, const Checkpoint* checkpoint) {
  if (const std::optional<DType> named = parse_precision(options.dtype, "LoadOptions::dtype")) return *named;
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
      set_field(config, "label_names", labels);
    }
  }
  if (!options.problem_type.empty()) set_field(config, "problem_type", options.problem_type);
}

}  // namespace

namespace {

// Rounds a linear weight by the method of LoadOptions::quantization, where that has codes of its own.
void pack(Parameter& weight, const std::string& quantization) {
  const bool by_row = quantization == "int8_channel";
  if (weight.use == Parameter::Use::kOther || weight.value.rank() != 2) return;
  if (!by_row && (!is_in_block(weight.name) || (quantization != "nf4" && quantization != "fp4"))) return;
  const Tensor rows = weight.use == Parameter::Use::kTransposedLinear ? permute(weight.value, {1, 0}) : weight.value;
  weight.packed = std::make_shared<const PackedMatrix>(by_row ? packed_by_row(rows)
                                                              : packed_in_blocks(rows, four_bit_values(quantization)));
  weight.value = {};
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
    check_quantization(options.quantization, "LoadOptions::quantization");
    check_activations(options.activations, "LoadOptions::activations");
    Source source(checkpoint, *choice.family, options, dtype);
    std::unique_ptr<Model> model = choice.architecture->make(config, Scope(source));
    source.finish();
    if (checkpoint && !report) warn_of_missing(source.report, checkpoint->where());  // who asks for it, says it
    model->precision_ = {.dtype = dtype, .int8 = options.quantization == "int8"};
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
};

std::vector<std::string> input_names_of(const Model& model) { return ModelLoader::inputs(model); }

void complete_model(Model& model, Config config, const std::string& architecture, const fs::path& folder) {
  ModelLoader::complete(model, std::move(config), architecture, folder);
}

std::unique_ptr<Model> Model::from_pretrained(const std::string& name_or_path, const LoadOptions& options,
                                              LoadReport* report) {
  const fs::path folder = resolve_model(name_or_path);
  if (std::unique_ptr<Model> other = load_other_format(folder, options)) return other;
  if (holds_adapters(folder)) return LowRankAdaptation::load(folder, options, report);
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
  return ModelLoader::load(Config::parse(config_json, "the configuration"), {}, nullptr, options, nullptr);
}

}  // namespace transom
