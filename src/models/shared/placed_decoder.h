// SPDX-License-Identifier: Apache-2.0
// Bodies whose tokens may stand at several numbers each, or whose rows in place of tokens are wider than embeddings:
// what GenerativeModel asks for by the same names.
#pragma once

#include "models/shared/decoder.h"

namespace transom {

class PlacedDecoder : public Decoder {
 public:
  virtual int64_t position_axes() const = 0;
  virtual TextPositions positions_of(const ModelInputs& inputs) const = 0;
  virtual int64_t embedding_width() const = 0;
};

// Bodies whose layers read pictures beside the tokens: what GenerativeModel asks for by the same names.
class SourceDecoder : public Decoder {
 public:
  virtual int64_t source_rows() const = 0;
  virtual AttendedPicture run_source(const NamedTensors& tensors, ForwardContext& context) const = 0;
};

}  // namespace transom
