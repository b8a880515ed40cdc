// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "files/checkpoint/safetensors.h"
#include "files/config/model_config.h"
#include "files/hub/adapters.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/loading/adapters/olora.h"
#include "models/loading/weights/missing_weights.h"
#include "models/loading/weights/untied.h"
#include "models/nn/lora.h"
#include "models/nn/weight.h"
#include "models/records.h"
#include "transom/hub.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Parameters = std::vector<std::shared_ptr<Parameter>>;

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

bool is_bias(const std::string& name) { return name == "bias" || name.ends_with(".bias"); }

// The layer that gives words or classes.
bool is_last_layer(const Model& model, const std::string& module) {
  const FamilyHead& head = head_of(model);
  if (std::find(head.vocabulary->begin(), head.vocabulary->end(), module) != head.vocabulary->end()) return true;
  return has_named_classes(head) && module == head.modules->back();
}

// PEFT's name of a head's task, the pipeline of most models that have it, and what PEFT trains with it.
struct TaskType {
  HeadTask head;
  const char *type, *task;
  std::vector<std::string> heads;
};
const TaskType kTaskTypes[] = {
    {HeadTask::kCausalLM, "CAUSAL_LM", "text-generation", {}},
    {HeadTask::kSequenceClassification, "SEQ_CLS", "text-classification", {"classifier", "score"}},
    {HeadTask::kAudioClassification, "SEQ_CLS", "audio-classification", {"classifier", "score"}},
    {HeadTask::kTokenClassification, "TOKEN_CLS", "token-classification", {"classifier", "score"}},
    {HeadTask::kQuestionAnswering, "QUESTION_ANS", "question-answering", {"qa_outputs"}},
    {HeadTask::kSequenceToSequence, "SEQ_2_SEQ_LM", "text2text-generation", {}},
};

// The task of PEFT's name in the family of the model that adapters are for, and its pipeline; null: there is none.
const TaskType* find_task_type(const std::string& type, const fs::path& base, std::string& pipeline) {
  const Family* family = has_model_config(base) ? find_family(read_model_config(base)) : nullptr;
  const TaskType* found = nullptr;
  for (const TaskType& task : kTaskTypes) {
    if (type != task.type) continue;
    const Architecture* own = family ? find_architecture(*family, task.head) : nullptr;
    if (!found || own) found = &task, pipeline = own ? own->head.pipelines->front() : task.task;
    if (own) break;
  }
  return found;
}

// What the configuration does not say follows from the model.
void complete(LoraConfig& config, const Model& model) {
  if (!config.says_targets()) {
    const Family* family = find_family(model.config());
    if (!family || family->weights.lora_targets->empty())
      fail(ErrorKind::kUsage,
           "lora_target_modules: there is no custom for models of type {}; name the modules, or give all-linear",
           transom::quoted(model.config().get_string("model_type", "")));
    config.set("target_modules", *family->weights.lora_targets);
  }
  for (const TaskType& task : kTaskTypes) {
    if (config.task_type().empty() ? *head_of(model).task != task.head : config.task_type() != task.type) continue;
    config.set("task_type", task.type);
    std::vector<std::string> saved = config.modules_to_save();
    for (const std::string& head : task.heads)
      if (std::find(saved.begin(), saved.end(), head) == saved.end()) saved.push_back(head);
    if (!saved.empty()) config.set("modules_to_save", saved);
    break;
  }
}

std::shared_ptr<Parameter> new_parameter(std::string name, const std::vector<float>& values, const Shape& shape) {
  auto parameter = std::make_shared<Parameter>();
  parameter->name = std::move(name);
  parameter->value = Tensor::from(values, shape);
  parameter->value.set_requires_grad();
  return parameter;
}

// As torch.nn.Linear draws its weights (kaiming_uniform_ with a = sqrt 5) and biases for this many inputs.
std::vector<float> draw_linear(Mt19937& generator, int64_t count, int64_t inputs) {
  std::vector<float> values(static_cast<size_t>(count));
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(inputs)));
  generator.fill_uniform(values, -bound, bound);
  return values;
}

