// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adaptation.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/checkpoint/safetensors.h"
#include "files/hub/adapters.h"
#include "models/loading/adapters/adapted_weights.h"
#include "models/loading/adapters/adapter_tasks.h"
#include "models/loading/weights/missing_weights.h"
#include "models/loading/weights/untied.h"
#include "models/nn/weight.h"
#include "models/records.h"
#include "models/replace_value.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Parameters = std::vector<std::shared_ptr<Parameter>>;

bool is_bias(const std::string& name) { return name == "bias" || name.ends_with(".bias"); }

void set_frozen(Parameter& parameter, Tensor value) {
  eval({value});
  const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
  parameter.value = Tensor::from_frozen(*bytes, value.type(), bytes);
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

}  // namespace

void complete_adapters(AdapterConfig& config, const Model& model) {
  const AdapterKind& kind = config.kind();
  if (kind.complete) kind.complete(config, model);
  if (kind.attach && !config.says_targets()) {
    const Family* family = find_family(model.config());
    std::vector<std::string> targets;
    if (family && kind.usual_targets) targets = kind.usual_targets(family->weights);
    if (targets.empty())
      fail(ErrorKind::kUsage, "target_modules: there is no custom of {} for {}; name the modules{}", kind.type,
           model.architecture(), kind.takes_linear ? ", or give all-linear" : "");
    config.set("target_modules", targets);
  }
  complete_task(config, model);
}

std::string task_of_adapters(const fs::path& directory) {
  std::string pipeline;
  find_adapter_task(Config::read(directory / kAdapterConfig).get_string("task_type", ""), base_of_adapters(directory),
                    pipeline);
  return pipeline;
}

// ---- adapters of a model that they belong to

class Adaptation::Making : public AdapterMaking {
 public:
  Making(Adaptation& adaptation, Model& model, uint64_t seed)
      : AdapterMaking(adaptation.config_, model, seed), adaptation_(adaptation), model_(model) {
    all_ = model.frozen_;  // codes
    all_.insert(all_.end(), model.parameters_.begin(), model.parameters_.end());
  }

  std::shared_ptr<Parameter> tensor(const std::string& name, const Shape& shape,
                                    const std::function<std::vector<float>()>& initial, Kept kept) override {
    auto parameter = std::make_shared<Parameter>();
    parameter->value = Tensor::from(initial(), shape);
    parameter->name = key_of_name(name, kept);
    if (kept == Kept::kSaved || kept == Kept::kTraining) {
      parameter->value.set_requires_grad();
      trained_.push_back(parameter);
    } else if (kept == Kept::kState) {
      model_.buffers_.push_back(parameter);
    } else {
      constants_.push_back(parameter);
    }
    if (kept != Kept::kOfMemory) adaptation_.saved_.push_back({parameter->name, name, parameter, kept});
    adaptation_.made_.insert(parameter.get());
    return parameter;
  }
  void give(const AdaptedWeight& target, std::shared_ptr<const WeightAdapter> adapter) override {
    target.weight->adapter = std::move(adapter);
    adapted_.insert(target.module);
  }
  void train(const std::shared_ptr<Parameter>& parameter, const std::string& name) override {
    make_plain(*parameter);
    whole_.insert(parameter.get());
    save_whole(parameter, std::string(config.kind().prefix) + name);
  }
  void change(const AdaptedWeight& target, const Tensor& value, std::string_view) override {
    set_frozen(*target.weight, value);
  }
  void set_training(std::shared_ptr<AdapterTraining> training) override { adaptation_.training_ = std::move(training); }
  std::shared_ptr<Parameter> plain_weight(const std::string& name) override {
    if (!plain_) plain_ = Model::from_pretrained(config.base_model(), {.quantization = "decompressed"});
    std::shared_ptr<Parameter> found = find_parameter(*plain_, name);
    if (!found)
      fail("{}: base_model_name_or_path {} has no tensor {}, whose codes the model holds", config.where(),
           config.base_model(), transom::quoted(name));
    return found;
  }
  bool reads_training() const override { return adaptation_.source_ == Source::kFileForTraining; }
  bool reads_file() const override { return adaptation_.source_ != Source::kNew; }

