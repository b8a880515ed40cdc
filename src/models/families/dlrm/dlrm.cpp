// SPDX-License-Identifier: Apache-2.0
// DLRM (Naumov et al., 2019), with the names of facebookresearch/dlrm: dense features through the bottom MLP, a bag of
// embeddings a categorical feature, their products of pairs, and the top MLP, which gives the probability of a click.
// B rows, D width of the vectors, F vectors a row.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "graph/ops/movement/embedding_bags.h"
#include "models/family.h"
#include "models/nn/layers.h"
#include "models/nn/sparse_lookups.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

struct DlrmConfig {
  explicit DlrmConfig(const Config& config);
  int64_t arch_sparse_feature_size;
  std::vector<int64_t> arch_embedding_size, arch_mlp_bot, arch_mlp_top;
  std::string arch_interaction_op, loss_function;
  bool arch_interaction_itself;
  int64_t sigmoid_bot, sigmoid_top;  // the layer that has a sigmoid in place of a ReLU; -1: none
  double loss_threshold;
  std::array<double, 2> loss_weights;  // of wbce: of rows without a click, and with one

  int64_t interaction_width() const {
    const auto vectors = static_cast<int64_t>(arch_embedding_size.size()) + 1;
    if (arch_interaction_op == "cat") return vectors * arch_sparse_feature_size;
    return arch_sparse_feature_size + vectors * (vectors + (arch_interaction_itself ? 1 : -1)) / 2;
  }
};

// "1.0-2.5" -> 1.0 and 2.5
std::array<double, 2> read_loss_weights(const Config& config) {
  const std::string text = config.get_string("loss_weights", "1.0-1.0");
  const size_t dash = std::min(text.find('-'), text.size());
  const auto number = [&](size_t begin, size_t end) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc() || stop != text.data() + end || !std::isfinite(value))
      fail("{}: loss_weights: expected two numbers as 1.0-2.5, found {}", config.where(), quoted(text));
    return value;
  };
  return {number(0, dash), number(std::min(dash + 1, text.size()), text.size())};
}

DlrmConfig::DlrmConfig(const Config& config)
    : arch_sparse_feature_size(config.get_int("arch_sparse_feature_size", 2)),
      arch_embedding_size(config.get_ints("arch_embedding_size")),
      arch_mlp_bot(config.get_ints("arch_mlp_bot")),
      arch_mlp_top(config.get_ints("arch_mlp_top")),
      arch_interaction_op(config.get_string("arch_interaction_op", "dot")),
      loss_function(config.get_string("loss_function", "mse")),
      arch_interaction_itself(config.get_bool("arch_interaction_itself", false)),
      sigmoid_bot(config.get_int("sigmoid_bot", -1)),
      sigmoid_top(config.get_int("sigmoid_top", static_cast<int64_t>(arch_mlp_top.size()) - 1)),
      loss_threshold(config.get_float("loss_threshold", 0)),
      loss_weights(read_loss_weights(config)) {
  for (const char* variant : {"qr_flag", "md_flag"}) refuse_unless(config, variant, "false");
  if (config.has("weighted_pooling"))
    fail("config.json: weighted_pooling = {} is not carried out; only bags that are summed are",
         quoted(config.get_string("weighted_pooling")));
  if (arch_mlp_bot.size() < 2 || arch_mlp_top.empty())
    fail("config.json: arch_mlp_bot and arch_mlp_top: expected the widths of the layers, found {} and {} of them",
         arch_mlp_bot.size(), arch_mlp_top.size());
  if (arch_mlp_bot.back() != arch_sparse_feature_size)
    fail("config.json: arch_mlp_bot ends at {}, the vectors of arch_sparse_feature_size have {}", arch_mlp_bot.back(),
         arch_sparse_feature_size);
  if (arch_interaction_op != "dot" && arch_interaction_op != "cat")
    fail("config.json: arch_interaction_op: expected dot or cat, found {}", quoted(arch_interaction_op));
  if (loss_function != "bce" && loss_function != "wbce" && loss_function != "mse")
    fail("config.json: loss_function: expected bce, wbce or mse, found {}", quoted(loss_function));
}

