// SPDX-License-Identifier: Apache-2.0
// As initialize_lora_eva_weights of PEFT 0.21: layers that read the same share their components; a layer may get up to
// rho times its rank, and all together no more than they had.
#include "models/loading/adapters/initial/eva.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/adapted_weights.h"
#include "models/loading/adapters/initial/incremental_pca.h"
#include "models/nn/linear_observer.h"
#include "models/replace_value.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr double kMostRho = 1000;       // above it a layer may get all that it has
constexpr int64_t kMostBatches = 1000;  // that are read until components stay

struct EvaOptions {
  double rho = 2, tau = 0.99;
  bool whiten = false, adjusts_scales = true;
};

EvaOptions eva_options(AdapterConfig& config) {
  Json fields = {{"rho", 2.0},
                 {"tau", 0.99},
                 {"use_label_mask", true},
                 {"label_mask_value", -100},
                 {"whiten", false},
                 {"adjust_scaling_factors", true}};
  const Json& all = json_of(config.fields());
  if (all.contains("eva_config") && all["eva_config"].is_object())
    for (const auto& [name, value] : all["eva_config"].items()) {
      if (!fields.contains(name) || fields[name].is_boolean() != value.is_boolean() || value.is_string())
        fail(ErrorKind::kUsage,
             "{}: eva_config: expected rho, tau, use_label_mask, label_mask_value, whiten or "
             "adjust_scaling_factors with a value of its kind, found {} = {}",
             config.where(), name, dump_json(value));
      fields[name] = value;
    }
  EvaOptions options{fields["rho"], fields["tau"], fields["whiten"], fields["adjust_scaling_factors"]};
  if (!(options.rho >= 1))
    fail(ErrorKind::kUsage, "{}: eva_config: rho: expected at least 1, found {}", config.where(), options.rho);
  if (!(options.tau >= 0 && options.tau <= 1))
    fail(ErrorKind::kUsage, "{}: eva_config: tau: expected a number from 0 to 1, found {}", config.where(),
         options.tau);
  config.set("eva_config", fields);
  return options;
}

// What the layers of some weights read in a pass: the numbers of the tokens that count, [rows, in].
class ReadRows : public LinearObserver {
 public:
  explicit ReadRows(const std::vector<AdaptedWeight>& targets) {
    for (size_t i = 0; i < targets.size(); ++i) places_[targets[i].weight.get()] = i;
    read_.resize(targets.size());
  }
  void before(const Tensor& x, const Parameter& weight, const Computing&) override {
    if (const auto found = places_.find(&weight); found != places_.end() && !read_[found->second].defined())
      read_[found->second] = x;
  }
  const std::vector<Tensor>& read() const { return read_; }

 private:
  std::map<const Parameter*, size_t> places_;
  std::vector<Tensor> read_;
};

std::vector<std::vector<float>> rows_that_are_read(const Model& model, const std::vector<AdaptedWeight>& targets,
                                                   const ReadBatch& batch) {
  const NoGradient only_numbers;
  ReadRows observer(targets);
  const NamedTensors outputs = model.forward(batch.inputs, {.computing = {.observer = &observer}});
  std::vector<Tensor> all = observer.read();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined())
      fail(ErrorKind::kUnsupported,
           "init_lora_weights = \"eva\": {} reads nothing in a pass of the model: leave it out "
           "of target_modules",
           targets[i].module);
    all[i] = cast(all[i], DType::kFloat32);
  }
  eval(all);
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<float> numbers = all[i].to_vector<float>();
    const auto width = static_cast<size_t>(targets[i].in);
    if (!batch.counted.empty() && numbers.size() != batch.counted.size() * width)
      fail(ErrorKind::kUnsupported,
           "init_lora_weights = \"eva\": expected a layer that reads all tokens, found {}, which "
           "reads {}; leave it out of target_modules",
           targets[i].module, to_string(all[i].type()));
    std::vector<float>& own = rows.emplace_back();
    for (size_t row = 0; row * width < numbers.size(); ++row)
      if (batch.counted.empty() || batch.counted[row])
        own.insert(own.end(), numbers.begin() + static_cast<std::ptrdiff_t>(row * width),
                   numbers.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
  }
  return rows;
}

