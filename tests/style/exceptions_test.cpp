// SPDX-License-Identifier: Apache-2.0
// No call of std::filesystem in the library throws an exception of its own: each is given an error code, or goes
// through base/files.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/folders.h"

namespace transom {
namespace {

// Those that touch the disk; constructors and parts of paths do not.
constexpr std::array kTouching = {"exists",
                                  "is_directory",
                                  "is_regular_file",
                                  "is_symlink",
                                  "is_empty",
                                  "file_size",
                                  "rename",
                                  "create_directory",
                                  "create_directories",
                                  "remove",
                                  "remove_all",
                                  "temp_directory_path",
                                  "canonical",
                                  "weakly_canonical",
                                  "absolute",
                                  "equivalent",
                                  "relative",
                                  "last_write_time",
                                  "space",
                                  "read_symlink",
                                  "current_path",
                                  "copy",
                                  "copy_file",
                                  "permissions",
                                  "resize_file",
                                  "status",
                                  "symlink_status",
                                  "create_symlink",
                                  "create_hard_link",
                                  "directory_iterator",
                                  "hard_link_count",
                                  "recursive_directory_iterator"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// What stands between the parenthesis at `open` and the one that closes it.
std::string arguments_at(const std::string& source, size_t open) {
  int depth = 0;
  for (size_t i = open; i < source.size(); ++i) {
    depth += (source[i] == '(') - (source[i] == ')');
    if (depth == 0) return source.substr(open + 1, i - open - 1);
  }
  return "";
}

// The last argument is an error code where it is a plain name: paths are not called so.
bool has_error_code(const std::string& arguments) {
  const size_t comma = arguments.rfind(", ");
  const std::string last = comma == arguments.npos ? arguments : arguments.substr(comma + 2);
  for (const char* name : {"error", "none", "ignored", "failed", "missing", "unknown", "gone"})
    if (last == name) return true;
  return false;
}

std::string throwing_calls(const std::string& source) {
  std::string found;
  for (size_t at = 0; (at = source.find("::", at)) != source.npos; at += 2) {
    const std::string before = source.substr(at < 10 ? 0 : at - 10, std::min<size_t>(at, 10));
    if (!before.ends_with("filesystem") &&
        !(before.ends_with("fs") && (before.size() == 2 || !is_word(*(before.end() - 3)))))
      continue;
    size_t end = at + 2;
    while (end < source.size() && is_word(source[end])) ++end;
    const std::string name = source.substr(at + 2, end - at - 2);
    if (std::find(kTouching.begin(), kTouching.end(), name) == kTouching.end()) continue;
    // "fs::directory_iterator entry(directory, error)"
    const bool iterates = name.ends_with("directory_iterator");
    size_t open = end;
    if (iterates && open < source.size() && source[open] == ' ')
      for (++open; open < source.size() && is_word(source[open]);) ++open;
    if (open >= source.size() || source[open] != '(') continue;
    const std::string arguments = arguments_at(source, open);
    const bool in_range = iterates && at > 0 && source.substr(at < 24 ? 0 : at - 24, 24).find(" : ") != source.npos;
    const bool is_end = iterates && arguments.empty();
    if ((!is_end && !has_error_code(arguments)) || in_range) found += name + "(" + arguments + ") ";
  }
  return found;
}

TEST(Exceptions, OfFilesystemStayInside) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_folder() + "/src")) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".cpp" && ending != ".h") continue;
    if (entry.path().filename() == "directories.cpp") continue;  // asks of a status that it has
    std::ifstream stream(entry.path());
    const std::string source{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(throwing_calls(source), "")
        << entry.path() << ": give an error code, or use base/files/directories.h or base/files/paths.h";
    ++files;
  }
  EXPECT_GT(files, 1000u);
}

TEST(Exceptions, OfFilesystemAreSeen) {
  EXPECT_EQ(throwing_calls("if (fs::exists(path))"), "exists(path) ");
  EXPECT_EQ(throwing_calls("std::filesystem::rename(f(a), b);"), "rename(f(a), b) ");
  EXPECT_EQ(throwing_calls("fs::exists(path, error) && offs::exists(path) && fs::path(x).exists"), "");
  EXPECT_EQ(throwing_calls("for (const auto& e : fs::directory_iterator(path, error))"),
            "directory_iterator(path, error) ");
  EXPECT_EQ(throwing_calls("for (fs::directory_iterator e(path, none), end; e != fs::directory_iterator();)"), "");
}

}  // namespace
}  // namespace transom
