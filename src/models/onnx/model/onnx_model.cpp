// SPDX-License-Identifier: Apache-2.0
// An ONNX file as a model, with the names of inputs and outputs that exporters of Transformers' models give: optimum,
// torch.onnx.export. Inputs of the graph that a caller leaves out are filled in as optimum's models do.
#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "models/loading/maximum_tokens.h"
#include "models/loading/weights/other_formats.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model/graph_inputs.h"
#include "models/onnx/model/text_past.h"
#include "models/records.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

// What tokenizers give and graphs need not take.
constexpr const char* kOptionalInputs[] = {"attention_mask", "token_type_ids", "position_ids"};

constexpr const char* kPixels = "pixel_values";
constexpr const char* kLogits = "logits";

class OnnxModel : public GenerativeModel {
 public:
  // `config`: what lies beside the file.
  OnnxModel(const fs::path& file, const Config& config)
      : graph_(ImportedGraph::open(file)), past_(graph_, window_of(config), maximum_tokens(config).value_or(0)) {}

  // A class without a record writes where its graph goes on from keys and values.
  bool can_generate() const override {
    const Architecture* known = find_architecture(*this);
    return known ? *known->head.task == HeadTask::kCausalLM : past_.works();
  }
  // A graph without past keys and values is given the whole text for each token.
  int64_t cache_expires_at() const override { return past_.works() ? 0 : -1; }
  bool one_program_for_all_steps() const override { return !past_.works() || past_.one_shape(); }

 protected:
  Tensor run_step(const PassInputs& pass, ForwardContext& context) const override {
    const Tensor &input_ids = pass.input_ids, &position_ids = pass.position_ids;
    if (past_.works()) return past_.logits(input_ids, position_ids, *context.cache, context.computing);
    const Tensor mask = context.cache->places();
    NamedTensors inputs{{"input_ids", input_ids}, {"position_ids", position_ids}};
    inputs.set("attention_mask", slice(mask, 1, 0, input_ids.dim(1)));
    ForwardContext plain{.computing = context.computing};
    const Tensor logits = run(inputs, plain).at("logits");  // [B, T, V]
    return cast(squeeze(slice(logits, 1, logits.dim(1) - 1, logits.dim(1)), 1), DType::kFloat32);
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    if (context.training) fail("{}: training an ONNX file is not supported", graph_->model().where);
    if (context.cache)
      fail(ErrorKind::kUnsupported, "{}: an ONNX file keeps no keys and values in pages", graph_->model().where);
    if (context.output_hidden_states)
      fail("{}: output_hidden_states is not supported: an ONNX file has the outputs that it names",
           graph_->model().where);
    NamedValues values;
    const Tensor pixels = inputs.find(kPixels);
    if (const ValueInfo* pictures = input_of_pictures(); pictures && pixels.defined())
      return {
          {kLogits, graph_->run({{pictures->name, converted(pixels, *pictures)}}, context.computing)[0].second.tensor}};
    for (const ValueInfo& input : graph_->model().graph.inputs) {
      const Tensor given = inputs.find(input.name);
      if (given.defined()) values.emplace_back(input.name, converted(given, input));
    }
    for (const ValueInfo* input : graph_->required_inputs())
      if (!inputs.find(input->name).defined()) values.emplace_back(input->name, filled_in(*input, inputs));
    NamedTensors outputs;
    for (auto& [name, value] : graph_->run(values, context.computing)) outputs.set(name, value.tensor);
    return outputs;
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names(std::begin(kOptionalInputs), std::end(kOptionalInputs));
    for (const ValueInfo& input : graph_->model().graph.inputs) names.push_back(input.name);
    if (input_of_pictures()) names.emplace_back(kPixels);
    return names;
  }

 private:
  // Of a graph that exporters for NPUs wrote, from pictures to one output, under names of its own: what tasks call
  // pixel_values. Null where there is none.
  const ValueInfo* input_of_pictures() const {
    const std::vector<const ValueInfo*> required = graph_->required_inputs();
    if (required.size() != 1 || graph_->model().graph.outputs.size() != 1) return nullptr;
    const ValueInfo* input = required[0];
    const bool four_axes = input->shape && input->shape->size() == 4 && is_floating(input->type);
    return four_axes && input->name != kPixels ? input : nullptr;
  }

  // How many tokens back attention reaches, by the names that configurations have for it; 0: all. Where it differs by
  // layer, it is taken for the least.
  static int64_t window_of(const Config& config) {
    if (!config.get_bool("use_sliding_window", true)) return 0;
    int64_t least = 0;
    for (const char* name : {"sliding_window", "window_size", "attention_window", "attention_chunk_size"}) {
      if (!config.has(name)) continue;
      const std::string text = config.get_json(name);
      const bool is_number = text.find_first_not_of("0123456789") == text.npos && text.size() < 18;
      const int64_t window = is_number ? std::max<int64_t>(config.get_int(name), 1) : 1;
      least = least > 0 ? std::min(least, window) : window;
    }
    return least;
  }

  Value filled_in(const ValueInfo& input, const NamedTensors& inputs) const {
    const Tensor ids = inputs.find("input_ids");
    const std::string& name = input.name;
    const ElementType type = input.type;
    if (ids.defined() && name == "token_type_ids") return cast_value(value_of(zeros(ids.shape(), DType::kInt64)), type);
    const Tensor ones = ids.defined() ? broadcast_to(constant(1, DType::kInt64), ids.shape()) : Tensor();
    if (ids.defined() && name == "attention_mask") return cast_value(value_of(ones), type);
    if (ids.defined() && name == "position_ids") {  // from 0 on, without the padding, whose positions do not matter
      const Tensor mask =
          inputs.find("attention_mask").defined() ? cast(inputs.find("attention_mask"), DType::kInt64) : ones;
      const Tensor places = sub(cumulative_sum(mask, -1), integer(1));
      return cast_value(value_of(select(equal(mask, integer(0)), integer(1), places)), type);
    }
    if (ids.defined() && name.starts_with("past_key_values") && input.shape && input.shape->size() == 4 &&
        info(type).carrier) {  // [B, heads, 0, d]: nothing was seen before
      Shape shape{ids.dim(0), (*input.shape)[1].value, 0, (*input.shape)[3].value};
      if (shape[1] > 0 && shape[3] > 0) return {type, zeros(shape, *info(type).carrier)};
    }
    fail("{}: input {} is missing", graph_->model().where, quoted(name));
  }

  std::shared_ptr<const ImportedGraph> graph_;
  TextPast past_;
};

bool recognises(const fs::path& path) { return !find_onnx_file(path).empty(); }

std::unique_ptr<transom::Model> load(const fs::path& path, const LoadOptions& options) {
  const fs::path file = find_onnx_file(path);
  check_load_options(options, file);
  Config config = config_beside(file);
  auto model = std::make_unique<OnnxModel>(file, config);
  const std::vector<std::string> named = config.get_strings("architectures");
  complete_model(*model, std::move(config), named.empty() ? "OnnxModel" : named[0], file.parent_path());
  return model;
}

}  // namespace

const RegisterModelFormat kOnnxFormat{{recognises, load}};

}  // namespace transom::onnx