// The values of A [rank, in], B [out, rank] and B's bias [out].
struct Values {
  std::vector<float> a, b, b_bias;
};

Values draw(Mt19937& generator, int64_t rank, int64_t in, int64_t out, LoraConfig::Initial initial) {
  Values values{.a = std::vector<float>(static_cast<size_t>(rank * in)),
                .b = std::vector<float>(static_cast<size_t>(out * rank)),
                .b_bias = std::vector<float>(static_cast<size_t>(out))};
  if (initial == LoraConfig::Initial::kGaussian) generator.fill_normal(values.a, 0, 1 / static_cast<float>(rank));
  else values.a = draw_linear(generator, rank * in, in);
  if (initial == LoraConfig::Initial::kBothLinear) {
    values.b = draw_linear(generator, out * rank, rank);
    values.b_bias = draw_linear(generator, out, rank);
  }
  return values;
}

void set_frozen(Parameter& parameter, Tensor value) {
  eval({value});
  const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
  parameter.value = Tensor::from_frozen(*bytes, value.type(), bytes);
}

// OLoRA's A and B of a weight, whose product is taken out of it.
Values take_out_product(Parameter& weight, int64_t rank, double scaling, const std::string& where) {
  if (weight.packed || weight.use == Parameter::Use::kTransposedLinear)
    fail(ErrorKind::kUnsupported,
         "{}: init_lora_weights = \"olora\" is carried out for plain weights [out, in], {} is {}", where, weight.name,
         weight.packed ? "compressed" : "held as [in, out]");
  const int64_t out = weight.value.dim(0), in = weight.value.dim(1);
  if (rank > std::min(out, in))
    fail("{}: r: expected at most {} for {} with init_lora_weights = \"olora\", found {}", where, std::min(out, in),
         weight.name, rank);
  const Tensor wide = cast(weight.value, DType::kFloat32);
  PartOfQr part = part_of_qr(wide.to_vector<float>(), out, in, rank);
  const Tensor b = Tensor::from(part.q, {out, rank}), a = Tensor::from(part.r, {rank, in});
  set_frozen(weight, cast(wide - dot_general(b, a, {{}, {}, {1}, {0}}, kAsGiven) * scaling, weight.value.dtype()));
  return {std::move(part.r), std::move(part.q), {}};
}

constexpr std::string_view kMagnitude = ".lora_magnitude_vector.weight";  // as PEFT names it in memory

// adapter_model.safetensors; names without the prefix and `base_layer`.
struct AdapterTensors {
  NamedViews views;
  std::string where;

  explicit AdapterTensors(const fs::path& directory) {
    if (!path_exists(directory / kAdapterFile)) fail("{}: expected {}, found none", directory.string(), kAdapterFile);
    where = (directory / kAdapterFile).string();
    for (auto& [name, view] : SafetensorsFile::open(directory / kAdapterFile).tensors()) {
      // With bias "all" PEFT saves those of the modules to save once more, under the names of its own wrappers.
      if (name.find(".modules_to_save.") != name.npos || name.find(".original_module.") != name.npos) continue;
      std::string key = name.starts_with(kAdapterPrefix) ? name.substr(kAdapterPrefix.size()) : name;
      if (const size_t place = key.find(".base_layer."); place != key.npos) key.erase(place, 11);
      if (key.ends_with(kMagnitude)) key.resize(key.size() - std::string_view(".weight").size());
      views.emplace_back(std::move(key), view);
    }
  }
  const TensorView* find(std::string_view name) const {
    for (const auto& [key, view] : views)
      if (key == name) return &view;
    return nullptr;
  }
};

// [rows, columns] of a weight as the checkpoint has it; codes are always [out, in].
Shape shape_of(const Parameter& weight) {
  if (!weight.packed) return weight.value.shape();
  const bool turned = weight.use == Parameter::Use::kTransposedLinear;
  return turned ? Shape{weight.packed->depth, weight.packed->rows} : Shape{weight.packed->rows, weight.packed->depth};
}

