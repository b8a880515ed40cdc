// SPDX-License-Identifier: Apache-2.0
// Decoders that write about what an encoder made of a text or a picture, by the type that their configuration states. B
// batch, T time, S places of the encoder, D hidden, V vocabulary.
#pragma once

#include <memory>

#include "models/shared/encoder_decoder.h"

namespace transom {

class SourceWriter {
 public:
  virtual ~SourceWriter() = default;
  virtual DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source,
                                   ForwardContext& context) const = 0;
  virtual Tensor logits(const Tensor& hidden, ForwardContext& context) const = 0;  // [B, T, D] -> [B, T, V]
  virtual int64_t max_positions() const = 0;
  virtual int64_t width() const = 0;  // D
};

// `config` is the decoder's; `source_width` that of the encoder's states, which some decoders read as they are.
std::unique_ptr<SourceWriter> make_trocr_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<SourceWriter> make_mbart_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<SourceWriter> make_gpt2_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<SourceWriter> make_bert_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<SourceWriter> make_roberta_writer(const Config& config, const Scope& scope, int64_t source_width);

// What such a model has behind its encoder: the writer, and a projection of the states where their width is another.
class WriterOfSource {
 public:
  // `scope` and `config` are those of the whole.
  WriterOfSource(const Config& config, const Scope& scope, int64_t source_width);
  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const;
  Tensor logits(const Tensor& hidden, ForwardContext& context) const { return writer_->logits(hidden, context); }
  int64_t max_positions() const { return writer_->max_positions(); }

 private:
  std::unique_ptr<SourceWriter> writer_;
  std::optional<Linear> enc_to_dec_proj_;
};

// The states of a whole part of such a model, by names of its inputs.
EncoderOutput states_of_encoder(const Model& encoder, const NamedTensors& inputs, ForwardContext& context);

// A token's number, of the whole or of its decoder; -1: nobody says.
int64_t token_of_writer(const Config& config, const char* field);

FamilyHead source_writing_head(std::vector<std::string> pipelines);

}  // namespace transom