  // Which of the model's own parameters are trained, and all others frozen. Gives whether modules to save were found.
  bool finish() {
    Parameters frozen = std::move(constants_);
    const std::string bias = config.bias();
    bool saves_any = false;
    for (const auto& parameter : all_) {
      if (whole_.contains(parameter.get())) continue;
      const std::string module = module_of(parameter->name), prefix(config.kind().prefix);
      const bool whole = config.kind().saves_modules && config.saves(parameter->name),
                 with_adapter = adapted_.contains(module);
      saves_any |= whole;
      if (whole) make_plain(*parameter);
      if (whole) save_whole(parameter, prefix + parameter->name);
      else if (is_bias(parameter->name) && bias != "none" && (bias == "all" || with_adapter))
        save_whole(parameter, prefix + module + (with_adapter ? ".base_layer.bias" : ".bias"));
      else frozen.push_back(parameter);
    }
    for (const auto& parameter : frozen)
      if (!parameter->packed) parameter->value = parameter->value.detach();
    model_.parameters_ = std::move(trained_);
    adaptation_.frozen_ = frozen;
    model_.frozen_ = std::move(frozen);
    return saves_any;
  }

 private:
  // Names without a dot belong to no module.
  std::string key_of_name(const std::string& name, Kept kept) const {
    if (kept == Kept::kTraining || kept == Kept::kState || config.kind().virtual_tokens) return name;
    return (name.find('.') == name.npos ? "base_model." : std::string(config.kind().prefix)) + name;
  }
  void save_whole(const std::shared_ptr<Parameter>& parameter, const std::string& key) {
    adaptation_.saved_.push_back({key, name_in_model(key, config.kind()), parameter, Kept::kSaved});
    trained_.push_back(parameter);
  }

  Adaptation& adaptation_;
  Model& model_;
  Parameters all_, trained_, constants_;
  std::set<const Parameter*> whole_;
  std::set<std::string> adapted_;
  std::unique_ptr<Model> plain_;
};

bool Adaptation::attach(Model& model, uint64_t seed) {
  if (model.adaptation_) fail("the model has adapters already; merge them before new ones are added");
  const AdapterKind& kind = config_.kind();
  Making making(*this, model, seed);
  if (kind.attach) {
    making.targets = adapted_weights(config_, model);
    kind.attach(making);
  }
  if (kind.virtual_tokens) tokens_ = kind.virtual_tokens(making);
  return making.finish();
}

namespace {

// A name that somebody gave and no module has is a slip more often than not; PEFT says nothing.
void say_unknown_targets(const AdapterConfig& config, const Model& model) {
  const Json targets = json_of(config.fields()).value("target_modules", Json());
  if (!targets.is_array()) return;
  std::string names;
  for (const auto* group : {&model.frozen(), &model.parameters()})
    for (const std::shared_ptr<Parameter>& weight : *group) names += "." + module_of(weight->name) + ".\n";
  std::vector<std::string> unknown;
  for (const Json& target : targets)
    if (target.is_string() && names.find("." + target.get<std::string>() + ".\n") == names.npos)
      unknown.push_back(transom::quoted(target.get<std::string>()));
  if (!unknown.empty() && unknown.size() < targets.size())
    log(LogLevel::kWarning, fmt::format("{}: target_modules: no module is called {}; the others are adapted",
                                        config.where(), fmt::join(unknown, ", ")));
}

}  // namespace

void Adaptation::add(Model& model, AdapterConfig config, uint64_t seed) {
  if (config.says_targets()) say_unknown_targets(config, model);
  complete_adapters(config, model);
  if (parts_shared_weight(model, config))
    fail(ErrorKind::kUnsupported,
         "{}: expected a head with a weight of its own, as PEFT makes it for modules_to_save and target_modules, found "
         "one that shares the weight of the table of tokens; save the model with tie_word_embeddings false first",
         config.where());
  std::shared_ptr<Adaptation> adaptation(new Adaptation(std::move(config)));
  const AdapterConfig& all = adaptation->config_;
  // Of adapters that are read, a name without a module is as harmless as PEFT takes it.
  if (!adaptation->attach(model, seed) && all.kind().saves_modules && !all.modules_to_save().empty())
    fail("{}: modules_to_save: the model has no module {}", all.where(), fmt::join(all.modules_to_save(), ", "));
  model.adaptation_ = std::move(adaptation);
}

std::string Adaptation::unmerged() const {
  if (!config_.kind().unmerged.empty()) return std::string(config_.kind().unmerged);
  return "lora_bias: expected layers with biases to merge into, found one without";
}

void expect_merged(const Model& model) {
  if (const Adaptation* adaptation = model.adaptation())
    fail(ErrorKind::kUnsupported, "{}: peft_type {} cannot be merged into weights: {}", adaptation->config().where(),
         adaptation->config().kind().type, adaptation->unmerged());
}

