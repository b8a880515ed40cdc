// SPDX-License-Identifier: Apache-2.0
// Drives libSynapse.so through dlopen. The library reads its environment once, so each case runs in a process of its
// own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "synapse/hccl_interface.h"

namespace synapse_tests {

// The function `name` of the library; opens it at the first call.
void* symbol(const char* name);

// SYN(synInitialize)() calls the library's function.
#define SYN(name) (reinterpret_cast<decltype(&::name)>(::synapse_tests::symbol(#name)))

using Environment = std::map<std::string, std::string>;

// Runs `body` in a child with these variables set; true if no expectation failed in it and it ended by itself.
bool in_child(const Environment& environment, const std::function<void()>& body);

// A path for a file of this test, removed at the start.
std::string scratch(const std::string& name);
std::string read_file(const std::string& path);
int count_of(const std::string& text, const std::string& piece);

struct Value {
  std::vector<uint64_t> sizes;  // fastest first
  synDataType type = syn_type_single;
  std::vector<char> bytes;

  size_t elements() const;
  std::vector<double> numbers() const;
};
// `numbers` rounded to `type`.
Value value(const std::vector<uint64_t>& sizes, const std::vector<double>& numbers, synDataType type = syn_type_single);
Value empty(const std::vector<uint64_t>& sizes, synDataType type = syn_type_single);
// Numbers in [low, high), always the same.
std::vector<double> some(size_t count, double low = -2, double high = 2, unsigned seed = 1);
size_t size_of(synDataType type);

// An acquired device with a stream; releases it all at the end.
class Card {
 public:
  Card();
  ~Card();
  synStreamHandle stream() const { return stream_; }
  synDeviceType type() const { return type_; }
  uint64_t upload(const Value& value);
  Value download(uint64_t address, Value like);
  void free(uint64_t address);
  // Runs one node. Fills `outputs`; gives the status of the first call that failed. If it succeeded, the first of its
  // GUID runs again with bytes of its params changed, one at a time: that is refused, or stays inside of the operands.
  int node(const std::string& guid, const std::vector<const Value*>& inputs, const std::vector<Value*>& outputs,
           const void* params = nullptr, unsigned bytes = 0);

 private:
  int run_node(synStreamHandle stream, const std::string& guid, const std::vector<const Value*>& inputs,
               const std::vector<Value*>& outputs, const void* params, unsigned bytes);

  synStreamHandle stream_ = nullptr;
  synDeviceType type_ = 0;
  std::set<std::string> damaged_;  // GUIDs
};

// A tensor of a graph; persistent ones lie in a section of their own.
synTensor tensor(synGraphHandle graph, const std::string& name, const Value& like, bool persistent,
                 synSectionHandle section = nullptr);
synSectionHandle section(synGraphHandle graph, bool persistent = true);

}  // namespace synapse_tests
