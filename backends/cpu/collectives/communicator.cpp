// SPDX-License-Identifier: Apache-2.0
#include "cpu/collectives/communicator.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/collectives/exchange.h"
#include "cpu/collectives/operands.h"
#include "cpu/collectives/reductions.h"
#include "cpu/device/error.h"
#include "cpu/device/types.h"

using transom::cpu::Completion;
using transom::cpu::Transport;

transom_communicator::transom_communicator(const unsigned char* id, uint32_t rank, uint32_t ranks)
    : rank_(rank), ranks_(ranks) {
  using namespace transom::cpu;
  if (rank >= ranks) fail(TRANSOM_INVALID_ARGUMENT, "expected a rank below {}, found {}", ranks, rank);
  if (ranks > 1) {
    const auto* name = reinterpret_cast<const char*>(id);
    const TransportLibrary& library = open_transport(choose_transport({name, strnlen(name, kNameBytes)}));
    try {
      state_->transport.reset(
          library.join(id + kNameBytes, 256 - kNameBytes, rank, ranks,
                       [&](const std::vector<Bytes>& parts) { return exchange_over_host(id, rank, parts); }));
    } catch (const std::exception& error) {
      fail(TRANSOM_UNAVAILABLE, "joining the other processes: {}", error.what());
    }
  }
  worker_ = std::thread([state = state_] { carry_out(*state); });
}

transom_communicator::~transom_communicator() {
  bool failed = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    failed = !state_->failure.empty();
  }
  state_->wake.notify_all();
  if (failed) worker_.detach();
  else worker_.join();
}

void transom_communicator::abort() {
  std::deque<Item> waiting;
  std::string failure;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->failure.empty()) state_->failure = "the group was given up";
    failure = state_->failure;
    waiting.swap(state_->queue);
    if (const Item* running = std::exchange(state_->running, nullptr)) {  // its buffers may be gone at the next call
      waiting.push_front(*running);
      // They live: who frees them waits for this completion or a later one.
      for (transom_buffer* buffer : running->buffers)
        if (std::exchange(buffer->allocator, nullptr)) state_->abandoned.emplace_back(buffer->data, &std::free);
    }
  }
  if (state_->transport) state_->transport->abort();
  for (const Item& item : waiting) item.completion->finish(failure);
}

std::shared_ptr<Completion> transom_communicator::submit(std::function<void(Transport*)> work,
                                                         std::vector<transom_buffer*> buffers) {
  auto completion = std::make_shared<Completion>();
  {
    const std::lock_guard lock(state_->mutex);
    // The worker of a group that was given up may never come back.
    if (!state_->failure.empty()) {
      completion->finish(state_->failure);
      return completion;
    }
    state_->queue.push_back({std::move(work), completion, std::move(buffers)});
  }
  state_->wake.notify_all();
  return completion;
}

void transom_communicator::carry_out(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.wake.wait(lock, [&] { return state.closing || !state.queue.empty(); });
    if (state.queue.empty()) return;
    const Item item = std::move(state.queue.front());
    state.queue.pop_front();
    std::string failure = state.failure;
    if (failure.empty()) {
      state.running = &item;
      lock.unlock();
      try {
        item.work(state.transport.get());
      } catch (const std::exception& error) {
        failure = error.what();
      }
      lock.lock();
      state.running = nullptr;
      state.abandoned.clear();
      if (state.failure.empty()) state.failure = failure;
    }
    item.completion->finish(failure);
  }
}