bool Adaptation::merge(Model& model) const {
  if (!config_.kind().unmerged.empty()) return false;
  Parameters all = model.frozen_;
  all.insert(all.end(), model.parameters_.begin(), model.parameters_.end());
  const auto is_made = [&](const std::shared_ptr<Parameter>& parameter) { return made_.contains(parameter.get()); };
  std::erase_if(all, is_made);
  std::map<std::string, std::shared_ptr<Parameter>> biases;
  for (const auto& parameter : all)
    if (is_bias(parameter->name)) biases[module_of(parameter->name)] = parameter;
  for (const auto& parameter : all)
    if (parameter->adapter && parameter->adapter->needs_bias() && !biases.contains(module_of(parameter->name)))
      return false;
  for (const auto& parameter : all) {
    make_plain(*parameter);
    if (!parameter->adapter) continue;
    set_frozen(*parameter, parameter->adapter->merged(*parameter));
    if (const auto found = biases.find(module_of(parameter->name)); found != biases.end())
      set_frozen(*found->second, parameter->adapter->merged_bias(found->second->value));
    parameter->adapter.reset();
  }
  for (const auto& parameter : all) parameter->value.set_requires_grad();
  model.parameters_ = std::move(all);
  model.frozen_.clear();
  std::erase_if(model.buffers_, is_made);
  return true;
}

// ---- directories

void Adaptation::take(const Saved& saved, const TensorView& view, const std::string& where) const {
  if (view.shape != saved.parameter->value.shape())
    fail("{}: tensor {} has shape {}, the model needs {}", where, transom::quoted(saved.key), to_string(view.shape),
         to_string(saved.parameter->value.shape()));
  const Tensor value = cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32);
  eval({value});
  replace_value(*saved.parameter, value);
}

void Adaptation::load_values(const fs::path& directory) {
  const AdapterKind& kind = config_.kind();
  const AdapterFile file(directory, kind), training(directory, kind, true);
  std::set<std::string> known;
  for (const Saved& saved : saved_) {
    known.insert(saved.name);
    const TensorView* beside = source_ == Source::kFile ? nullptr : training.find(saved.name);
    const TensorView* view = beside ? beside : file.find(saved.name);
    if (!view && saved.kept == AdapterMaking::Kept::kState) continue;  // as it begins
    if (!view && saved.kept == AdapterMaking::Kept::kTraining)
      fail(
          "{}: expected a tensor {}, found none: PEFT keeps what made the virtual tokens in no file; train on from "
          "them by --model_name_or_path",
          training.where(), transom::quoted(saved.key));
    if (!view) fail("{}: expected a tensor {}, found none", file.where(), transom::quoted(saved.key));
    take(saved, *view, beside ? training.where() : file.where());
  }
  if (kind.as_saved && path_exists(directory / kAdapterConfig)) {
    const Config saved_config = Config::read(directory / kAdapterConfig);
    if (saved_config.has("rank_pattern")) config_.set("rank_pattern", json_of(saved_config).at("rank_pattern"));
  }
  for (const auto& [name, view] : file.views()) {
    if (known.contains(name) || (tokens_ && name == "prompt_embeddings")) continue;
    take_of_model(name, view, file.where());
  }
}

// PEFT saves tables of tokens and heads as they are, where these are targets or have grown, and rows of a table once
// more for the head that shares it.
void Adaptation::take_of_model(const std::string& name, const TensorView& view, const std::string& where) const {
  constexpr std::string_view kRows = ".trainable_tokens_delta";
  const bool is_copy = name.ends_with(kRows) && std::any_of(saved_.begin(), saved_.end(), [&](const Saved& saved) {
                         return saved.name.ends_with(kRows) && saved.parameter->value.shape() == view.shape;
                       });
  if (is_copy) return;
  const auto same = [&](const auto& parameter) { return parameter->name == name; };
  const auto parameter = std::find_if(frozen_.begin(), frozen_.end(), same);
  if (parameter == frozen_.end() || (*parameter)->packed)
    fail("{}: tensor {} belongs to no adapter that adapter_config.json describes", where, transom::quoted(name));
  if (view.shape != (*parameter)->value.shape())
    fail("{}: tensor {} has shape {}, the model needs {}", where, transom::quoted(name), to_string(view.shape),
         to_string((*parameter)->value.shape()));
  set_frozen(**parameter, cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), (*parameter)->value.dtype()));
}

