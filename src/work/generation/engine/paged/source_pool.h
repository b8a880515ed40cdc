// SPDX-License-Identifier: Apache-2.0
// The memory of pictures that a model reads beside its tokens: keys and values of their parts in blocks of pools, one
// pair for each layer that reads them. Who holds a picture keeps its blocks; those who hold equal ones share them.
// Letters: R rows of a block, G heads of keys.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/generative.h"
#include "transom/compile.h"

namespace transom {

class SourcePool {
 public:
  explicit SourcePool(int64_t rows) : rows_(rows) {}
  SourcePool(const SourcePool&) = delete;
  SourcePool& operator=(const SourcePool&) = delete;

  int64_t rows() const { return rows_; }  // R
  // [blocks R, G, d], keys and values of each layer. Empty as long as no picture was held.
  const std::vector<Tensor>& pools() const { return pools_; }

  // A picture that somebody holds.
  class Held {
   public:
    Held(std::shared_ptr<std::vector<int32_t>> free, std::vector<int32_t> blocks, int64_t seen)
        : blocks(std::move(blocks)), seen(seen), free_(std::move(free)) {}
    ~Held() { free_->insert(free_->end(), blocks.begin(), blocks.end()); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    const std::vector<int32_t> blocks;
    const int64_t seen;

   private:
    std::shared_ptr<std::vector<int32_t>> free_;
  };
  // The picture of this name, which tells what it holds and whose weights read it; made where nobody holds it. Throws
  // where it cannot be made or there is no memory for it; those that are held stay.
  std::shared_ptr<const Held> hold(const std::string& name, const std::function<AttendedPicture()>& make);

 private:
  void make_room(size_t blocks, const std::vector<Tensor>& like);

  int64_t rows_, blocks_ = 0;
  std::vector<Tensor> pools_;
  std::shared_ptr<std::vector<int32_t>> free_ = std::make_shared<std::vector<int32_t>>();
  std::map<std::string, std::weak_ptr<const Held>> held_;
  std::optional<CompiledFunction> put_;
};

}  // namespace transom
