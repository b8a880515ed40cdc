// SPDX-License-Identifier: Apache-2.0
// Any bytes as config.json: every architecture of every family is asked what parameters it would have.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "models/family.h"

namespace transom {
namespace {

// Gives parameters without values, so that a large model costs nothing.
class Shapes : public ParameterSource {
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

void build_all(const Config& config) {
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) try {
        Shapes shapes;
        architecture.make(config, Scope(shapes));
      } catch (const Error&) {
      }
}

}  // namespace
}  // namespace transom

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const Config config = Config::parse({reinterpret_cast<const char*>(data), size}, "config.json");
    config.dump();
    build_all(config);
  } catch (const Error&) {
  }
  return 0;
}
