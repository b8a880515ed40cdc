// SPDX-License-Identifier: Apache-2.0
// Eight emulated Gaudis of a server, for the programs that a test starts while this lives.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/folders.h"
#include "support/program.h"

namespace transom::test {

class EmulatedCards {
 public:
  // `folder`: takes what programs write; its name is that of the server.
  explicit EmulatedCards(const std::filesystem::path& folder) {
    const std::string library = test::build_folder() + "/emulators/libSynapse.so";
    if (!std::filesystem::exists(library)) return;
    ::setenv("TRANSOM_SYNAPSE_LIBRARY", library.c_str(), 1);
    ::setenv("TRANSOM_SYNAPSE_DEVICES", "8", 1);
    ::setenv("TRANSOM_SYNAPSE_SERVER", folder.filename().c_str(), 1);
    are_here_ = Program({"devices"}, folder).wait().output.find("hpu:7") != std::string::npos;
  }
  ~EmulatedCards() {
    for (const char* name : {"TRANSOM_SYNAPSE_LIBRARY", "TRANSOM_SYNAPSE_DEVICES", "TRANSOM_SYNAPSE_SERVER"})
      ::unsetenv(name);
  }
  EmulatedCards(const EmulatedCards&) = delete;
  EmulatedCards& operator=(const EmulatedCards&) = delete;
  bool are_here() const { return are_here_; }

 private:
  bool are_here_ = false;
};

}  // namespace transom::test