namespace transom::cpu {
namespace {

transom_status communicator_id(unsigned char id[256], transom_error* error) {
  return guarded(error, [&] {
    // Texts, each with a zero behind it: the transport, rank 0's address, the seconds for which ranks wait.
    std::string_view left(reinterpret_cast<const char*>(id), 256);
    const auto next_text = [&] {
      const std::string text(left.substr(0, left.find('\0')));
      left.remove_prefix(std::min(left.size(), text.size() + 1));
      return text;
    };
    const std::string asked_name = next_text(), name = choose_transport(asked_name);
    GroupOptions options{.address = next_text()};
    const std::string seconds = next_text();
    std::from_chars(seconds.data(), seconds.data() + seconds.size(), options.timeout);
    std::memset(id, 0, 256);
    try {
      open_transport(name).make_id(options, id + kNameBytes, 256 - kNameBytes);
    } catch (const std::runtime_error& failure) {
      fail(TRANSOM_UNAVAILABLE, "{}: {}", name, failure.what());
    } catch (const Failure&) {
      if (!asked_name.empty())
        throw;  // else a group of one may follow, which needs no library; a larger one asks again
    }
    name.copy(reinterpret_cast<char*>(id), kNameBytes);
  });
}

transom_status communicator_create(transom_device*, const unsigned char id[256], uint32_t rank, uint32_t ranks,
                                   transom_communicator** communicator, transom_error* error) {
  return guarded(error, [&] { *communicator = new transom_communicator(id, rank, ranks); });
}

void communicator_destroy(transom_communicator* communicator) { delete communicator; }
void communicator_abort(transom_communicator* communicator) { communicator->abort(); }

void expect_reduction(int32_t dtype, int32_t reduction) {
  switch (dtype) {
    case TRANSOM_FLOAT16:
    case TRANSOM_BFLOAT16:
    case TRANSOM_FLOAT32:
    case TRANSOM_FLOAT64:
    case TRANSOM_INT32:
    case TRANSOM_INT64:
      break;
    default:
      fail(TRANSOM_UNSUPPORTED, "processes reduce f16, bf16, f32, f64, i32 and i64 only");
  }
  if (reduction < TRANSOM_SUM || reduction > TRANSOM_MIN)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a reduction of the interface, found number {}", reduction);
}

transom_status all_reduce(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                          transom_binding to, size_t count, int32_t dtype, int32_t reduction, transom_error* error) {
  return guarded(error, [&] {
    expect_reduction(dtype, reduction);
    const size_t bytes = bytes_of(count, dtype), ranks = communicator->ranks(), rank = communicator->rank();
    std::byte *source = checked(from, bytes), *target = checked(to, bytes);
    submit(communicator, stream, {from.buffer, to.buffer}, [=](Transport* transport) {
      if (source != target) std::memmove(target, source, bytes);
      if (transport)
        reduce_to_all(*transport, {rank, ranks}, target, count, static_cast<transom_dtype>(dtype),
                      static_cast<transom_reduction>(reduction));
    });
  });
}

transom_status all_gather(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                          transom_binding to, size_t count, int32_t dtype, transom_error* error) {
  return guarded(error, [&] {
    const size_t bytes = bytes_of(count, dtype);
    std::byte *source = checked(from, bytes), *target = checked(to, bytes * communicator->ranks());
    submit(communicator, stream, {from.buffer, to.buffer}, [=](Transport* transport) {
      if (transport) transport->all_gather(source, target, bytes);
      else if (source != target) std::memmove(target, source, bytes);
    });
  });
}

transom_status reduce_scatter(transom_communicator* communicator, transom_stream* stream, transom_binding from,
                              transom_binding to, size_t count, int32_t dtype, int32_t reduction,
                              transom_error* error) {
  return guarded(error, [&] {
    expect_reduction(dtype, reduction);
    const size_t bytes = bytes_of(count, dtype), ranks = communicator->ranks(), rank = communicator->rank();
    std::byte *source = checked(from, bytes * ranks), *target = checked(to, bytes);
    submit(communicator, stream, {from.buffer, to.buffer}, [=](Transport* transport) {
      if (transport)
        reduce_to_parts(*transport, {rank, ranks}, source, target, count, static_cast<transom_dtype>(dtype),
                        static_cast<transom_reduction>(reduction));
      else if (source != target) std::memmove(target, source, bytes);
    });
  });
}

transom_status broadcast(transom_communicator* communicator, transom_stream* stream, transom_binding buffer,
                         size_t count, int32_t dtype, uint32_t root, transom_error* error) {
  return guarded(error, [&] {
    if (root >= communicator->ranks())
      fail(TRANSOM_INVALID_ARGUMENT, "expected a root below {}, found {}", communicator->ranks(), root);
    const size_t bytes = bytes_of(count, dtype);
    std::byte* data = checked(buffer, bytes);
    submit(communicator, stream, {buffer.buffer}, [=](Transport* transport) {
      if (transport && bytes > 0) transport->broadcast(data, bytes, root);
    });
  });
}

}  // namespace

void add_collectives(transom_plugin& table) {
  table.communicator_id = communicator_id;
  table.communicator_create = communicator_create;
  table.communicator_destroy = communicator_destroy;
  table.communicator_abort = communicator_abort;
  table.all_reduce = all_reduce;
  table.all_gather = all_gather;
  table.reduce_scatter = reduce_scatter;
  table.broadcast = broadcast;
  add_messages(table);
}

}  // namespace transom::cpu