struct EvaLayer {
  int64_t rank = 0, most = 0;         // as the configuration says, and rho times that
  size_t first = 0;                   // the layer whose components it has, which reads the same
  std::optional<IncrementalPca> pca;  // of first ones
  std::vector<bool> stays;            // its components
  bool reads = true, settled = false;
};

double cosine(const float* a, const float* b, int64_t count) {
  double product = 0, of_a = 0, of_b = 0;
  for (int64_t i = 0; i < count; ++i)
    product += double{a[i]} * b[i], of_a += double{a[i]} * a[i], of_b += double{b[i]} * b[i];
  return product / std::max(std::sqrt(of_a) * std::sqrt(of_b), 1e-8);
}

void fit_layer(EvaLayer& layer, const std::vector<float>& rows, int64_t width, double tau) {
  if (static_cast<int64_t>(rows.size()) / width < layer.most) return;  // too few to say so much
  const std::vector<float> before = layer.pca->components();
  layer.pca->fit(rows, width);
  if (before.empty()) return;
  for (int64_t k = 0; k < layer.most; ++k)
    layer.stays[static_cast<size_t>(k)] =
        cosine(before.data() + k * width, layer.pca->components().data() + k * width, width) >= tau;
}

// The best components of all layers, as many as their ranks were: how many are each layer's. Those that read for
// themselves come first.
std::vector<int64_t> distributed_ranks(const std::vector<EvaLayer>& layers) {
  std::vector<size_t> order;
  for (const bool own : {true, false})
    for (size_t i = 0; i < layers.size(); ++i)
      if ((layers[i].first == i) == own) order.push_back(i);
  std::vector<std::pair<double, size_t>> all;
  int64_t budget = 0;
  for (const size_t i : order) {
    budget += layers[i].rank;
    for (const double part : layers[layers[i].first].pca->explained()) all.emplace_back(part, i);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> ranks(layers.size(), 0);
  for (size_t k = 0; k < std::min(all.size(), static_cast<size_t>(budget)); ++k) ++ranks[all[k].second];
  for (size_t i = 0; i < layers.size(); ++i)  // who reads has no fewer than who takes its components
    if (layers[i].first != i && ranks[layers[i].first] < ranks[i]) std::swap(ranks[layers[i].first], ranks[i]);
  return ranks;
}

std::vector<EvaLayer> layers_of(const AdapterConfig& config, const std::vector<AdaptedWeight>& targets, double rho,
                                const std::vector<std::vector<float>>& rows) {
  std::vector<EvaLayer> layers(targets.size());
  std::map<std::vector<float>, size_t> known;
  for (size_t i = 0; i < targets.size(); ++i) {
    EvaLayer& layer = layers[i];
    layer.rank = config.rank(targets[i].module);
    layer.most = std::lround(std::nearbyint(static_cast<double>(layer.rank) * rho));
    layer.first = known.emplace(rows[i], i).first->second;
    layers[layer.first].most = std::max(layers[layer.first].most, layer.most);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    EvaLayer& layer = layers[i];
    layer.most = layers[layer.first].most;
    if (layer.most > targets[i].in)
      fail(ErrorKind::kUsage,
           "{}: r: expected at most {} with init_lora_weights = \"eva\" for {}, rho times of which are "
           "its {} inputs or fewer; found {}",
           config.where(), static_cast<int64_t>(static_cast<double>(targets[i].in) / rho), targets[i].module,
           targets[i].in, layer.rank);
    layer.pca.emplace(layer.most);
    layer.stays.assign(static_cast<size_t>(layer.most), false);
  }
  return layers;
}

bool all_stay(const EvaLayer& layer, int64_t rank) {
  return std::all_of(layer.stays.begin(), layer.stays.begin() + rank, [](bool stays) { return stays; });
}

// Reads batches until the components that are asked for stay; the rank of each layer. `rows`: what was read of the
// first batch.
std::vector<int64_t> settle(std::vector<EvaLayer>& layers, const Model& model,
                            const std::vector<AdaptedWeight>& targets, const EvaOptions& options,
                            std::vector<std::vector<float>> rows, int64_t batches,
                            const std::function<ReadBatch(int64_t)>& batch) {
  std::vector<int64_t> ranks;
  for (const EvaLayer& layer : layers) ranks.push_back(layer.most);
  for (int64_t number = 0; number < kMostBatches; ++number) {
    bool all = true;
    for (size_t i = 0; i < layers.size(); ++i) {
      EvaLayer& layer = layers[i];
      if (layer.first != i) continue;
      const bool stays = all_stay(layer, ranks[i]);
      if (!layer.settled && stays && layer.reads) layer.reads = false, layer.settled = true;
      else if (layer.settled && !stays) layer.reads = true, layer.settled = false;
      all = all && layer.settled;
    }
    if (all) return ranks;
    if (number > 0) rows = rows_that_are_read(model, targets, batch(number % batches));
    bool fitted = true;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].first != i) continue;
      if (layers[i].reads) fit_layer(layers[i], rows[i], targets[i].in, options.tau);
      fitted = fitted && layers[i].pca->is_fitted();
    }
    if (fitted) ranks = distributed_ranks(layers);
  }
  fail(
      "init_lora_weights = \"eva\": the components of what layers read do not stay within {} batches: expected batches "
      "of more tokens than components (rho times r), or a smaller tau in eva_config",
      kMostBatches);
}

}  // namespace

