// SPDX-License-Identifier: Apache-2.0
// encoder_model.onnx and decoder_model.onnx with decoder_with_past_model.onnx, or decoder_model_merged.onnx, as one
// model that writes texts, with the names that optimum and transom export give.
#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/generative.h"
#include "models/loading/weights/other_formats.h"
#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/model/decoder_with_past.h"
#include "models/onnx/model/graph_inputs.h"
#include "models/onnx/proto/read_model.h"
#include "models/records.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

constexpr const char *kEncoder = "encoder_model.onnx", *kDecoder = "decoder_model.onnx",
                     *kWithPast = "decoder_with_past_model.onnx", *kMerged = "decoder_model_merged.onnx",
                     *kUseCache = "use_cache_branch";

struct Files {
  fs::path encoder, decoder, with_past;  // the last may be missing, or be the decoder
};

// The files, in the directory or below onnx/; empty paths where it has none, or holds weights of Transformers.
Files find_files(const fs::path& path) {
  if (!directory_exists(path) || holds_weights(path)) return {};
  for (const fs::path& folder : {path, path / "onnx"})
    for (const char* decoder : {kDecoder, kMerged})
      if (file_exists(folder / kEncoder) && file_exists(folder / decoder)) {
        const fs::path with_past = folder / (decoder == kMerged ? kMerged : kWithPast);
        return {folder / kEncoder, folder / decoder, file_exists(with_past) ? with_past : fs::path()};
      }
  return {};
}

// Of a merged decoder the branch that reads whole texts, or that which goes on from a past: which one is taken is a
// constant, so the other one is left out when the graph is traced.
std::shared_ptr<const ImportedGraph> open_decoder(const fs::path& file, bool with_past, SharedConstants& shared) {
  if (file.empty()) return nullptr;
  Model model = read_model(file);
  auto& inputs = model.graph.inputs;
  const auto choice =
      std::find_if(inputs.begin(), inputs.end(), [](const ValueInfo& input) { return input.name == kUseCache; });
  if (choice != inputs.end()) {
    static const std::byte answers[] = {std::byte{0}, std::byte{1}};
    TensorData chosen{.name = kUseCache, .type = ElementType::kBool, .shape = {1}};
    chosen.bytes = {&answers[with_past ? 1 : 0], 1};
    inputs.erase(choice);
    model.graph.initializers.push_back(std::make_shared<const TensorData>(std::move(chosen)));
  }
  return std::make_shared<const ImportedGraph>(std::move(model), &shared);
}

bool gives_logits(const ImportedGraph& graph) {
  const auto& outputs = graph.model().graph.outputs;
  return std::any_of(outputs.begin(), outputs.end(), [](const ValueInfo& output) { return output.name == "logits"; });
}

// Texts are rounded up to few lengths, since each is a program: to powers of two and what lies half way to the next.
int64_t rounded_length(int64_t length, int64_t limit) {
  int64_t room = 8;
  while (room < length) room = room + room / 2 >= length ? room + room / 2 : 2 * room;
  return limit > 0 ? std::max(length, std::min(room, limit)) : room;
}

// Where there is a graph that goes on from keys and values, each token is one step of it; otherwise the decoder is
// given the whole text for each token.
class OnnxEncoderDecoder : public GenerativeModel {
 public:
  explicit OnnxEncoderDecoder(const Files& files)
      : encoder_(ImportedGraph::open(files.encoder, &shared_)),
        decoder_(open_decoder(files.decoder, false, shared_)),
        with_past_(files.with_past) {
    if (!decoder_->find_input("input_ids"))
      fail("{}: expected an input input_ids, of the decoder's tokens", decoder_->model().where);
  }

  bool has_encoder() const override { return true; }
  // A class without a record writes where its decoder gives logits.
  bool can_generate() const override {
    const Architecture* known = find_architecture(*this);
    return known ? is_encoder_decoder(known->head) : gives_logits(*decoder_);
  }
  int64_t cache_expires_at() const override { return past() ? 0 : -1; }
  bool one_program_for_all_steps() const override { return false; }
  int64_t max_positions() const override {
    for (const char* name : {"max_target_positions", "max_position_embeddings"})
      if (config().has(name)) return config().get_int(name);
    return 0;
  }

 protected:
  void run_encoder(const NamedTensors& inputs, ForwardContext& context) const override {
    context.cache->encoder_states = encoded(inputs, context.computing);
    context.cache->encoder_mask = inputs.find("attention_mask");
  }

