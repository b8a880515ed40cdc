// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/source_pool.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {

void SourcePool::make_room(size_t blocks, const std::vector<Tensor>& like) {
  if (free_->size() >= blocks) return;
  const int64_t more = std::max<int64_t>(blocks_, static_cast<int64_t>(blocks - free_->size()));
  std::vector<Tensor> larger;
  for (size_t i = 0; i < like.size(); ++i) {
    Shape shape = like[i].shape();
    shape[0] = more * rows_;
    const Tensor blank = zeros(shape, like[i].dtype());
    larger.push_back(pools_.empty() ? blank : concatenate({pools_[i], blank}, 0));
  }
  eval(larger);
  pools_ = std::move(larger);
  for (int64_t i = more; i-- > 0;) free_->push_back(static_cast<int32_t>(blocks_ + i));
  blocks_ += more;
  if (put_) put_->forget();
}

std::shared_ptr<const SourcePool::Held> SourcePool::hold(const std::string& name,
                                                         const std::function<AttendedPicture()>& make) {
  std::erase_if(held_, [](const auto& known) { return known.second.expired(); });
  if (const auto known = held_.find(name); known != held_.end())
    if (std::shared_ptr<const Held> held = known->second.lock()) return held;
  const NoGradient inference;
  const AttendedPicture source = make();
  std::vector<Tensor> layers;
  for (const KeysAndValues& layer : source.layers) layers.push_back(layer.keys), layers.push_back(layer.values);
  if (layers.empty() || source.parts < 1 || layers[0].dim(0) != source.parts * rows_)
    fail(ErrorKind::kInternal, "a picture of {} parts made keys that are no {} rows", source.parts,
         source.parts * rows_);
  eval(layers);
  const auto parts = static_cast<size_t>(source.parts);
  make_room(parts, layers);
  std::vector<int32_t> blocks(free_->end() - static_cast<ptrdiff_t>(parts), free_->end());
  std::vector<int64_t> places;
  for (const int32_t block : blocks)
    for (int64_t row = 0; row < rows_; ++row) places.push_back(block * rows_ + row);
  const size_t count = layers.size();
  if (!put_) {
    const auto trace = [count](const std::vector<Tensor>& in) {
      std::vector<Tensor> results;
      for (size_t i = 0; i < count; ++i) results.push_back(scatter(in[1 + count + i], in[0], in[1 + i]));
      return results;
    };
    put_ = compile(trace, {.name = "pictures beside tokens", .capture = false, .donated = {}});
  }
  std::vector<Tensor> arguments{Tensor::from(places, {static_cast<int64_t>(places.size())})};
  arguments.insert(arguments.end(), layers.begin(), layers.end());
  arguments.insert(arguments.end(), pools_.begin(), pools_.end());
  std::vector<Tensor> filled = (*put_)(std::move(arguments));
  eval(filled);
  pools_ = std::move(filled);
  free_->resize(free_->size() - parts);
  const auto held = std::make_shared<const Held>(free_, std::move(blocks), source.seen);
  held_[name] = held;
  return held;
}

}  // namespace transom