bool begins_by_activations(const AdapterConfig& config) {
  const Json& fields = json_of(config.fields());
  return config.kind().type == "LORA" && fields.contains("init_lora_weights") && fields["init_lora_weights"] == "eva";
}

void add_by_activations(Model& model, AdapterConfig config, uint64_t seed, int64_t batches,
                        const std::function<ReadBatch(int64_t)>& batch) {
  EvaOptions options = eva_options(config);
  complete_adapters(config, model);
  std::vector<AdaptedWeight> targets = adapted_weights(config, model);
  std::erase_if(targets, [](const AdaptedWeight& target) { return target.is_table; });
  if (targets.empty())
    fail(ErrorKind::kUsage, "{}: init_lora_weights = \"eva\": expected linear layers among target_modules, found none",
         config.where());
  if (options.rho > kMostRho) {
    int64_t widest = 0;
    for (const AdaptedWeight& target : targets) widest = std::max({widest, target.in, target.out});
    options.rho =
        std::min(options.rho, static_cast<double>(widest / std::max<int64_t>(config.rank(targets[0].module), 1)));
  }
  std::vector<std::vector<float>> rows = rows_that_are_read(model, targets, batch(0));
  std::vector<EvaLayer> layers = layers_of(config, targets, options.rho, rows);
  const std::vector<int64_t> ranks = settle(layers, model, targets, options, std::move(rows), batches, batch);

  Json modules = Json::array(), rank_pattern = Json::object(), alpha_pattern = Json::object();
  std::map<std::string, std::pair<int64_t, std::vector<float>>> first;
  const int64_t usual = config.fields().get_int("r", 8);
  const double usual_alpha = config.fields().get_float("lora_alpha", 8);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::string& module = targets[i].module;
    if (ranks[i] == 0) continue;
    modules.push_back(module);
    const double old = static_cast<double>(layers[i].rank);
    double alpha = config.scaling(module) * (config.fields().get_bool("use_rslora", false) ? std::sqrt(old) : old);
    if (options.adjusts_scales && ranks[i] != layers[i].rank) alpha *= static_cast<double>(ranks[i]) / old;
    if (ranks[i] != usual) rank_pattern[module] = ranks[i];
    if (alpha != usual_alpha) alpha_pattern[module] = alpha;
    const IncrementalPca& pca = *layers[layers[i].first].pca;
    std::vector<float> a(pca.components().begin(),
                         pca.components().begin() + static_cast<std::ptrdiff_t>(ranks[i] * targets[i].in));
    for (size_t k = 0; options.whiten && k < a.size(); ++k)
      a[k] /= static_cast<float>(std::sqrt(pca.singular_values()[k / static_cast<size_t>(targets[i].in)]));
    first["base_model.model." + module + ".lora_A.weight"] = {ranks[i], std::move(a)};
  }
  config.set("target_modules", modules);
  config.set("rank_pattern", rank_pattern);
  config.set("alpha_pattern", alpha_pattern);
  Adaptation::add(model, std::move(config), seed);
  for (const std::shared_ptr<Parameter>& parameter : model.parameters())
    if (const auto found = first.find(parameter->name); found != first.end()) {
      const auto& [rank, a] = found->second;
      replace_value(*parameter, Tensor::from(a, {rank, static_cast<int64_t>(a.size()) / rank}));
    }
}

}  // namespace transom
