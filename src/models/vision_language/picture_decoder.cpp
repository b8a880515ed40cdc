// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/vision_language/token_places.h"
#include "transom/ops.h"

namespace transom {
namespace {

class VisionLanguageDecoder : public Decoder {
 public:
  VisionLanguageDecoder(std::unique_ptr<PictureReader> reader, std::unique_ptr<Model> text,
                        VisionLanguageOptions options)
      : reader_(std::move(reader)), text_(std::move(text)), body_(body_of(*text_)), options_(std::move(options)) {}

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor pixels = inputs.find("pixel_values");
    if (!pixels.defined()) return body_(inputs, context);
    const Tensor ids = inputs.find("input_ids");
    if (!ids.defined() || ids.rank() != 2)
      fail("pixel_values: expected input_ids [batch, length] beside them, whose tokens {} are their places",
           options_.image_token);
    NamedTensors rest;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "input_ids" && name != "pixel_values") rest.set(name, tensor);
    const TextsInRows* texts = std::exchange(context.texts, nullptr);  // pictures are no texts
    rest.set("inputs_embeds", with_rows(body_.embed(ids, context), ids, (*reader_)(pixels, context)));
    context.texts = texts;
    return body_(rest, context);
  }

  Tensor embed(const Tensor& input_ids, ForwardContext& context) const override {
    return body_.embed(input_ids, context);
  }
  const Embedding& word_embeddings() const override { return body_.word_embeddings(); }
  Tensor auxiliary_loss(const DecoderOutput& output, const NamedTensors& inputs) const override {
    return body_.auxiliary_loss(output, inputs);
  }
  DecoderTraits traits() const override {
    DecoderTraits traits = body_.traits();
    traits.head = options_.head;
    traits.tie_word_embeddings = traits.tie_word_embeddings || options_.tie_word_embeddings;
    return traits;
  }
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = body_.input_names();
    names.push_back("pixel_values");
    return names;
  }

  bool reads_beside_tokens(const NamedTensors& inputs) const override { return inputs.find("pixel_values").defined(); }

  std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors& inputs,
                                                          ForwardContext& context) const override {
    for (const auto& [name, tensor] : inputs.items())
      if (name != "input_ids" && name != "attention_mask" && name != "token_type_ids" && name != "pixel_values")
        fail("generate: unknown input {}; beside pixel_values this model takes input_ids and attention_mask",
             quoted(name));
    const Tensor &ids = inputs.at("input_ids"), &pixels = inputs.at("pixel_values");
    if (ids.rank() != 2) fail("input_ids: expected [batch, length], found {}", to_string(ids.shape()));
    const int64_t pictures = pixels.dim(0), length = ids.dim(1);
    const NoGradient inference;
    const int64_t each = (*reader_)(slice(pixels, 0, 0, 1), context).dim(1);  // a shape: is not computed
    if (each < 1) fail("pixel_values: pictures of {} make no features", to_string(pixels.shape()));
    const std::vector<int64_t> all = ids.to_vector<int64_t>();
    check_places(all, pictures * each);
    int64_t next = 0;
    std::vector<std::vector<AttachedInput>> rows;
    for (int64_t row = 0; row < ids.dim(0); ++row) {
      const std::span<const int64_t> tokens(all.data() + row * length, static_cast<size_t>(length));
      TokenPlaces places(tokens, options_.image_token);
      if (places.left() % each != 0)
        fail("input_ids: row {} has {} places for pictures (token {}), a picture fills {}", row, places.left(),
             options_.image_token, each);
      std::vector<AttachedInput>& attached = rows.emplace_back();
      for (; places.left() > 0; ++next)
        attached.push_back(
            {.tensors = {{"pixel_values", slice(pixels, 0, next, next + 1)}}, .places = places.take(each)});
    }
    return rows;
  }

  Tensor run_embedding(const NamedTensors& tensors, ForwardContext& context) const override {
    for (const auto& [name, tensor] : tensors.items())
      if (name != "pixel_values")
        fail(ErrorKind::kUnsupported, "an input among the tokens: expected pixel_values, found {} beside them",
             quoted(name));
    return flatten((*reader_)(tensors.at("pixel_values"), context), 0, 1);
  }

 private:
  // Of as many places as there are rows.
  void check_places(std::span<const int64_t> ids, int64_t rows) const {
    const int64_t places = std::count(ids.begin(), ids.end(), options_.image_token);
    if (places != rows)
      fail("input_ids: {} places for pictures (token {}), and pixel_values makes {} rows of features", places,
           options_.image_token, rows);
  }

  // `own` [B, T, D] with the rows [N, P, D], one after the other, in the places of pictures.
  Tensor with_rows(const Tensor& own, const Tensor& ids, const Tensor& rows) const {
    const int64_t B = ids.dim(0), T = ids.dim(1), D = own.dim(2), count = rows.dim(0) * rows.dim(1);
    const Tensor is_place = equal(ids, full(ids.shape(), static_cast<double>(options_.image_token), ids.dtype()));
    const Tensor places = reshape(cast(is_place, DType::kInt64), {B * T});
    const Tensor order = minimum(maximum(cumulative_sum(places, 0) - 1.0, full({B * T}, 0, DType::kInt64)),
                                 full({B * T}, static_cast<double>(count - 1), DType::kInt64));
    Tensor given = reshape(gather(reshape(rows, {count, D}), order, 0), {B, T, D});
    if (ids.node()->computed(ids.output())) {
      check_places(ids.to_vector<int64_t>(), count);
    } else {
      // Of a trace nobody knows the tokens: where their number is not that of the rows, nothing is to look right.
      const Tensor fits = equal(reduce_sum(places, {0}), full({}, static_cast<double>(count), DType::kInt64));
      given = select(reshape(fits, {1, 1, 1}), given,
                     full({1, 1, 1}, std::numeric_limits<double>::quiet_NaN(), given.dtype()));
    }
    return select(unsqueeze(is_place, 2), cast(given, own.dtype()), own);
  }

  std::unique_ptr<PictureReader> reader_;
  std::unique_ptr<Model> text_;
  const Decoder& body_;
  VisionLanguageOptions options_;
};

}  // namespace

std::unique_ptr<Decoder> make_vision_language_decoder(std::unique_ptr<PictureReader> reader,
                                                      std::unique_ptr<Model> text,
                                                      const VisionLanguageOptions& options) {
  return std::make_unique<VisionLanguageDecoder>(std::move(reader), std::move(text), options);
}

}  // namespace transom
