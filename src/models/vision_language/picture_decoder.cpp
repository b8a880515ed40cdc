// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_decoder.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/nn/attention/paged_cache.h"
#include "models/shared/blocks/planned_decoder.h"
#include "models/shared/blocks/sees_together.h"
#include "models/shared/placed_decoder.h"
#include "models/vision_language/token_places.h"
#include "transom/ops.h"

namespace transom {
namespace {

class VisionLanguageDecoder : public PlacedDecoder {
 public:
  VisionLanguageDecoder(std::unique_ptr<PictureReader> reader, std::unique_ptr<Model> text,
                        VisionLanguageOptions options)
      : reader_(std::move(reader)),
        text_(std::move(text)),
        body_(body_of(*text_)),
        options_(std::move(options)),
        names_(reader_->input_names()) {}

  DecoderOutput operator()(const NamedTensors& given, ForwardContext& context) const override {
    const NamedTensors inputs = with_groups(given, context);
    if (!reads_beside_tokens(inputs)) return body_(with_parts(inputs), context);
    const Tensor ids = inputs.find("input_ids");
    if (!ids.defined() || ids.rank() != 2)
      fail("{}: expected input_ids [batch, length] beside them, whose tokens {} are their places", names_.front(),
           options_.image_token);
    NamedTensors rest;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "input_ids" && !is_of_pictures(name)) rest.set(name, tensor);
    const TextsInRows* texts = std::exchange(context.texts, nullptr);  // pictures are no texts
    const PictureRows seen = (*reader_)(pictures_of(inputs), context);
    rest.set("inputs_embeds", with_rows(embed(ids, context), ids, seen));
    if (reader_->places_pictures() && !rest.find("position_ids").defined())
      rest.set("position_ids", positions_of_batch(ids, rest.find("attention_mask"), pictures_of(inputs)));
    context.texts = texts;
    return body_(with_parts(rest), context);
  }

  Tensor embed(const Tensor& input_ids, ForwardContext& context) const override {
    const Tensor own = body_.embed(input_ids, context);
    return options_.behind_blocks == 0 ? own : pad(own, {0, 0, 0}, {0, 0, options_.behind_blocks * own.dim(2)});
  }
  int64_t embedding_width() const override { return width() * (1 + options_.behind_blocks); }
  const Embedding& word_embeddings() const override { return body_.word_embeddings(); }
  Tensor auxiliary_loss(const DecoderOutput& output, const NamedTensors& inputs) const override {
    return body_.auxiliary_loss(output, inputs);
  }
  DecoderTraits traits() const override {
    DecoderTraits traits = body_.traits();
    traits.head = options_.head;
    traits.tie_word_embeddings = traits.tie_word_embeddings || options_.tie_word_embeddings;
    if (reader_->places_pictures() || options_.together != Together::kNone) traits.texts_in_rows = false;
    return traits;
  }
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = body_.input_names();
    names.insert(names.end(), names_.begin(), names_.end());
    if (options_.together != Together::kNone) names.insert(names.end(), {"token_type_ids", kGivenRows});
    return names;
  }

  bool reads_beside_tokens(const NamedTensors& inputs) const override { return inputs.find(names_.front()).defined(); }

