// SPDX-License-Identifier: Apache-2.0
#include "models/families/encoder_decoder/source_writer.h"

#include "base/error.h"
#include "models/loading/config_keys.h"
#include "models/run_inside.h"
#include "models/shared/record_parts.h"

namespace transom {
namespace {

using MakeWriter = std::unique_ptr<SourceWriter> (*)(const Config&, const Scope&, int64_t);
constexpr std::pair<const char*, MakeWriter> kWriters[] = {
    {"bert", make_bert_writer},          {"camembert", make_roberta_writer}, {"gpt2", make_gpt2_writer},
    {"mbart", make_mbart_writer},        {"roberta", make_roberta_writer},   {"trocr", make_trocr_writer},
    {"xlm-roberta", make_roberta_writer}};

std::unique_ptr<SourceWriter> make_writer(const Config& config, const Scope& scope, int64_t source_width) {
  const std::string type = config.get_string("model_type");
  std::vector<std::string> known;
  for (const auto& [name, make] : kWriters) {
    if (type == name) return make(config, scope, source_width);
    known.emplace_back(name);
  }
  fail(ErrorKind::kUnsupported, "{}: decoder.model_type: expected {}, found {}", config.where(),
       fmt::join(known, " or "), quoted(type));
}

}  // namespace

WriterOfSource::WriterOfSource(const Config& config, const Scope& scope, int64_t source_width) {
  const Config writer = config.get_object("decoder");
  writer_ = make_writer(writer, scope / "decoder", source_width);
  if (source_width != writer_->width() && !writer.has("cross_attention_hidden_size"))
    enc_to_dec_proj_.emplace(scope / "enc_to_dec_proj", source_width, writer_->width());
  check_config_keys(writer);
}

DecoderOutput WriterOfSource::operator()(const DecoderInputs& in, const EncodedSource& source,
                                         ForwardContext& context) const {
  if (!enc_to_dec_proj_ || !source.states.defined()) return (*writer_)(in, source, context);
  return (*writer_)(in, {(*enc_to_dec_proj_)(source.states, context), source.mask, source.seen}, context);
}

EncoderOutput states_of_encoder(const Model& encoder, const NamedTensors& inputs, ForwardContext& context) {
  ForwardContext reading = context;
  reading.cache = nullptr;
  const NamedTensors read = run_inside(encoder, inputs, reading);
  context.dropouts = reading.dropouts;
  EncoderOutput output{.last_hidden_state = read.at("last_hidden_state"), .hidden_states = {}};
  for (int64_t i = 0;; ++i) {
    const Tensor state = read.find("hidden_states." + std::to_string(i));
    if (!state.defined()) break;
    output.hidden_states.push_back(state);
  }
  return output;
}

int64_t token_of_writer(const Config& config, const char* field) {
  return config.get_int(field, config.get_object("decoder").get_int(field, -1));
}

FamilyHead source_writing_head(std::vector<std::string> pipelines) {
  FamilyHead head = sequence_to_sequence_head(
      std::move(pipelines), {"decoder.output_projection", "decoder.lm_head", "decoder.cls"}, "decoder.lm_head");
  head.vocabulary = std::vector<std::string>{"decoder.output_projection", "decoder.lm_head", "decoder.lm_head.decoder",
                                             "decoder.cls.predictions.decoder"};
  head.vocabulary_size = {"decoder.vocab_size"};
  return head;
}

}  // namespace transom
