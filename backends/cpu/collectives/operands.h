// SPDX-License-Identifier: Apache-2.0
// What collectives work on, and how they come after the work of a stream.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpu/collectives/communicator.h"
#include "cpu/device/types.h"

namespace transom::cpu {

inline size_t bytes_of(size_t count, int32_t dtype) {
  if (dtype < TRANSOM_BOOL || dtype > TRANSOM_FLOAT64)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an element type, found number {}", dtype);
  const size_t size = element_size(static_cast<transom_dtype>(dtype));
  if (count > SIZE_MAX / size / 4096) fail(TRANSOM_INVALID_ARGUMENT, "{} elements are more than memory holds", count);
  return count * size;
}

inline std::byte* checked(const transom_binding& binding, size_t bytes) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "expected a buffer, found none");
  backend::expect_inside(binding, binding.buffer->bytes, bytes);
  return binding.buffer->data + binding.offset;
}

// Queues the work, after the stream's and now or at each replay. What another group of the stream has still to do comes
// first, so that whoever waits for the last has waited for all.
inline void submit(transom_communicator* communicator, transom_stream* stream, std::vector<transom_buffer*> buffers,
                   std::function<void(Transport*)> work) {
  const auto issue = [=, buffers = std::move(buffers), work = std::move(work)] {
    stream->pending = communicator->submit(
        [before = stream->pending, work](Transport* transport) {
          if (before)
            if (const std::string failure = before->wait(); !failure.empty()) throw std::runtime_error(failure);
          work(transport);
        },
        buffers);
    for (transom_buffer* buffer : buffers) buffer->use_by(stream->pending);
  };
  if (stream->recording) stream->recording->work.push_back(issue);
  else issue();
}

}  // namespace transom::cpu