// Codes are not trained: a weight that is, becomes plain numbers.
void make_plain(Parameter& weight) {
  if (!weight.packed) return;
  Tensor value = unpacked(weight, DType::kFloat32);
  eval({value});
  weight.value = Tensor::from_bytes(value.to_bytes(), value.type());
  weight.packed = nullptr;
  weight.value.set_requires_grad();
}

std::string without_prefix(const std::string& key) {
  std::string name = key.substr(kAdapterPrefix.size());
  if (const size_t place = name.find(".base_layer."); place != name.npos) name.erase(place, 11);
  return name;
}

}  // namespace

std::string task_of_adapters(const fs::path& directory) {
  std::string pipeline;
  find_task_type(Config::read(directory / kAdapterConfig).get_string("task_type", ""), base_of_adapters(directory),
                 pipeline);
  return pipeline;
}

bool holds_adapters(const fs::path& directory) { return path_exists(directory / kAdapterConfig); }

bool Adaptation::attach(Model& model, uint64_t seed) {
  if (model.adaptation_) fail("the model has adapters already; merge them before new ones are added");
  Mt19937 generator(seed);
  Parameters trained, frozen;
  std::set<std::string> adapted;
  const auto save = [&](std::string key, const std::shared_ptr<Parameter>& parameter) {
    saved_.push_back({std::move(key), parameter});
    trained.push_back(parameter);
  };
  std::vector<std::string> others;  // modules of the right names that cannot have adapters
  Parameters all = model.frozen_;   // codes
  all.insert(all.end(), model.parameters_.begin(), model.parameters_.end());
  for (const auto& weight : all) {
    const std::string module = module_of(weight->name);
    if (!weight->name.ends_with(".weight") || shape_of(*weight).size() < 2) continue;
    if (!config_.targets(module, is_last_layer(model, module))) continue;
    const bool turned = weight->use == Parameter::Use::kTransposedLinear;
    if (!turned && weight->use != Parameter::Use::kLinear && !is_last_layer(model, module)) {
      others.push_back(module);
      continue;
    }
    if (turned) config_.set("fan_in_fan_out", true);  // as PEFT notes it
    const Shape shape = shape_of(*weight);
    const int64_t out = shape[turned ? 1 : 0], in = shape[turned ? 0 : 1];
    const int64_t rank = config_.rank(module);
    auto adapter = std::make_shared<LowRankAdapter>();
    const std::string key = std::string(kAdapterPrefix) + module;
    adapter->scaling = config_.scaling(module);
    adapter->dropout = config_.dropout();
    const LoraConfig::Initial initial = config_.initial();
    const Values values = initial == LoraConfig::Initial::kOrthonormal
                              ? take_out_product(*weight, rank, adapter->scaling, config_.where())
                              : draw(generator, rank, in, out, initial);
    adapter->a = new_parameter(key + ".lora_A.weight", values.a, {rank, in});
    adapter->b = new_parameter(key + ".lora_B.weight", values.b, {out, rank});
    if (config_.lora_bias()) adapter->b_bias = new_parameter(key + ".lora_B.bias", values.b_bias, {out});
    if (config_.use_dora())
      adapter->magnitude = new_parameter(key + ".lora_magnitude_vector",
                                         row_lengths(*weight, *adapter, kAsGiven).to_vector<float>(), {out});
    for (const auto& parameter : {adapter->a, adapter->b, adapter->b_bias, adapter->magnitude})
      if (parameter) save(parameter->name, parameter);
    weight->adapter = std::move(adapter);
    adapted.insert(module);
  }
  if (!others.empty() && !config_.targets_all())
    fail("{}: target_modules: {} is no linear layer that can have an adapter", config_.where(),
         transom::quoted(others[0]));
  if (adapted.empty()) {
    std::set<std::string> names;
    for (const auto& weight : all)
      if (weight->use != Parameter::Use::kOther) {
        const std::string module = module_of(weight->name);
        names.insert(module.substr(module.rfind('.') + 1));
      }
    fail("{}: target_modules: expected names of linear layers, found none of {}", config_.where(),
         fmt::join(names, ", "));
  }
  const std::string bias = config_.bias();
  bool saves_any = false;
  for (const auto& parameter : all) {
    const std::string module = module_of(parameter->name);
    const bool whole = config_.saves(parameter->name), with_adapter = adapted.contains(module);
    saves_any |= whole;
    if (whole) make_plain(*parameter);
    if (whole) save(std::string(kAdapterPrefix) + parameter->name, parameter);
    else if (is_bias(parameter->name) && (bias == "all" || (bias == "lora_only" && with_adapter)))
      save(std::string(kAdapterPrefix) + module + (with_adapter ? ".base_layer.bias" : ".bias"), parameter);
    else frozen.push_back(parameter);
  }
  for (const auto& parameter : frozen)
    if (!parameter->packed) parameter->value = parameter->value.detach();
  model.parameters_ = std::move(trained);
  frozen_ = frozen;
  model.frozen_ = std::move(frozen);
  return saves_any;
}