// Layers with a ReLU behind each, at one of them a sigmoid. The numbers in between are the activations'.
class Mlp {
 public:
  Mlp(const Scope& scope, const std::vector<int64_t>& widths, int64_t sigmoid_layer) : sigmoid_layer_(sigmoid_layer) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const auto in = static_cast<double>(widths[i]), out = static_cast<double>(widths[i + 1]);
      layers_.emplace_back(scope / static_cast<int64_t>(2 * i), widths[i], widths[i + 1],
                           Linear::Options{.deviation = std::sqrt(2 / (in + out))});
    }
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {  // [B, in] -> [B, out]
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i](x, context);
      x = static_cast<int64_t>(i) == sigmoid_layer_ ? sigmoid(x) : relu(x);
    }
    return x;
  }

 private:
  int64_t sigmoid_layer_;
  std::vector<Linear> layers_;
};

class DLRM_Net : public Model {  // as facebookresearch/dlrm has it
 public:
  DLRM_Net(const Config& config, const Scope& scope)
      : c_(config),
        bot_l_(scope / "bot_l", c_.arch_mlp_bot, c_.sigmoid_bot),
        top_l_(scope / "top_l", top_widths(), c_.sigmoid_top) {
    for (size_t i = 0; i < c_.arch_embedding_size.size(); ++i) {
      const int64_t rows = c_.arch_embedding_size[i];
      if (rows < 1) fail("config.json: arch_embedding_size: expected numbers from 1, found {}", rows);
      // The deviation of a uniform draw within 1 / sqrt(rows).
      emb_l_.emplace_back(scope / "emb_l" / static_cast<int64_t>(i), rows, c_.arch_sparse_feature_size,
                          std::sqrt(1 / (3 * static_cast<double>(rows))));
    }
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = {"dense_x", "lS_o", "labels"};
    for (size_t i = 0; i < emb_l_.size(); ++i) names.push_back("lS_i." + std::to_string(i));
    return names;
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& dense = inputs.at("dense_x");
    if (dense.rank() != 2 || dense.dim(1) != c_.arch_mlp_bot[0])
      fail("dense_x: expected [rows, {}], found {}", c_.arch_mlp_bot[0], to_string(dense.shape()));
    // Under autocast the tables stay as they are, and what stands beside them is widened.
    const Tensor vector = cast(bot_l_(dense, context), DType::kFloat32);
    Tensor probabilities = top_l_(interaction(vector, features(vector, inputs, context), context), context);  // [B, 1]
    if (c_.loss_threshold > 0 && c_.loss_threshold < 1)
      probabilities =
          minimum(maximum(probabilities, full(probabilities.shape(), c_.loss_threshold, probabilities.dtype())),
                  full(probabilities.shape(), 1 - c_.loss_threshold, probabilities.dtype()));
    const Tensor labels = inputs.find("labels");
    return with_loss(labels.defined() ? loss(probabilities, labels, context) : Tensor(),
                     {{"probabilities", probabilities}});
  }

 private:
  std::vector<int64_t> top_widths() const {
    std::vector<int64_t> widths{c_.interaction_width()};
    widths.insert(widths.end(), c_.arch_mlp_top.begin(), c_.arch_mlp_top.end());
    return widths;
  }

  // The dense vector [B, D], and a bag of each table behind it: [B, F, D].
  Tensor features(const Tensor& dense, const NamedTensors& inputs, ForwardContext& context) const {
    if (emb_l_.empty()) return unsqueeze(dense, 1);
    const auto tables = static_cast<int64_t>(emb_l_.size()), B = dense.dim(0);
    const Tensor& offsets = inputs.at("lS_o");
    if (offsets.shape() != Shape{tables, B})
      fail("lS_o: expected [{} tables, {} rows], found {}", tables, B, to_string(offsets.shape()));
    std::vector<Tensor> weights, indices;
    for (int64_t i = 0; i < tables; ++i) {
      const std::string name = "lS_i." + std::to_string(i);
      indices.push_back(inputs.at(name));
      weights.push_back(emb_l_[static_cast<size_t>(i)].weight()->value);
      if (indices.back().rank() != 1)
        fail("{}: expected one axis of indices, found {}", name, to_string(indices.back().shape()));
    }
    const bool of_one_type = std::all_of(weights.begin(), weights.end(),
                                         [&](const Tensor& weight) { return weight.dtype() == dense.dtype(); });
    std::vector<SparseLookup>* const lookups = context.computing.lookups;
    if (!context.training && !lookups && of_one_type) return embedding_bags(dense, offsets, weights, indices);
    // Training updates the rows that were looked up alone.
    std::vector<Tensor> vectors{unsqueeze(dense, 1)};
    for (size_t i = 0; i < emb_l_.size(); ++i) {
      const auto table = static_cast<int64_t>(i);
      const Tensor rows = emb_l_[i](indices[i], context);
      if (lookups) lookups->push_back({emb_l_[i].weight(), indices[i], rows});
      const Tensor sums = bag_sums(rows, squeeze(slice(offsets, 0, table, table + 1), 0));
      vectors.push_back(unsqueeze(cast(sums, dense.dtype()), 1));
    }
    return concatenate(vectors, 1);
  }

