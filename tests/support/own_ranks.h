// SPDX-License-Identifier: Apache-2.0
// A program of tests that runs itself as several processes: tests that are disabled are their ranks' side.
#pragma once

#include <cstdlib>
#include <string>

#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom::test {

inline std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

inline std::string words_of_own_test(const std::string& test) {
  return own_path() + " --gtest_also_run_disabled_tests --gtest_filter=" + test;
}

// The test as so many processes, with torchrun's variables and these ("A=1 B=2"); what they wrote where one failed,
// else nothing.
inline std::string run_over_gloo(const std::string& test, int ranks, const std::string& variables = "") {
  const TemporaryFolder folder;
  const std::string port = std::to_string(free_port());
  std::string command, waits;
  for (int rank = 0; rank < ranks; ++rank) {
    command += "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(ranks) +
               " LOCAL_RANK=" + std::to_string(rank) + " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
               " TRANSOM_NUM_THREADS=1 TEST_BACKEND=gloo " + variables + " " + words_of_own_test(test) + " > " +
               (folder / std::to_string(rank)).string() + " 2>&1 & p" + std::to_string(rank) + "=$!; ";
    waits += std::string(rank ? " && " : "") + "wait $p" + std::to_string(rank);
  }
  if (std::system((command + waits).c_str()) == 0) return "";
  std::string said;
  for (int rank = 0; rank < ranks; ++rank) said += read_file(folder / std::to_string(rank));
  return said.empty() ? "no words" : said;
}

inline std::string run_over_mpi(const std::string& test, int ranks) {
  const TemporaryFolder folder;
  const std::string command = "TRANSOM_NUM_THREADS=1 TEST_BACKEND=mpi " + mpirun() + " -n " + std::to_string(ranks) +
                              " " + words_of_own_test(test) + " > " + (folder / "said").string() + " 2>&1";
  return std::system(command.c_str()) == 0 ? "" : read_file(folder / "said");
}

}  // namespace transom::test