namespace {

// The base model may have had another number of classes: the saved head tells it.
void take_classes(LoadOptions& options, const AdapterFile& file, const AdapterTask& task, const fs::path& directory) {
  if (task.head == HeadTask::kQuestionAnswering) return;
  for (const std::string& head : task.heads)
    for (const std::string& name : {head + ".weight", head + ".out_proj.weight"}) {
      const TensorView* view = file.find(name);
      if (!view || view->shape.empty() || options.num_labels || !options.labels.empty()) continue;
      const int64_t labels = view->shape.at(0);
      if (std::vector<std::string> names = classes_of_adapters(directory);
          static_cast<int64_t>(names.size()) == labels) {
        options.labels = std::move(names);
        continue;
      }
      const Config base = Config::read(base_of_adapters(directory) / "config.json");
      if (labels != static_cast<int64_t>(base.get_map("id2label").size())) options.num_labels = labels;
    }
}

}  // namespace

std::unique_ptr<Model> Adaptation::load(const fs::path& directory, LoadOptions options, LoadReport* report) {
  AdapterConfig config(Config::read(directory / kAdapterConfig));
  const AdapterKind& kind = config.kind();
  const bool keep = options.keep_adapters, stays = keep || !kind.unmerged.empty();
  for (const Quantization codes : {Quantization::kInt8Channel, Quantization::kNf4, Quantization::kFp4})
    if (options.quantization == codes && !stays)
      fail(ErrorKind::kUsage, "{}: quantization: adapters are merged into weights of none or int8, found {}",
           directory.string(), options.quantization.name());
  const AdapterFile file(directory, kind);
  std::string pipeline;
  if (const AdapterTask* task = find_adapter_task(config.task_type(), base_of_adapters(directory), pipeline)) {
    if (options.task.empty()) options.task = pipeline;
    take_classes(options, file, *task, directory);
  }
  options.keep_adapters = false;
  // Adapters are merged into plain weights; they are kept beside codes, too.
  if (keep && options.quantization == Quantization::kDecompressed) options.quantization = Quantization::kNone;
  if (!stays && options.quantization == Quantization::kNone) options.quantization = Quantization::kDecompressed;
  LoadReport of_base;
  std::unique_ptr<Model> model = load_base(base_of_adapters(directory).string(), config, options, &of_base);
  std::shared_ptr<Adaptation> adaptation(new Adaptation(std::move(config)));
  const bool goes_on = keep && path_exists(directory / kAdapterTrainingFile);
  adaptation->source_ = goes_on ? Source::kFileForTraining : Source::kFile;
  adaptation->attach(*model, options.seed);
  adaptation->load_values(directory);
  // What the base model lacks and the adapters bring, a head for instance, is not missing.
  std::erase_if(of_base.missing, [&](const std::string& name) { return file.find(name) != nullptr; });
  if (report) *report = std::move(of_base);
  else warn_of_missing(of_base, base_of_adapters(directory).string());
  if (keep || !adaptation->merge(*model)) model->adaptation_ = std::move(adaptation);
  return model;
}

void Adaptation::save(const fs::path& directory) const {
  using Kept = AdapterMaking::Kept;
  const AdapterKind& kind = config_.kind();
  NamedViews for_peft, for_training;
  const auto add = [](NamedViews& views, const std::string& key, const Tensor& value) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    views.emplace_back(key, TensorView{value.dtype(), value.shape(), *bytes, bytes});
  };
  bool has_tokens = false;
  for (const Saved& saved : saved_) {
    const Tensor& value = saved.parameter->value;
    const bool beside = saved.kept == Kept::kTraining || saved.kept == Kept::kState;
    if (beside || kind.as_saved) add(for_training, beside ? saved.key : saved.name, value);
    if (beside) continue;
    has_tokens |= saved.key == "prompt_embeddings";
    add(for_peft, saved.key, kind.as_saved ? kind.as_saved(config_, saved.name, value) : value);
  }
  if (tokens_ && !has_tokens) add(for_peft, "prompt_embeddings", tokens_->saved());
  write_safetensors(directory / kAdapterFile, for_peft);
  if (!for_training.empty()) write_safetensors(directory / kAdapterTrainingFile, for_training);
  AdapterConfig config = config_;
  config.set("inference_mode", true);
  write_file(directory / kAdapterConfig, config.dump());
}

}  // namespace transom
