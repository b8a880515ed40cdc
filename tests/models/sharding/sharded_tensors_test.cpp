// SPDX-License-Identifier: Apache-2.0
// Tensors in parts, as one process sees them.
#include "models/sharding/sharded_tensors.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "base/files/files.h"
#include "runtime/tensor/mode_scope.h"
#include "support/message.h"
#include "support/resident_pages.h"
#include "support/temporary_folder.h"
#include "transom/device.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What was computed in parts lets go of its inputs, as all that is computed does.
TEST(ShardedTensors, RefuseGradientsOfWhatWasComputedBefore) {
  const ModeScope lazy(Mode::kLazy);
  ShardedTensors tensors(ProcessMesh({1, 1, 1, 1, 1, 1}, 0, 1));
  const Tensor x = tensors.hold_part_of(Tensor::from(std::vector<float>{1, 2, 3}, {3}), replicated(1));
  const Tensor y = sum(x * x);
  const auto gradient_of = [&](const Tensor& tensor) { return test::message_of([&] { gradients(tensor, {x}); }); };
  EXPECT_EQ(gradient_of(y), "");
  StepRunner runner;
  ShardedRequest request;
  request.outputs.push_back({y, std::nullopt});
  tensors.evaluate(request, runner);
  EXPECT_EQ(y.item<float>(), 14);
  EXPECT_NE(gradient_of(y * 2.0).find("was computed before"), std::string::npos);
}

// No process reads what others have of a file that all map.
TEST(ShardedTensors, OnlyTheOwnPartOfAFileIsRead) {
  set_device("cpu");
  const test::TemporaryFolder folder;
  constexpr int64_t kRows = 4096, kWidth = 512;  // 8 MB
  std::string text(kRows * kWidth * sizeof(float), '\0');
  for (int64_t row = 0; row < kRows; ++row) {
    const auto value = static_cast<float>(row);
    std::memcpy(text.data() + static_cast<size_t>(row * kWidth) * sizeof(float), &value, sizeof value);
  }
  write_file(folder / "weights", text);
  const auto file = MappedFile::open(folder / "weights");
  ::madvise(const_cast<std::byte*>(file->bytes().data()), file->bytes().size(), MADV_RANDOM);
  const Type type{DType::kFloat32, {kRows, kWidth}};
  const Tensor whole = Tensor::from_frozen(file->bytes(), type, file);
  ShardedTensors tensors(ProcessMesh({1, 1, 4, 1, 1, 1}, 1, 4));
  const size_t before = test::resident_pages(file->bytes());
  const Placement rows = cut_further(tensors.mesh(), replicated(2), type.shape, 0, MeshAxis::kShard);
  const Tensor part = tensors.hold_part_of(whole, rows);
  const size_t all = text.size() / 4096;
  EXPECT_LE(test::resident_pages(file->bytes()), before + all / 4 + 2);
  const std::vector<float> values = tensors.value(part).local.to_vector<float>();
  ASSERT_EQ(values.size(), text.size() / 4 / sizeof(float));
  EXPECT_EQ(values[0], kRows / 4);
  EXPECT_EQ(values[kWidth * (kRows / 4 - 1)], kRows / 2 - 1);
  // Of a weight of another stage nothing is.
  const size_t read = test::resident_pages(file->bytes());
  tensors.hold_absent(type, rows);
  EXPECT_EQ(test::resident_pages(file->bytes()), read);
}

}  // namespace
}  // namespace transom
