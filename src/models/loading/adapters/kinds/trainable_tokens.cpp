// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/kinds/trainable_tokens.h"

#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

// Rows `ids` of a table [V, D], or of a layer over the vocabulary, stand in a tensor [n, D] of their own. A head that
// shares the table's weight reads them too.
class TokenRows : public WeightAdapter {
 public:
  TokenRows(const std::vector<int64_t>& ids, std::shared_ptr<Parameter> own, int64_t count) : ids_(ids), own_(own) {
    std::vector<int64_t> places(static_cast<size_t>(count), -1);
    for (size_t i = 0; i < ids.size(); ++i) places[static_cast<size_t>(ids[i])] = static_cast<int64_t>(i);
    places_ = Tensor::from(places, {count});
  }

  Tensor rows(const Tensor& rows, const Tensor& ids, const Computing&) const override {
    const Tensor places = gather(places_, ids, 0);
    return select(is_own(unsqueeze(places, -1)), cast(gather(own_->value, at_least_zero(places), 0), rows.dtype()),
                  rows);
  }
  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override {
    const Tensor all = product_without_adapter(x, weight, bias, context.computing);
    const Tensor few_bias = bias.defined() ? gather(bias, Tensor::from(ids_, {own_->value.dim(0)}), 0) : Tensor();
    const Tensor few = cast(linear(x, own_->value, few_bias, context.computing), all.dtype());
    return select(is_own(places_), gather(few, at_least_zero(places_), few.rank() - 1), all);
  }
  Tensor merged(const Parameter& weight) const override {
    const Tensor ids = Tensor::from(ids_, {own_->value.dim(0)});
    return as_held(scatter(wide_rows(weight), ids, cast(own_->value, DType::kFloat32)), weight);
  }
  std::string_view uncut() const override { return "trainable_token_indices"; }

 private:
  static Tensor at_least_zero(const Tensor& places) { return maximum(places, zeros(places.shape(), places.dtype())); }
  static Tensor is_own(const Tensor& places) { return greater_equal(places, zeros(places.shape(), places.dtype())); }
  std::vector<int64_t> ids_;
  std::shared_ptr<Parameter> own_;
  Tensor places_;  // i64 [V]: which of the rows a token has, or -1
};

std::vector<int64_t> token_ids_of(const Json& value, int64_t count, const std::string& where) {
  if (!value.is_array() || value.empty()) fail("{}: expected a list of token ids, found {}", where, value.dump());
  std::vector<int64_t> ids;
  for (const Json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= count)
      fail("{}: expected ids of the {} tokens, found {}", where, count, id.dump());
    ids.push_back(id.get<int64_t>());
  }
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) fail("{}: expected each id once", where);
  return ids;
}

// The weight of a module whose name ends so.
std::shared_ptr<Parameter> find_rows(const Model& model, const std::string& module) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (parameter->name == module + ".weight" || parameter->name.ends_with("." + module + ".weight"))
        return parameter;
  return nullptr;
}

void attach_rows(AdapterMaking& making, const std::shared_ptr<Parameter>& table, const Json& value,
                 const std::string& field, const std::string& wrapper) {
  const std::string where = making.config.where() + ": " + field;
  if (table->adapter) fail("{}: {} has an adapter already", where, table->name);
  if (table->packed)
    fail(ErrorKind::kUnsupported, "{}: expected a table of plain numbers, {} is compressed", where, table->name);
  if (table->value.rank() != 2)
    fail("{}: expected a table of rows, {} is {}", where, table->name, to_string(table->value.shape()));
  const std::string module = table->name.substr(0, table->name.rfind('.'));
  const AdaptedWeight target{table, module, true, table->value.dim(0), table->value.dim(1)};
  const std::vector<int64_t> ids = token_ids_of(value, target.in, where);
  const auto count = static_cast<int64_t>(ids.size());
  const bool as_they_are = making.config.fields().get_bool("init_weights", true);
  const auto first = [&] {
    if (!as_they_are) return draw_normal(making.generator, count * target.out);
    return gather(wide_rows(*table), Tensor::from(ids, {count}), 0).to_vector<float>();
  };
  const auto own = making.tensor(module + wrapper + ".trainable_tokens_delta", {count, target.out}, first);
  making.give(target, std::make_shared<TokenRows>(ids, own, target.in));
}

// PEFT wraps the rows of a LoRA once more.
constexpr const char* kInLora = ".token_adapter";

void attach_tokens_alone(AdapterMaking& making) {
  const Json& ids = json_of(making.config.fields()).at("token_indices");
  for (const AdaptedWeight& target : making.targets) attach_rows(making, target.weight, ids, "token_indices", "");
}

void complete_tokens(AdapterConfig& config, const Model& model) {
  if (config.says_targets()) return;
  const std::shared_ptr<Parameter> table = token_table(model);
  if (!table) fail(ErrorKind::kUnsupported, "{}: {} reads no tokens", config.where(), model.architecture());
  config.set("target_modules", Json::array({table->name.substr(0, table->name.rfind('.'))}));
}

void check_tokens(const AdapterConfig& config) {
  if (!config.fields().has("token_indices"))
    fail("{}: token_indices: expected the ids of the tokens to train, found none", config.where());
}

AdapterKind trainable_tokens_kind() {
  return {.type = "TRAINABLE_TOKENS",
          .what = "some rows of the table of tokens",
          .defaults = R"({"init_weights": true, "target_modules": null, "token_indices": null})",
          .carried_out = {"init_weights", "target_modules", "token_indices"},
          .takes_linear = false,
          .takes_tables = true,
          .attach = attach_tokens_alone,
          .check = check_tokens,
          .complete = complete_tokens,
          .saves_modules = false};
}

const RegisterAdapterKind kTrainableTokens{trainable_tokens_kind};

}  // namespace

void attach_trainable_tokens(AdapterMaking& making) {
  constexpr const char* kField = "trainable_token_indices";
  if (!making.config.fields().has(kField)) return;
  const Json& value = json_of(making.config.fields()).at(kField);
  if (!value.is_object()) {
    const std::shared_ptr<Parameter> table = token_table(making.model);
    if (!table)
      fail(ErrorKind::kUnsupported, "{}: {}: {} reads no tokens", making.config.where(), kField,
           making.model.architecture());
    return attach_rows(making, table, value, kField, kInLora);
  }
  for (const auto& [name, ids] : value.items()) {
    const std::shared_ptr<Parameter> table = find_rows(making.model, name);
    if (!table)
      fail("{}: {}: the model has no module {} with a weight of its own", making.config.where(), kField,
           transom::quoted(name));
    attach_rows(making, table, ids, kField, kInLora);
  }
}

}  // namespace transom