  std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors& inputs,
                                                          ForwardContext& context) const override {
    for (const auto& [name, tensor] : inputs.items())
      if (name != "input_ids" && name != "attention_mask" && name != "token_type_ids" && !is_of_pictures(name))
        fail("generate: unknown input {}; beside {} this model takes input_ids and attention_mask", quoted(name),
             fmt::join(names_, ", "));
    const Tensor& ids = inputs.at("input_ids");
    if (ids.rank() != 2) fail("input_ids: expected [batch, length], found {}", to_string(ids.shape()));
    const int64_t length = ids.dim(1);
    const NoGradient inference;
    const std::vector<PictureApart> pictures = reader_->apart(pictures_of(inputs), context);
    const std::vector<int64_t> all = ids.to_vector<int64_t>();
    int64_t filled = 0;
    for (const PictureApart& picture : pictures) filled += picture.places;
    check_places(all, filled);
    auto next = pictures.begin();
    std::vector<std::vector<AttachedInput>> rows;
    for (int64_t row = 0; row < ids.dim(0); ++row) {
      const std::span<const int64_t> tokens(all.data() + row * length, static_cast<size_t>(length));
      TokenPlaces places(tokens, options_.image_token);
      const int64_t of_row = places.left();
      std::vector<AttachedInput>& attached = rows.emplace_back();
      for (; places.left() > 0; ++next) {
        if (next->places > places.left())
          fail("input_ids: row {} has {} places for pictures (token {}), a picture fills {}", row, of_row,
               options_.image_token, next->places);
        attached.push_back({.tensors = next->tensors, .places = places.take(next->places)});
      }
      if (options_.together != Together::kPrompt || attached.empty()) continue;
      if (auto others = tokens_beside(tokens, options_.image_token, prompt_of(inputs, row)))
        attached.push_back(std::move(*others));
    }
    return rows;
  }

  int64_t position_axes() const override { return reader_->places_pictures() ? kPictureAxes : 1; }
  TextPositions positions_of(const ModelInputs& inputs) const override {
    std::vector<PlacedPicture> pictures;
    for (const AttachedInput& input : inputs.attached) {
      if (!reads_beside_tokens(input.tensors)) continue;  // vectors in place of tokens stand as those do
      const std::vector<PictureExtents> extents = reader_->extents(pictures_of(input.tensors));
      if (extents.size() != 1) fail("{}: expected one picture, found {}", names_.front(), extents.size());
      pictures.push_back({input.places, extents[0]});
    }
    return picture_positions(static_cast<int64_t>(inputs.tokens.size()), pictures);
  }

  Tensor run_embedding(const NamedTensors& tensors, ForwardContext& context) const override {
    for (const auto& [name, tensor] : tensors.items())
      if (!is_of_pictures(name))
        fail(ErrorKind::kUnsupported, "an input among the tokens: expected {}, found {} beside them",
             fmt::join(names_, ", "), quoted(name));
    return (*reader_)(tensors, context).rows;
  }

 private:
  // What the body reads of types of tokens, or of rows in their places.
  NamedTensors with_groups(const NamedTensors& given, const ForwardContext& context) const {
    if (options_.together == Together::kNone) return given;
    if (dynamic_cast<const PagedCache*>(context.cache))
      fail(ErrorKind::kUnsupported, "tokens that see those behind them cannot be paged");
    const bool pictures = options_.together == Together::kPictures;
    NamedTensors inputs;
    for (const auto& [name, tensor] : given.items())
      if (name != "token_type_ids" && name != kGivenRows) inputs.set(name, tensor);
    const Tensor types = given.find("token_type_ids"), rows = given.find(kGivenRows);
    Tensor together = rows;
    if (types.defined())
      together = cast(equal(types, full(types.shape(), pictures ? 1 : 0, types.dtype())), DType::kInt64);
    if (together.defined())
      set_sees_together(inputs, {pictures ? numbered_runs(together) : cast(together, DType::kInt64), pictures});
    return inputs;
  }

  // The places of a row's prompt, which a mask or types of tokens may leave out.
  static std::vector<bool> prompt_of(const NamedTensors& inputs, int64_t row) {
    const Tensor& ids = inputs.at("input_ids");
    std::vector<bool> is_prompt(static_cast<size_t>(ids.dim(1)), true);
    for (const auto& [name, of_prompt] : {std::pair("attention_mask", 1), std::pair("token_type_ids", 0)}) {
      const Tensor numbers = inputs.find(name);
      if (!numbers.defined() || numbers.size() == 0) continue;
      if (numbers.shape() != ids.shape())
        fail("{}: expected {}, found {}", name, to_string(ids.shape()), to_string(numbers.shape()));
      const std::vector<int64_t> of_row = cast(slice(numbers, 0, row, row + 1), DType::kInt64).to_vector<int64_t>();
      for (size_t i = 0; i < of_row.size(); ++i)
        if (of_row[i] != of_prompt) is_prompt[i] = false;
    }
    return is_prompt;
  }

  int64_t width() const { return body_.traits().width; }

  // Of rows that are wider than the body's the parts that it reads.
  NamedTensors with_parts(const NamedTensors& inputs) const {
    const Tensor rows = inputs.find("inputs_embeds");
    if (options_.behind_blocks == 0 || !rows.defined() || rows.rank() != 3 || rows.dim(2) != embedding_width())
      return inputs;
    NamedTensors parts;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "inputs_embeds") parts.set(name, tensor);
    parts.set("inputs_embeds", slice(rows, 2, 0, width()));
    parts.set(kAddedBehindBlocks, slice(rows, 2, width(), rows.dim(2)));
    return parts;
  }

  // Of as many places as there are rows.
  void check_places(std::span<const int64_t> ids, int64_t rows) const {
    const int64_t places = std::count(ids.begin(), ids.end(), options_.image_token);
    if (places != rows)
      fail("input_ids: {} places for pictures (token {}), and {} makes {} rows of features", places,
           options_.image_token, names_.front(), rows);
  }
  bool is_of_pictures(const std::string& name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  NamedTensors pictures_of(const NamedTensors& inputs) const {
    NamedTensors pictures;
    for (const auto& [name, tensor] : inputs.items())
      if (is_of_pictures(name)) pictures.set(name, tensor);
    return pictures;
  }

  // i64 [3, B, T]; padding stands at 0.
  Tensor positions_of_batch(const Tensor& ids, const Tensor& mask, const NamedTensors& pictures) const {
    const int64_t B = ids.dim(0), T = ids.dim(1);
    if (mask.defined() && mask.shape() != ids.shape())
      fail("attention_mask: expected {}, found {}", to_string(ids.shape()), to_string(mask.shape()));
    const std::vector<int64_t> all = known_numbers(ids, "input_ids");
    const std::vector<int64_t> counted =
        mask.defined() ? known_numbers(mask, "attention_mask") : std::vector<int64_t>(all.size(), 1);
    const std::vector<PictureExtents> extents = reader_->extents(pictures);
    auto next = extents.begin();
    std::vector<int64_t> positions(static_cast<size_t>(kPictureAxes * B * T), 0);
    for (int64_t row = 0; row < B; ++row) {
      TokenIds tokens;
      std::vector<int64_t> columns;  // of the tokens
      for (int64_t t = 0; t < T; ++t)
        if (counted[static_cast<size_t>(row * T + t)] != 0) {
          tokens.push_back(all[static_cast<size_t>(row * T + t)]);
          columns.push_back(t);
        }
      TokenPlaces places(tokens, options_.image_token);
      std::vector<PlacedPicture> own;
      for (; places.left() > 0; ++next) {
        if (next == extents.end() || next->places() > places.left())
          fail("input_ids: row {} has {} more places for pictures (token {}) than the pictures fill", row,
               places.left(), options_.image_token);
        own.push_back({places.take(next->places()), *next});
      }
      const TextPositions known = picture_positions(static_cast<int64_t>(tokens.size()), own);
      for (size_t axis = 0; axis < known.prompt.size(); ++axis)
        for (size_t i = 0; i < columns.size(); ++i)
          positions[(axis * static_cast<size_t>(B) + static_cast<size_t>(row)) * static_cast<size_t>(T) +
                    static_cast<size_t>(columns[i])] = known.prompt[axis][i];
    }
    return Tensor::from(positions, {kPictureAxes, B, T});
  }

  // `own` [B, T, D] with the rows, one after the other, in the places of pictures.
  Tensor with_rows(const Tensor& own, const Tensor& ids, const PictureRows& seen) const {
    const int64_t B = ids.dim(0), T = ids.dim(1), D = own.dim(2), count = seen.rows.dim(0);
    const Tensor is_place = equal(ids, full(ids.shape(), static_cast<double>(options_.image_token), ids.dtype()));
    const Tensor places = reshape(cast(is_place, DType::kInt64), {B * T});
    const Tensor order = minimum(maximum(cumulative_sum(places, 0) - 1.0, full({B * T}, 0, DType::kInt64)),
                                 full({B * T}, static_cast<double>(count - 1), DType::kInt64));
    Tensor given = reshape(gather(seen.rows, order, 0), {B, T, D});
    if (ids.node()->computed(ids.output())) {
      check_places(ids.to_vector<int64_t>(), seen.count.defined() ? seen.count.to_vector<int64_t>()[0] : count);
    } else {
      // Of a trace nobody knows the tokens: where their number is not that of the rows, nothing is to look right.
      const Tensor rows = seen.count.defined() ? seen.count : full({}, static_cast<double>(count), DType::kInt64);
      const Tensor fits = equal(reduce_sum(places, {0}), rows);
      given = select(reshape(fits, {1, 1, 1}), given,
                     full({1, 1, 1}, std::numeric_limits<double>::quiet_NaN(), given.dtype()));
    }
    return select(unsqueeze(is_place, 2), cast(given, own.dtype()), own);
  }

  std::unique_ptr<PictureReader> reader_;
  std::unique_ptr<Model> text_;
  const Decoder& body_;
  VisionLanguageOptions options_;
  std::vector<std::string> names_;  // of what the pictures are
};

}  // namespace

