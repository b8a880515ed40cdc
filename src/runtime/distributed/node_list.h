// SPDX-License-Identifier: Apache-2.0
// The short forms in which Slurm names the servers of a job and the tasks of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// The hosts of a list such as "login,n[0-3,07-09]-ib": commas between hosts, and in brackets numbers and ranges whose
// zeros in front are kept; several brackets are possible. Throws an Error of kind kUsage that names `variable` where
// the text is not such a list or has more hosts than a job may have.
std::vector<std::string> hosts_of_node_list(const char* variable, std::string_view text);

// "5,1(x3)" is 5, 1, 1, 1: a count for each server.
std::vector<int64_t> tasks_of_nodes(const char* variable, std::string_view text);

}  // namespace transom