void Adaptation::add(Model& model, LoraConfig config, uint64_t seed) {
  complete(config, model);
  if (saves_shared_weight(model, config))
    fail(ErrorKind::kUnsupported,
         "{}: modules_to_save: expected a head with a weight of its own, as PEFT makes it, found one that shares the "
         "weight of {}; save the model with tie_word_embeddings false first",
         config.where(), fmt::join(config.modules_to_save(), ", "));
  std::shared_ptr<Adaptation> adaptation(new Adaptation(std::move(config)));
  const LoraConfig& all = adaptation->config_;
  // Of adapters that are read, a name without a module is as harmless as PEFT takes it.
  if (!adaptation->attach(model, seed) && !all.modules_to_save().empty())
    fail("{}: modules_to_save: the model has no module {}", all.where(), fmt::join(all.modules_to_save(), ", "));
  model.adaptation_ = std::move(adaptation);
}

void Adaptation::load_values(const fs::path& directory) const {
  const AdapterTensors tensors(directory);
  std::set<std::string> known;
  for (const Saved& saved : saved_) {
    const std::string name = without_prefix(saved.key);
    known.insert(name);
    const TensorView* view = tensors.find(name);
    if (!view) fail("{}: expected a tensor {}, found none", tensors.where, transom::quoted(saved.key));
    if (view->shape != saved.parameter->value.shape())
      fail("{}: tensor {} has shape {}, the model needs {}", tensors.where, transom::quoted(saved.key),
           to_string(view->shape), to_string(saved.parameter->value.shape()));
    saved.parameter->value = cast(Tensor::from_bytes(view->bytes, {view->dtype, view->shape}), DType::kFloat32);
    eval({saved.parameter->value});
    saved.parameter->value.set_requires_grad();
  }
  // PEFT saves tables of tokens and heads as they are, where these are targets or have grown.
  for (const auto& [name, view] : tensors.views) {
    if (known.contains(name)) continue;
    const auto same = [&name = name](const auto& parameter) { return parameter->name == name; };
    const auto parameter = std::find_if(frozen_.begin(), frozen_.end(), same);
    if (parameter == frozen_.end() || (*parameter)->packed)
      fail("{}: tensor {} belongs to no adapter that adapter_config.json describes", tensors.where,
           transom::quoted(name));
    if (view.shape != (*parameter)->value.shape())
      fail("{}: tensor {} has shape {}, the model needs {}", tensors.where, transom::quoted(name),
           to_string(view.shape), to_string((*parameter)->value.shape()));
    set_frozen(**parameter,
               cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), (*parameter)->value.dtype()));
  }
}

