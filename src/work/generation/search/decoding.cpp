// SPDX-License-Identifier: Apache-2.0
#include "work/generation/search/decoding.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "base/numbers/fnv.h"
#include "models/loading/adapters/adaptation.h"
#include "runtime/tensor/evaluator.h"
#include "transom/ops.h"
#include "work/generation/processes/follow.h"

namespace transom {
namespace {

// Attention goes over all places that a cache has: longer texts begin with less room, which then doubles.
constexpr int64_t kMostReserved = 512;

// Of what processes compare, not of what is hostile.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) add_byte(static_cast<unsigned char>(byte));
    add(static_cast<int64_t>(bytes.size()));
  }
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
  }
  void add(const std::vector<int64_t>& numbers) { add(std::as_bytes(std::span(numbers))); }
  void add(const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors.items()) {
      add(std::as_bytes(std::span(name.data(), name.size())));
      add(static_cast<int64_t>(tensor.dtype()));
      add(tensor.shape());
      add(tensor.to_bytes());
    }
  }
  int64_t value() const { return static_cast<int64_t>(hash_); }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * kFnvPrime; }
  uint64_t hash_ = kFnvOffset;
};

template <typename T>
std::vector<T> repeated(const std::vector<T>& rows, int64_t times) {
  std::vector<T> result;
  for (const T& row : rows) result.insert(result.end(), static_cast<size_t>(times), row);
  return result;
}

}  // namespace

Decoding::Decoding(const GenerativeModel& model, DecodingPrompts prompts, int64_t max_length, bool use_cache,
                   const Computing& computing)
    : model_(model),
      encoder_inputs_(std::move(prompts.encoder_inputs)),
      mask_(std::move(prompts.mask)),
      attached_(std::move(prompts.attached)),
      untold_(prompts.untold),
      max_length_(max_length),
      use_cache_(use_cache && model.cache_expires_at() >= 0),
      computing_(computing) {
  const Adaptation* adaptation = model.adaptation();
  if (adaptation && adaptation->virtual_tokens()) put_before(*adaptation->virtual_tokens());
  for (const std::vector<AttachedInput>& row : attached_) {
    check_places(row, static_cast<int64_t>(mask_[0].size()));
    filled_ = std::max(filled_, end_of_places(row));
  }
}

// The adapters' own tokens take places before those of each row, which the rows do not tell.
void Decoding::put_before(const VirtualTokens& tokens) {
  if (model_.position_axes() > 1)
    fail(ErrorKind::kUnsupported, "virtual tokens of {}, whose tokens stand by several numbers, are not carried out",
         model_.architecture());
  const NoGradient inference;
  ForwardContext context{.computing = computing_};
  const int64_t count = tokens.count();
  for (TokenIds& row : mask_) row.insert(row.begin(), static_cast<size_t>(count), 1);
  untold_ += count;
  max_length_ += count;
  for (std::vector<AttachedInput>& row : attached_)
    for (AttachedInput& input : row)
      for (FilledPlaces& places : input.places) places.begin += count;
  before_ = tokens.keys_and_values(context);
  if (!before_.empty()) {
    std::vector<Tensor> all;
    for (const KeysAndValues& layer : before_) all.push_back(layer.keys), all.push_back(layer.values);
    eval(all);
    seeded_ = count;
    return;
  }
  const Tensor vectors = tokens.embeddings(context);
  eval({vectors});
  attached_.resize(mask_.size());
  for (std::vector<AttachedInput>& row : attached_)
    row.insert(row.begin(), {.tensors = {{"inputs_embeds", vectors}}, .places = {{.begin = 0, .count = count}}});
}

Decoding::Beginning Decoding::beginning(const std::vector<TokenIds>& rows) const {
  Fingerprint prompts, masks, inputs, attached;
  for (const TokenIds& row : rows) prompts.add(row);
  for (const TokenIds& row : mask_) masks.add(row);
  inputs.add(encoder_inputs_);
  for (const std::vector<AttachedInput>& row : attached_) {
    attached.add(static_cast<int64_t>(row.size()));
    for (const AttachedInput& input : row) {
      attached.add(input.tensors);
      for (const FilledPlaces& places : input.places) attached.add(std::vector{places.begin, places.count});
    }
  }
  return {prompts.value(), masks.value(), inputs.value(), attached.value(), max_length_, use_cache_ ? 1 : 0};
}

