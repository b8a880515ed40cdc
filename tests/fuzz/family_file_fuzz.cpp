// SPDX-License-Identifier: Apache-2.0
// Any bytes as a family file: what has no findings makes its classes of its defaults.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/described/described_family.h"
#include "transom/scope.h"

namespace transom {
namespace {

// Gives parameters without values.
class NoValues : public ParameterSource {
 public:
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape&, const Initial&) override {
    if (++count_ > 1000) fail("enough");
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    return parameter(name, type.shape, initial);
  }
  void tied(const std::string&, const std::shared_ptr<Parameter>&, Tie) override {}
  void derived(const std::string&) override {}
  bool holds(const std::string&) const override { return false; }

 private:
  int64_t count_ = 0;
};

void make_all(const Json& file, const Family& family) {
  for (const Architecture& architecture : family.architectures) try {
      NoValues source;
      architecture.make(make_config(file["defaults"], "its defaults"), Scope(source));
    } catch (const Error&) {
    }
}

}  // namespace
}  // namespace transom

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const auto file =
        std::make_shared<const Json>(parse_json({reinterpret_cast<const char*>(data), size}, "family.json"));
    make_all(*file, described_family(file, "family.json"));
  } catch (const Error&) {
  }
  return 0;
}
