// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/kept/block_transfer.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<bool> states_of_pools(const std::vector<KeyValueShape>& shapes) {
  std::vector<bool> states;
  for (const KeyValueShape& shape : shapes) states.insert(states.end(), shape.is_state() ? 1 : 2, shape.is_state());
  return states;
}

// Arguments: rows, blocks, then the pools.
CompiledFunction reading(const std::vector<bool>& states) {
  const auto trace = [states](const std::vector<Tensor>& in) {
    std::vector<Tensor> results;
    for (size_t i = 0; i < states.size(); ++i) results.push_back(gather(in[2 + i], in[states[i] ? 1 : 0], 0));
    return results;
  };
  return compile(trace, {.name = "blocks to the host", .capture = false, .donated = {}});
}

// Arguments: rows, blocks, the new contents, then the pools.
CompiledFunction writing(const std::vector<bool>& states) {
  const auto trace = [states](const std::vector<Tensor>& in) {
    std::vector<Tensor> results;
    for (size_t i = 0; i < states.size(); ++i)
      results.push_back(scatter(in[2 + states.size() + i], in[states[i] ? 1 : 0], in[2 + i]));
    return results;
  };
  CompileOptions options{.name = "blocks from the host", .capture = false, .donated = {}};
  for (size_t i = 0; i < states.size(); ++i) options.donated.push_back(2 + states.size() + i);
  return compile(trace, std::move(options));
}

}  // namespace

BlockTransfer::BlockTransfer(std::vector<KeyValueShape> shapes, int64_t block_size)
    : shapes_(std::move(shapes)),
      block_size_(block_size),
      is_state_(states_of_pools(shapes_)),
      read_(reading(is_state_)),
      write_(writing(is_state_)) {}

std::vector<Tensor> BlockTransfer::places_of(std::span<const int32_t> blocks, int64_t none) const {
  std::vector<Tensor> places;
  for (const int64_t size : {block_size_, int64_t{1}}) {
    std::vector<int64_t> numbers(kAtOnce * static_cast<size_t>(size), none);
    for (size_t i = 0; i < blocks.size(); ++i)
      for (int64_t j = 0; j < size; ++j)
        numbers[i * static_cast<size_t>(size) + static_cast<size_t>(j)] = blocks[i] * size + j;
    places.push_back(Tensor::from(numbers, {static_cast<int64_t>(numbers.size())}));
  }
  return places;
}

std::vector<std::vector<std::byte>> BlockTransfer::read(const std::vector<Tensor>& pools,
                                                        std::span<const int32_t> blocks) const {
  std::vector<Tensor> arguments = places_of(blocks, 0);
  arguments.insert(arguments.end(), pools.begin(), pools.end());
  std::vector<std::vector<std::byte>> contents(blocks.size());
  for (const Tensor& rows : read_(std::move(arguments))) {
    const std::vector<std::byte> bytes = rows.to_bytes();
    const auto one = static_cast<ptrdiff_t>(bytes.size() / kAtOnce);
    for (size_t i = 0; i < contents.size(); ++i) {
      const auto begin = bytes.begin() + static_cast<ptrdiff_t>(i) * one;
      contents[i].insert(contents[i].end(), begin, begin + one);
    }
  }
  return contents;
}

std::vector<Tensor> BlockTransfer::write(std::vector<Tensor> pools, std::span<const int32_t> blocks,
                                         std::span<const std::vector<std::byte>> contents) const {
  std::vector<Tensor> arguments = places_of(blocks, -1);
  size_t place = 0;
  for (const Type& type : pool_types(shapes_, static_cast<int64_t>(kAtOnce), block_size_)) {
    std::vector<std::byte> bytes(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype));
    const size_t one = bytes.size() / kAtOnce;
    for (size_t i = 0; i < blocks.size(); ++i)  // of no bytes where a layer keeps no values
      std::copy_n(contents[i].begin() + static_cast<ptrdiff_t>(place), one,
                  bytes.begin() + static_cast<ptrdiff_t>(i * one));
    place += one;
    arguments.push_back(Tensor::from_bytes(bytes, type));
  }
  std::move(pools.begin(), pools.end(), std::back_inserter(arguments));
  pools.clear();
  return write_(std::move(arguments));
}

void BlockTransfer::forget() const {
  read_.forget();
  write_.forget();
}

}  // namespace transom