// An empty cache, with what the encoder makes of its inputs.
void Decoding::restart() {
  std::vector<int64_t> mask;
  for (const TokenIds& row : mask_) mask.insert(mask.end(), row.begin(), row.end());
  const auto prompt = static_cast<int64_t>(mask_[0].size());
  auto fresh = std::make_unique<KeyValueCache>(static_cast<int64_t>(mask_.size()), std::move(mask));
  if (model_.has_encoder() && cache_) {
    fresh->encoder_states = cache_->encoder_states;
    fresh->encoder_mask = cache_->encoder_mask;
    fresh->encoder_layers = cache_->encoder_layers;
  } else if (model_.has_encoder()) {
    ForwardContext context{.cache = fresh.get(), .computing = computing_};
    model_.encode(encoder_inputs_, context);
    if (Evaluator* evaluator = EvaluatorScope::current()) evaluator->evaluate({&fresh->encoder_states, 1}, {});
    else eval({fresh->encoder_states});
  }
  // The last token of the longest text is not looked at.
  if (use_cache_ && model_.one_program_for_all_steps())
    fresh->reserve(std::min(max_length_ - 1, std::max(kMostReserved, 2 * prompt)));
  if (!before_.empty()) fresh->seed(before_);
  cache_ = std::move(fresh);
  step_.reset();
}

// The logits of a pass, computed with all that the next one goes on from.
Tensor Decoding::pass(const PassInputs& inputs) {
  ForwardContext context{.cache = cache_.get(), .computing = computing_};
  Tensor logits = model_.next_logits(inputs, context);
  if (Evaluator* evaluator = EvaluatorScope::current()) {
    cache_->put(evaluator->evaluate({&logits, 1}, cache_->take()));
    return logits;
  }
  std::vector<Tensor> all = cache_->tensors();
  all.push_back(logits);
  eval(all);
  return logits;
}

// The same for one token behind the prompt, as a program that is traced once; it writes into the memory of the cache.
Tensor Decoding::step(const PassInputs& inputs) {
  if (!step_) {
    const auto trace = [this](const std::vector<Tensor>& arguments) {
      cache_->put({arguments.begin() + 2, arguments.end()});
      ForwardContext context{.cache = cache_.get(), .computing = computing_};
      std::vector<Tensor> results{model_.next_logits({arguments[0], arguments[1]}, context)};
      const std::vector<Tensor> state = cache_->take();
      results.insert(results.end(), state.begin(), state.begin() + static_cast<ptrdiff_t>(cache_->updated()));
      return results;
    };
    CompileOptions options{.name = "generate", .capture = mode() == Mode::kGraph, .donated = {}};
    for (size_t i = 0; i < cache_->updated(); ++i) options.donated.push_back(2 + i);
    step_ = compile(trace, std::move(options));
  }
  std::vector<Tensor> arguments{inputs.input_ids, inputs.position_ids}, state = cache_->take();
  const std::vector<Tensor> read(state.begin() + static_cast<ptrdiff_t>(cache_->updated()), state.end());
  std::move(state.begin(), state.end(), std::back_inserter(arguments));
  state.clear();
  std::vector<Tensor> results = (*step_)(std::move(arguments));
  Tensor logits = std::move(results[0]);
  results.erase(results.begin());
  results.insert(results.end(), read.begin(), read.end());
  cache_->put(results);
  return logits;
}

// Whether a pass to this length reads the rows from their beginning.
bool Decoding::begins_anew(int64_t length) const {
  return !cache_ || !use_cache_ || length == model_.cache_expires_at();
}

std::vector<float> Decoding::next(const std::vector<TokenIds>& rows) {
  const NoGradient inference;
  const auto length = untold_ + static_cast<int64_t>(rows[0].size());
  if (const int64_t most = model_.max_positions(); most > 0 && length > most)
    fail("the text has {} tokens; this model takes at most {} (max_position_embeddings); lower max_new_tokens", length,
         most);
  const int64_t seen = begins_anew(length) ? seeded_ : cache_->length();
  std::vector<int64_t> told{length};
  for (const TokenIds& row : rows) {
    told.insert(told.end(), static_cast<size_t>(std::max<int64_t>(untold_ - seen, 0)), 0);
    told.insert(told.end(), row.begin() + std::max<int64_t>(seen - untold_, 0), row.end());
  }
  tell_followers({.kind = ProcessCommand::Kind::kRead, .numbers = told});
  return read({told.begin() + 1, told.end()}, length).to_vector<float>();
}

