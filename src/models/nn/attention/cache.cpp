// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/cache.h"

#include <algorithm>

#include "base/error.h"
#include "models/nn/attention/attention.h"

namespace transom {
namespace {

constexpr int64_t kLeastCapacity = 64;

// Zeros behind what is there, along the axis of places.
Tensor with_room(const Tensor& x, int64_t capacity) {
  return x.dim(1) == capacity ? x : pad(x, {0, 0, 0, 0}, {0, capacity - x.dim(1), 0, 0});
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t rows, std::vector<int64_t> mask) : rows_(rows), mask_(std::move(mask)) {
  if (rows <= 0 || static_cast<int64_t>(mask_.size()) % rows != 0)
    fail(ErrorKind::kInternal, "a cache of {} rows was given a mask of {} numbers", rows, mask_.size());
  prompt_ = static_cast<int64_t>(mask_.size()) / rows;
}

KeyValueCache::KeyValueCache(std::vector<KeysAndValues> past, Tensor mask)
    : rows_(mask.dim(0)),
      prompt_(0),
      length_(past.at(0).keys.dim(1)),
      capacity_(mask.dim(1)),
      seen_(mask.dim(1)),
      places_(std::move(mask)),
      layers_(std::move(past)),
      concatenates_(true) {}

void KeyValueCache::seed(std::vector<KeysAndValues> layers) {
  const int64_t count = layers.at(0).keys.dim(1);
  if (length_ != 0 || count > prompt_)
    fail(ErrorKind::kInternal, "a cache of {} tokens and a prompt of {} was given {} places before them", length_,
         prompt_, count);
  capacity_ = std::max({capacity_, count, kLeastCapacity});
  for (KeysAndValues& layer : layers)
    for (Tensor* part : {&layer.keys, &layer.values}) {
      Shape shape = part->shape();
      shape[0] = rows_;
      *part = with_room(broadcast_to(*part, shape), capacity_);
    }
  layers_ = std::move(layers);
  length_ = count;
}

void KeyValueCache::make_places() {
  std::vector<int64_t> places(static_cast<size_t>(rows_ * seen_), 1);
  for (int64_t row = 0; row < rows_; ++row)
    std::copy_n(mask_.begin() + row * prompt_, std::min(prompt_, seen_), places.begin() + row * seen_);
  places_ = Tensor::from(places, {rows_, seen_});
}

void KeyValueCache::begin(int64_t tokens) {
  int64_t needed = std::max(capacity_, kLeastCapacity);
  while (needed < length_ + tokens) needed *= 2;
  if (needed != capacity_)
    for (KeysAndValues& layer : layers_) layer = {with_room(layer.keys, needed), with_room(layer.values, needed)};
  capacity_ = needed;
  const int64_t seen = length_ == 0 ? tokens : capacity_;
  if (seen != seen_) {
    seen_ = seen;
    make_places();
  }
  coming_ = tokens;
  start_ = Tensor::from(std::vector<int64_t>{0, length_, 0, 0}, {4});
  forget_visible();
}

void KeyValueCache::end() {
  length_ += coming_;
  coming_ = 0;
  forget_visible();
}

Tensor KeyValueCache::attend(int64_t, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const AttentionOptions&, const Computing&, const Tensor&) {
  return {};
}

KeysAndValues KeyValueCache::append(int64_t layer, const Tensor& keys, const Tensor& values) {
  const auto place = static_cast<size_t>(layer);
  if (length_ == 0) {
    if (layers_.size() <= place) layers_.resize(place + 1);
    layers_[place] = {with_room(keys, capacity_), with_room(values, capacity_)};
    return {keys, values};
  }
  KeysAndValues& seen = layers_.at(place);
  if (concatenates_) return seen = {concatenate({seen.keys, keys}, 1), concatenate({seen.values, values}, 1)};
  seen.keys = dynamic_update_slice(seen.keys, keys, start_);
  seen.values = dynamic_update_slice(seen.values, values, start_);
  return seen;
}

Tensor KeyValueCache::state(size_t number) const {
  if (concatenates_) fail(ErrorKind::kUnsupported, "a state beside keys and values is no input of another runtime");
  return length_ == 0 || number >= states_.size() ? Tensor() : states_[number];
}

void KeyValueCache::set_state(size_t number, Tensor state) {
  if (state.rank() < 1 || state.dim(0) != rows_)
    fail(ErrorKind::kInternal, "a state of a cache of {} rows: found {}", rows_, to_string(state.type()));
  if (states_.size() <= number) states_.resize(number + 1);
  states_[number] = std::move(state);
}

StatePlaces KeyValueCache::state_places(size_t, const Type&) {
  fail(ErrorKind::kInternal, "a cache of rows has no pools of states");
}

void KeyValueCache::set_state_pool(size_t, Tensor) {
  fail(ErrorKind::kInternal, "a cache of rows has no pools of states");
}

void KeyValueCache::forget_visible() {
  visible_.clear();
  padding_ = {};
}

Tensor KeyValueCache::of_padding() {
  if (!padding_.defined()) {
    const Tensor real = not_equal(places_, zeros(places_.shape(), DType::kInt64));
    padding_ = additive_where(reshape(real, {rows_, 1, 1, seen_}));
  }
  return padding_;
}

Tensor KeyValueCache::visible(int64_t tokens, int64_t sliding_window) {
  for (const Visible& known : visible_)
    if (known.window == sliding_window) return known.bias;
  const Shape shape{tokens, seen_};
  const Tensor row = iota(shape, 0), key = iota(shape, 1);
  const Tensor query = concatenates_ ? row + static_cast<double>(length_) : row + slice(start_, 0, 1, 2);
  Tensor seen = less_equal(key, query);
  if (sliding_window > 0) seen = logical_and(seen, greater(key, query - static_cast<double>(sliding_window)));
  const Tensor real = not_equal(places_, zeros(places_.shape(), DType::kInt64));
  const Shape all{rows_, 1, tokens, seen_};
  const Tensor visible = logical_and(broadcast_to(reshape(seen, {1, 1, tokens, seen_}), all),
                                     broadcast_to(reshape(real, {rows_, 1, 1, seen_}), all));
  visible_.push_back({sliding_window, additive_where(visible)});
  return visible_.back().bias;
}

void KeyValueCache::reorder(const Tensor& sources) {
  for (KeysAndValues& layer : layers_) layer = {gather(layer.keys, sources, 0), gather(layer.values, sources, 0)};
  for (Tensor& state : states_) state = gather(state, sources, 0);
}

void KeyValueCache::repeat(int64_t times) {
  std::vector<int64_t> sources, mask;
  for (int64_t row = 0; row < rows_; ++row)
    for (int64_t i = 0; i < times; ++i) {
      sources.push_back(row);
      mask.insert(mask.end(), mask_.begin() + row * prompt_, mask_.begin() + (row + 1) * prompt_);
    }
  rows_ *= times;
  mask_ = std::move(mask);
  if (seen_ > 0) make_places();
  const Tensor from = Tensor::from(sources, {rows_});
  reorder(from);
  if (!encoder_layers.empty()) return;  // one row of the source for each `times` rows, as attention_to_source reads it
  if (encoder_states.defined()) encoder_states = gather(encoder_states, from, 0);
  if (encoder_mask.defined()) encoder_mask = gather(encoder_mask, from, 0);
}

void KeyValueCache::reserve(int64_t tokens) {
  if (capacity_ == 0) capacity_ = (tokens + kLeastCapacity - 1) / kLeastCapacity * kLeastCapacity;
}

std::vector<Tensor> KeyValueCache::take() {
  std::vector<Tensor> state;
  const auto take_all = [&](std::vector<KeysAndValues>& layers) {
    for (KeysAndValues& layer : layers)
      state.push_back(std::move(layer.keys)), state.push_back(std::move(layer.values));
  };
  take_all(layers_);
  for (Tensor& one : states_) state.push_back(std::move(one));
  take_all(encoder_layers);
  if (sources) {
    take_all(sources->layers);
    for (Tensor* one : {&sources->tables, &sources->lengths, &sources->reads}) state.push_back(std::move(*one));
  }
  for (Tensor* one : {&start_, &places_, &encoder_mask})
    if (one->defined()) state.push_back(std::move(*one));
  forget_visible();
  encoder_states = {};  // its keys and values are all that is read of it
  return state;
}

void KeyValueCache::put(const std::vector<Tensor>& state) {
  size_t next = 0;
  const auto put_all = [&](std::vector<KeysAndValues>& layers) {
    for (KeysAndValues& layer : layers) layer.keys = state.at(next++), layer.values = state.at(next++);
  };
  put_all(layers_);
  for (Tensor& one : states_) one = state.at(next++);
  put_all(encoder_layers);
  if (sources) {
    put_all(sources->layers);
    for (Tensor* one : {&sources->tables, &sources->lengths, &sources->reads}) *one = state.at(next++);
  }
  start_ = state.at(next++);
  places_ = state.at(next++);
  encoder_mask = next < state.size() ? state[next] : Tensor();
  forget_visible();
}

std::vector<Tensor> KeyValueCache::tensors() const {
  std::vector<Tensor> all;
  for (const auto* layers : {&layers_, &encoder_layers})
    for (const KeysAndValues& layer : *layers) all.push_back(layer.keys), all.push_back(layer.values);
  all.insert(all.end(), states_.begin(), states_.end());
  if (encoder_states.defined()) all.push_back(encoder_states);
  return all;
}

}  // namespace transom