std::vector<PictureApart> PictureReader::apart(const NamedTensors& pictures, ForwardContext& context) const {
  const auto row = [&](int64_t i) {
    NamedTensors one;
    for (const auto& [name, tensor] : pictures.items()) one.set(name, slice(tensor, 0, i, i + 1));
    return one;
  };
  const Tensor& all = pictures.at(input_names().front());
  const int64_t places = (*this)(row(0), context).rows.dim(0);  // a shape: is not computed
  if (places < 1) fail("{}: pictures of {} make no features", input_names().front(), to_string(all.shape()));
  std::vector<PictureApart> one_by_one;
  for (int64_t i = 0; i < all.dim(0); ++i) one_by_one.push_back({row(i), places});
  return one_by_one;
}

namespace {

// Whether a value hangs on an input of a program that is being made.
bool hangs_on_inputs(const Tensor& tensor) {
  std::set<const Node*> seen;
  std::vector<const Node*> left{tensor.node().get()};
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    if (node->computed(0) || !seen.insert(node).second) continue;
    if (is_input(*node)) return true;
    for (const Tensor& input : node->inputs) left.push_back(input.node().get());
  }
  return false;
}

}  // namespace

std::vector<int64_t> known_numbers(const Tensor& tensor, const std::string& name) {
  if (!tensor.node()->computed(tensor.output()) && hangs_on_inputs(tensor))
    fail(ErrorKind::kUnsupported,
         "{}: a program that is compiled for any values is not offered: how many rows a picture has, and where they "
         "stand, hangs on them",
         name);
  return cast(tensor, DType::kInt64).to_vector<int64_t>();
}

std::unique_ptr<Decoder> make_vision_language_decoder(std::unique_ptr<PictureReader> reader,
                                                      std::unique_ptr<Model> text,
                                                      const VisionLanguageOptions& options) {
  return std::make_unique<VisionLanguageDecoder>(std::move(reader), std::move(text), options);
}

}  // namespace transom