Tensor Decoding::read(const std::vector<int64_t>& ids, int64_t length) {
  const NoGradient inference;
  is_reading_ = true;
  if (begins_anew(length)) restart();
  const int64_t seen = cache_->length(), coming = length - seen;
  const auto count = static_cast<int64_t>(mask_.size());
  if (coming < 1 || static_cast<int64_t>(ids.size()) / coming != count ||
      static_cast<int64_t>(ids.size()) % coming != 0)
    fail("generate: expected {} tokens for each of {} rows, found {}; give all processes the same prompts", coming,
         count, ids.size());
  const PassInputs inputs = inputs_of(ids, length);
  cache_->sources = sources_of_pass(length);
  cache_->begin(coming);
  const bool compiled = seen > 0 && coming == 1 && mode() != Mode::kEager && !EvaluatorScope::current() &&
                        model_.one_program_for_all_steps() && !inputs.embeddings.defined();
  Tensor logits = compiled ? step(inputs) : pass(inputs);
  cache_->end();
  vocabulary_ = logits.dim(1);
  is_reading_ = false;
  return logits;
}

// The tokens behind those that the cache has seen, with the rows that stand in their places.
PassInputs Decoding::inputs_of(const std::vector<int64_t>& ids, int64_t length) {
  const int64_t seen = cache_->length(), coming = length - seen, axes = model_.position_axes();
  const auto count = static_cast<int64_t>(mask_.size());
  const std::vector<int64_t> positions = positions_of(ids, length);
  PassInputs inputs{Tensor::from(ids, {count, coming}),
                    Tensor::from(positions, axes == 1 ? Shape{count, coming} : Shape{axes, count, coming})};
  if (seen >= filled_ || model_.source_rows() > 0) return inputs;
  embed();
  const int64_t width = model_.embedding_width();
  std::vector<float> rows(static_cast<size_t>(count * coming * width), 0);
  std::vector<int64_t> is_given(static_cast<size_t>(count * coming), 0);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t place = seen; place < length; ++place) {
      const float* given = embedded_[static_cast<size_t>(row)]->at(place);
      if (!given) continue;
      const int64_t at = row * coming + place - seen;
      is_given[static_cast<size_t>(at)] = 1;
      std::copy_n(given, width, rows.begin() + at * width);
    }
  inputs.embeddings = Tensor::from(rows, {count, coming, width});
  inputs.is_given = Tensor::from(is_given, {count, coming});
  return inputs;
}

// [axes, rows, coming]; padding stands at 0.
std::vector<int64_t> Decoding::positions_of(const std::vector<int64_t>& ids, int64_t length) {
  const int64_t seen = cache_->length(), coming = length - seen;
  const auto axes = static_cast<size_t>(model_.position_axes());
  const auto is_token = [&](size_t row, int64_t place) {
    const TokenIds& mask = mask_[row];
    return place >= static_cast<int64_t>(mask.size()) || mask[static_cast<size_t>(place)] != 0;
  };
  if (axes > 1 && positions_.empty())
    for (size_t row = 0; row < mask_.size(); ++row) {
      const auto begin = ids.begin() + static_cast<ptrdiff_t>(row) * coming;
      const auto prompt = static_cast<int64_t>(mask_[row].size());
      int64_t padding = 0;
      while (padding < prompt && !is_token(row, padding)) ++padding;
      ModelInputs inputs(TokenIds(begin + padding, begin + prompt),
                         attached_.empty() ? std::vector<AttachedInput>() : attached_[row]);
      for (AttachedInput& input : inputs.attached)
        for (FilledPlaces& places : input.places) places.begin -= padding;
      positions_.push_back(model_.positions_of(inputs));
    }
  std::vector<int64_t> positions;
  for (size_t axis = 0; axis < axes; ++axis)
    for (size_t row = 0; row < mask_.size(); ++row) {
      int64_t place = 0;  // among the tokens that are no padding
      for (int64_t t = 0; t < length; ++t) {
        const bool token = is_token(row, t);
        if (t >= seen) positions.push_back(!token ? 0 : axes > 1 ? positions_[row].at(axis, place) : place);
        place += token;
      }
    }
  return positions;
}

