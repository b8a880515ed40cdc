// SPDX-License-Identifier: Apache-2.0
// Saves sharded checkpoints beside the training: each process writes its parts from a thread; when all have, rank 0
// writes the manifest and gives the directory its name. Whatever process is killed at whatever moment, a directory with
// the name of a checkpoint is whole.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "models/sharding/model_parts.h"
#include "runtime/distributed/process_group.h"
#include "work/train/files/manifest.h"

namespace transom {

class ShardedSaver {
 public:
  explicit ShardedSaver(ProcessGroup& group) : group_(group) {}
  // Waits for what is being written.
  ~ShardedSaver();
  ShardedSaver(const ShardedSaver&) = delete;
  ShardedSaver& operator=(const ShardedSaver&) = delete;

  struct Save {
    fs::path temporary, destination;  // directories; the first is there, with what rank 0 wrote besides
    ModelParts parts;
    int64_t step = 0;
    std::string mesh;
    std::function<void()> then;  // on a thread of rank 0, once the checkpoint is there
  };
  // All processes call it together, after finish(). Returns once the thread runs.
  void start(Save save);
  // Waits for what is being written; throws why it could not be. All processes call it together, or none.
  void finish();
  // Throws if a save has failed already.
  void check();

 private:
  void run(const Save& save);
  void join();

  ProcessGroup& group_;
  std::thread thread_;
  std::mutex mutex_;
  std::exception_ptr error_;
  int64_t saves_ = 0;
};

}  // namespace transom
