// SPDX-License-Identifier: Apache-2.0
// A process whose numbers have commas: what an application does to the library by setlocale() and std::locale.
#pragma once

#include <locale.h>
#include <stdlib.h>

#include <locale>
#include <string>

#include "support/command.h"
#include "support/temporary_folder.h"

namespace transom::test {

// For as long as it lives. Of C's functions only where the system can make the locale: see `of_c`.
class GermanLocale {
 public:
  GermanLocale() : before_(std::locale::global(std::locale(std::locale::classic(), new Commas))) {
    const std::string path = folder_.string();
    run_command("localedef -i de_DE -f UTF-8 " + path + "/de_DE.UTF-8");
    ::setenv("LOCPATH", path.c_str(), 1);
    of_c = ::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
    ::unsetenv("LOCPATH");
  }
  ~GermanLocale() {
    ::setlocale(LC_ALL, "C");
    std::locale::global(before_);
  }
  bool of_c = false;

 private:
  struct Commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  TemporaryFolder folder_;
  std::locale before_;
};

}  // namespace transom::test
