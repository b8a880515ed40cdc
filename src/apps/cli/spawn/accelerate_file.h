// SPDX-License-Identifier: Apache-2.0
// The file that `accelerate config` writes and `accelerate launch --config_file` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct AccelerateFile {
  std::optional<int64_t> processes;  // of all machines
  std::optional<int64_t> machines, machine_rank, main_process_port;
  std::optional<std::string> main_process_ip, hostfile;
  bool use_mpi = false;
  std::vector<std::string> words;  // arguments of transom train that say the rest
  std::vector<std::string> notes;  // what is taken without an effect
};

// Throws an Error that names `where` and the key that is not known, not offered or not of its type.
AccelerateFile parse_accelerate_file(const std::string& text, std::string_view where);

}  // namespace transom
