// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct Host {
  std::string name;
  int64_t slots = 1;  // processes
};

// A file of hosts, one a line: "name slots=8" as DeepSpeed and Open MPI write it, "name:8" as MPICH does, or a name.
// "#" begins a comment. A host that is named again gets more slots. Throws an Error that names `where` and the line.
std::vector<Host> parse_host_file(std::string_view text, std::string_view where);

// Whether processes of that host are started without ssh.
bool is_this_machine(const std::string& host);

}  // namespace transom