  // The dense vector, and the products of all pairs: the lower triangle, row by row.
  Tensor interaction(const Tensor& dense, const Tensor& all, ForwardContext& context) const {
    const int64_t B = all.dim(0), F = all.dim(1);
    if (c_.arch_interaction_op == "cat") return reshape(all, {B, -1});
    const Tensor products =
        cast(dot_general(all, all, {{0}, {0}, {2}, {2}}, context.computing), all.dtype());  // [B, F, F]
    std::vector<int64_t> pairs;
    for (int64_t i = 0; i < F; ++i)
      for (int64_t j = 0; j < i + (c_.arch_interaction_itself ? 1 : 0); ++j) pairs.push_back(i * F + j);
    if (pairs.empty()) return dense;
    const Tensor chosen = Tensor::from(pairs, {static_cast<int64_t>(pairs.size())});
    return concatenate({dense, gather(reshape(products, {B, F * F}), chosen, 1)}, 1);
  }

  Tensor loss(const Tensor& probabilities, const Tensor& labels, const ForwardContext& context) const {
    if (labels.size() != probabilities.size())
      fail("labels of {} do not fit probabilities of {}", to_string(labels.shape()), to_string(probabilities.shape()));
    const Tensor p = cast(reshape(probabilities, {-1}), DType::kFloat32);
    const Tensor target = cast(reshape(labels, {-1}), DType::kFloat32);
    if (c_.loss_function == "mse") return mean_of_all((p - target) * (p - target), context);
    // As PyTorch's BCELoss: a logarithm is never less than -100.
    const Tensor least = full(p.shape(), -100);
    const Tensor click = maximum(log(p), least), none = maximum(log1p(-p), least);
    const Tensor values = -(target * click + (1.0 - target) * none);
    // Its slope is bounded too, where the probability is all but 0 or 1.
    const Tensor slopes = (p - target) / maximum(p * (1.0 - p), full(p.shape(), 1e-12));
    const Tensor losses = values.detach() + slopes.detach() * (p - p.detach());
    if (c_.loss_function == "bce") return mean_of_all(losses, context);
    const auto [without, with] = c_.loss_weights;
    return mean_of_all(losses * (target * (with - without) + without), context);
  }

  DlrmConfig c_;
  Mlp bot_l_, top_l_;
  std::vector<Embedding> emb_l_;
};

// Numbers, and for each table a bag of rows a row of data: their indices, and where each bag begins among them.
FamilyInputs table_inputs() {
  using enum FamilyInput::Kind;
  constexpr auto kNever = FamilyInput::Export::kNever;
  return {{.name = "dense_x",
           .kind = kNumbers,
           .axes = {{.name = "numbers", .fields = {"arch_mlp_bot.0"}}},
           .exported = kNever},
          {.name = "lS_o", .kind = kBagOffsets, .exported = kNever, .each = "arch_embedding_size"},
          {.name = "lS_i", .kind = kCategories, .exported = kNever, .each = "arch_embedding_size"}};
}

}  // namespace

static Family dlrm_family() {
  return {.model_type = "dlrm",
          .base_prefix = "",
          .architectures = {{"DLRM_Net",
                             {.task = HeadTask::kClickPrediction,
                              .pipelines = {"click-prediction"},
                              .labels = HeadLabels::kClicks,
                              .modules = {"bot_l", "emb_l", "top_l"},
                              .vocabulary = none,
                              .outputs = {"probabilities"}},
                             make_model<DLRM_Net>}},
          .inputs = table_inputs(),
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kDlrmFamily{dlrm_family};

}  // namespace transom
