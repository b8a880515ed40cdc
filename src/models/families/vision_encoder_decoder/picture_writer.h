// SPDX-License-Identifier: Apache-2.0
// Decoders that write about what an encoder saw, by the type that their configuration states. B batch, T time, S places
// of the encoder, D hidden, V vocabulary.
#pragma once

#include <memory>

#include "models/shared/encoder_decoder.h"

namespace transom {

class PictureWriter {
 public:
  virtual ~PictureWriter() = default;
  virtual DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source,
                                   ForwardContext& context) const = 0;
  virtual Tensor logits(const Tensor& hidden, ForwardContext& context) const = 0;  // [B, T, D] -> [B, T, V]
  virtual int64_t max_positions() const = 0;
  virtual int64_t width() const = 0;  // D
};

// `config` is the decoder's; `source_width` that of the encoder's states, which some decoders read as they are.
std::unique_ptr<PictureWriter> make_trocr_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<PictureWriter> make_mbart_writer(const Config& config, const Scope& scope, int64_t source_width);
std::unique_ptr<PictureWriter> make_gpt2_writer(const Config& config, const Scope& scope, int64_t source_width);

}  // namespace transom