  Tensor run_step(const PassInputs& pass, ForwardContext& context) const override {
    const Tensor& input_ids = pass.input_ids;
    for (const int64_t place : context.cache->places().to_vector<int64_t>())
      if (place == 0)
        fail("{}: decoder_attention_mask: an ONNX decoder has no mask; expected ones", decoder_->model().where);
    if (past()) return past()->logits(input_ids, *context.cache, context.computing);
    // Tokens behind the text change nothing before them.
    const int64_t T = input_ids.dim(1), room = rounded_length(T, max_positions());
    Tensor ids = input_ids;
    if (room > T) {
      const Tensor last = slice(ids, 1, T - 1, T);
      ids = concatenate({ids, broadcast_to(last, {ids.dim(0), room - T})}, 1);
    }
    const Tensor logits = decoded(ids, context.cache->encoder_states, context.cache->encoder_mask, context.computing);
    return cast(squeeze(slice(logits, 1, T - 1, T), 1), DType::kFloat32);
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::string& where = decoder_->model().where;
    if (context.training) fail("{}: training an ONNX file is not supported", where);
    if (context.cache) fail(ErrorKind::kUnsupported, "{}: an ONNX file keeps no keys and values in pages", where);
    if (context.output_hidden_states)
      fail("{}: output_hidden_states is not supported: an ONNX file has the outputs that it names", where);
    const Tensor ids = inputs.find("decoder_input_ids");
    if (!ids.defined()) fail("{}: input \"decoder_input_ids\" is missing", where);
    const Tensor states = encoded(inputs, context.computing);
    return {{"logits", decoded(ids, states, inputs.find("attention_mask"), context.computing)},
            {"encoder_last_hidden_state", states}};
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names{"attention_mask", "decoder_input_ids"};
    for (const ValueInfo& input : encoder_->model().graph.inputs) names.push_back(input.name);
    return names;
  }

 private:
  // Opened by the first text that is written. Null: the whole text is read for each token.
  const DecoderWithPast* past() const {
    std::call_once(asked_for_past_, [this] {
      past_ = DecoderWithPast::of(decoder_, open_decoder(with_past_, true, shared_), max_positions());
    });
    return past_.get();
  }

  static Tensor output_of(const ImportedGraph& graph, const NamedValues& values, const char* wanted,
                          const Computing& computing) {
    for (auto& [name, value] : graph.run(values, computing))
      if (name == wanted) return value.tensor;
    fail("{}: expected an output {}", graph.model().where, quoted(wanted));
  }

  Tensor encoded(const NamedTensors& inputs, const Computing& computing) const {
    NamedValues values;
    for (const ValueInfo* input : encoder_->required_inputs()) {
      Tensor given = inputs.find(input->name);
      const Tensor ids = inputs.find("input_ids");
      if (!given.defined() && input->name == "attention_mask" && ids.defined())
        given = broadcast_to(constant(1, DType::kInt64), ids.shape());
      if (!given.defined()) fail("{}: input {} is missing", encoder_->model().where, quoted(input->name));
      values.emplace_back(input->name, converted(given, *input));
    }
    return output_of(*encoder_, values, "last_hidden_state", computing);
  }

  Tensor decoded(const Tensor& ids, const Tensor& states, const Tensor& mask, const Computing& computing) const {
    NamedValues values;
    for (const ValueInfo* input : decoder_->required_inputs()) {
      const std::string& name = input->name;
      Tensor given;
      if (name == "input_ids") given = ids;
      else if (name == "encoder_hidden_states") given = states;
      else if (name == "encoder_attention_mask")
        given = mask.defined() ? mask : broadcast_to(constant(1, DType::kInt64), {states.dim(0), states.dim(1)});
      else if (name.starts_with("past_key_values") && input->shape && input->shape->size() == 4)
        given = unread_past(*input, ids.dim(0), decoder_->model().where);
      if (!given.defined()) fail("{}: input {} is missing", decoder_->model().where, quoted(name));
      values.emplace_back(name, converted(given, *input));
    }
    return output_of(*decoder_, values, "logits", computing);
  }

  mutable SharedConstants shared_;
  std::shared_ptr<const ImportedGraph> encoder_, decoder_;
  fs::path with_past_;
  mutable std::once_flag asked_for_past_;
  mutable std::unique_ptr<const DecoderWithPast> past_;
};

bool has_encoder_and_decoder(const fs::path& path) { return !find_files(path).encoder.empty(); }

std::unique_ptr<transom::Model> load_encoder_decoder(const fs::path& path, const LoadOptions& options) {
  const Files files = find_files(path);
  check_load_options(options, files.decoder);
  auto model = std::make_unique<OnnxEncoderDecoder>(files);
  Config config = config_beside(files.encoder);
  const std::vector<std::string> named = config.get_strings("architectures");
  complete_model(*model, std::move(config), named.empty() ? "OnnxModel" : named[0], files.encoder.parent_path());
  return model;
}

}  // namespace

const RegisterModelFormat kOnnxEncoderDecoderFormat{{has_encoder_and_decoder, load_encoder_decoder}};

}  // namespace transom::onnx