void Decoding::embed() {
  if (!embedded_.empty()) return;
  for (const std::vector<AttachedInput>& row : attached_)
    embedded_.push_back(
        std::make_shared<const EmbeddedInputs>(row, model_.embedding_width(), 0, [&](const AttachedInput& input) {
          ForwardContext context{.computing = computing_};
          const Tensor rows = model_.embed(input, context);
          if (Evaluator* evaluator = EvaluatorScope::current()) evaluator->evaluate({&rows, 1}, {});
          return rows.to_vector<float>();
        }));
}

// The keys of all pictures one behind the other, each of which has blocks of its own.
void Decoding::make_sources() {
  if (EvaluatorScope::current())
    fail(ErrorKind::kUnsupported, "pictures that {} reads beside its tokens are not offered over several processes",
         model_.architecture());
  std::vector<KeysAndValues> all;
  int32_t next = 0;
  for (const std::vector<AttachedInput>& row : attached_) {
    std::vector<PlacedSource> placed;
    for (const AttachedInput& input : row) {
      ForwardContext context{.computing = computing_};
      AttendedPicture source = model_.source_of(input, context);
      PlacedSource& one =
          placed.emplace_back(PlacedSource{.place = input.places[0].begin, .blocks = {}, .seen = source.seen});
      for (int64_t i = 0; i < source.parts; ++i) one.blocks.push_back(next++);
      const size_t layers = source.layers.size();
      for (size_t i = 0; i < layers; ++i) {
        if (all.size() <= i) all.push_back(source.layers[i]);
        else
          all[i] = {concatenate({all[i].keys, source.layers[i].keys}, 0),
                    concatenate({all[i].values, source.layers[i].values}, 0)};
      }
    }
    sources_.emplace_back(std::move(placed));
  }
  std::vector<Tensor> computed;
  for (const KeysAndValues& layer : all) computed.push_back(layer.keys), computed.push_back(layer.values);
  eval(computed);
  source_layers_ = std::move(all);
}

// What the tokens that the cache has not seen yet see of pictures.
std::optional<SeenSources> Decoding::sources_of_pass(int64_t length) {
  if (model_.source_rows() == 0 || filled_ == 0) return std::nullopt;
  if (sources_.empty()) make_sources();
  std::vector<SeenBlocks> tokens;
  for (const SourcesOfText& row : sources_)
    for (int64_t place = cache_->length(); place < length; ++place) tokens.push_back(row.at(place));
  const SourceNumbers numbers = source_numbers(tokens, model_.source_rows());
  const auto count = static_cast<int64_t>(tokens.size());
  return SeenSources{.layers = source_layers_,
                     .tables = Tensor::from(numbers.tables, {count, numbers.blocks}),
                     .lengths = Tensor::from(numbers.lengths, {count}),
                     .reads = Tensor::from(numbers.reads, {count})};
}

void Decoding::repeat(int64_t times) {
  if (times == 1) return;
  if (!cache_ || times < 1) fail("generate: expected rows that were read, to be repeated {} times", times);
  tell_followers({.kind = ProcessCommand::Kind::kRepeat, .numbers = {times}});
  mask_ = repeated(mask_, times);
  attached_ = repeated(attached_, times);
  embedded_ = repeated(embedded_, times);
  sources_ = repeated(sources_, times);
  positions_ = repeated(positions_, times);
  cache_->repeat(times);
}

void Decoding::reorder(const std::vector<int64_t>& sources) {
  bool same = true;
  for (size_t i = 0; i < sources.size(); ++i) same &= sources[i] == static_cast<int64_t>(i);
  if (same || !use_cache_) return;
  if (!cache_) fail("generate: expected rows that were read, to be put in another order");
  for (const int64_t source : sources)
    if (source < 0 || source >= static_cast<int64_t>(mask_.size()))
      fail("generate: expected rows in [0, {}), found {}", mask_.size(), source);
  tell_followers({.kind = ProcessCommand::Kind::kReorder, .numbers = sources});
  const NoGradient inference;
  cache_->reorder(Tensor::from(sources, {static_cast<int64_t>(sources.size())}));
}

}  // namespace transom