bool Adaptation::merge(Model& model) {
  Parameters all = model.frozen_;
  std::map<std::string, std::shared_ptr<Parameter>> biases;
  for (const auto& parameter : model.parameters_)
    if (parameter->name.find(".lora_") == std::string::npos) all.push_back(parameter);
  for (const auto& parameter : all)
    if (is_bias(parameter->name)) biases[module_of(parameter->name)] = parameter;
  for (const auto& parameter : all)
    if (parameter->adapter && parameter->adapter->needs_bias() && !biases.contains(module_of(parameter->name)))
      return false;
  for (const auto& parameter : all) {
    make_plain(*parameter);
    if (parameter->adapter) {
      set_frozen(*parameter, parameter->adapter->merged(*parameter));
      if (const auto found = biases.find(module_of(parameter->name)); found != biases.end())
        set_frozen(*found->second, parameter->adapter->merged_bias(found->second->value));
      parameter->adapter.reset();
    }
  }
  for (const auto& parameter : all) parameter->value.set_requires_grad();
  model.parameters_ = std::move(all);
  model.frozen_.clear();
  return true;
}

std::unique_ptr<Model> Adaptation::load(const fs::path& directory, LoadOptions options, LoadReport* report) {
  const bool keep = options.keep_adapters;
  for (const char* codes : {"int8_channel", "nf4", "fp4"})
    if (options.quantization == codes && !keep)
      fail(ErrorKind::kUsage, "{}: quantization: adapters are merged into weights of none or int8, found {}",
           directory.string(), codes);
  LoraConfig config(Config::read(directory / kAdapterConfig));
  const AdapterTensors tensors(directory);
  std::string pipeline;
  if (const TaskType* task = find_task_type(config.task_type(), base_of_adapters(directory), pipeline)) {
    if (options.task.empty()) options.task = pipeline;
    // The base model may have had another number of classes: the saved head tells it.
    for (const std::string& head : task->heads)
      for (const std::string& name : {head + ".weight", head + ".out_proj.weight"})
        if (const TensorView* view = tensors.find(name); view && !options.num_labels && options.labels.empty()) {
          const int64_t labels = view->shape.at(0);
          if (std::vector<std::string> names = classes_of_adapters(directory);
              static_cast<int64_t>(names.size()) == labels && task->head != HeadTask::kQuestionAnswering) {
            options.labels = std::move(names);
            continue;
          }
          const Config base = Config::read(base_of_adapters(directory) / "config.json");
          if (labels != static_cast<int64_t>(base.get_map("id2label").size()) &&
              task->head != HeadTask::kQuestionAnswering)
            options.num_labels = labels;
        }
  }
  options.keep_adapters = false;
  // Adapters are merged into plain weights; they are kept beside codes, too.
  if (keep && options.quantization == "decompressed") options.quantization = "none";
  if (!keep && options.quantization == "none") options.quantization = "decompressed";
  LoadReport of_base;
  std::unique_ptr<Model> model = load_base(base_of_adapters(directory).string(), config, options, &of_base);
  std::shared_ptr<Adaptation> adaptation(new Adaptation(std::move(config)));
  adaptation->attach(*model, options.seed);
  adaptation->load_values(directory);
  // What the base model lacks and the adapters bring, a head for instance, is not missing.
  std::erase_if(of_base.missing, [&](const std::string& name) { return tensors.find(name) != nullptr; });
  if (report) *report = std::move(of_base);
  else warn_of_missing(of_base, base_of_adapters(directory).string());
  if (keep || !merge(*model)) model->adaptation_ = std::move(adaptation);
  return model;
}

void Adaptation::save(const fs::path& directory) const {
  NamedViews views;
  for (const Saved& saved : saved_) {
    const Tensor& value = saved.parameter->value;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    views.emplace_back(saved.key, TensorView{value.dtype(), value.shape(), *bytes, bytes});
  }
  write_safetensors(directory / kAdapterFile, views);
  LoraConfig config = config_;
  config.set("inference_mode", true);
  write_file(directory / kAdapterConfig, config.dump());
}

}  // namespace transom
