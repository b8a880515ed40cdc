// SPDX-License-Identifier: Apache-2.0
// Weights that are packed when they are read: the same bits at every product, and the same bytes for who reads them
// otherwise.
#include "models/loading/weights/packed_panels.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "files/blocks/rounded_matrix.h"
#include "models/loading/weights/packed_weights.h"
#include "support/test_names.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int kPanelRows = 37, kDepth = 96;  // the last panel is not full

std::vector<float> sines(int64_t count, double phase) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + 1.3 * static_cast<double>(i * i % 997)));
  return values;
}

// Counts what is read of another matrix.
class Counted : public BlockMatrix {
 public:
  explicit Counted(std::shared_ptr<const BlockMatrix> matrix)
      : BlockMatrix(matrix->layout()), matrix_(std::move(matrix)) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    ++rows_read;
    matrix_->read_row(row, codes, scales, minima);
  }
  bool has_quick_rows() const override { return true; }
  void release() const override { ++released; }

  mutable std::atomic<int> rows_read{0}, released{0};

 private:
  std::shared_ptr<const BlockMatrix> matrix_;
};

struct DeferredCase {
  int bits;
  bool symmetric;
  const char* activations;
};

class DeferredPanels : public testing::TestWithParam<DeferredCase> {
 protected:
  const std::vector<float> numbers_ = sines(kPanelRows * kDepth, 2);  // which the matrix reads
  std::shared_ptr<Counted> counted_ = std::make_shared<Counted>(rounded_matrix(
      numbers_.data(), kPanelRows, kDepth, {.bits = GetParam().bits, .group = 32, .symmetric = GetParam().symmetric}));

  PackedMatrix packed(bool deferred) const {
    PackedMatrix result = *packed_matrix(std::static_pointer_cast<const BlockMatrix>(counted_), deferred);
    result.activations = GetParam().activations;
    return result;
  }
  static std::vector<float> product(const PackedMatrix& matrix, int64_t m) {
    return quantized_matmul(Tensor::from(sines(m * kDepth, 1), {m, kDepth}), matrix).to_vector<float>();
  }
};

TEST_P(DeferredPanels, GiveTheSameBitsAtEveryProduct) {
  for (const int64_t m : {1, 5}) {
    const std::vector<float> expected = product(packed(false), m);
    counted_->rows_read = 0, counted_->released = 0;
    const PackedMatrix deferred = packed(true);
    EXPECT_EQ(counted_->rows_read, 0) << "nothing is packed when the weight is loaded";
    const int after[] = {kPanelRows, 2 * kPanelRows, 2 * kPanelRows, 2 * kPanelRows};
    for (int run = 0; run < 4; ++run) {
      EXPECT_EQ(product(deferred, m), expected) << m << " rows, run " << run;
      EXPECT_EQ(counted_->rows_read, after[run]) << "once from the checkpoint, then packed once";
      EXPECT_EQ(counted_->released, run > 0 ? 1 : 0) << "the checkpoint's pages go when all is packed";
    }
  }
}

TEST_P(DeferredPanels, AreWholeForOtherReaders) {
  const PackedMatrix expected = packed(false);
  for (const int products : {0, 1, 2}) {
    const PackedMatrix deferred = packed(true);
    for (int run = 0; run < products; ++run) product(deferred, 3);
    EXPECT_EQ(deferred.scales.to_vector<float>(), expected.scales.to_vector<float>()) << products;
    EXPECT_EQ(deferred.bytes.to_vector<uint8_t>(), expected.bytes.to_vector<uint8_t>()) << products;
    EXPECT_EQ(deferred.minima.defined(), expected.minima.defined());
    if (expected.minima.defined()) {
      EXPECT_EQ(deferred.minima.to_vector<float>(), expected.minima.to_vector<float>()) << products;
    }
  }
  // By a program that looks rows up, after one that multiplies.
  const Tensor ids = Tensor::from(std::vector<int64_t>{kPanelRows - 1, 0}, {2});
  const PackedMatrix deferred = packed(true);
  product(deferred, 1);
  EXPECT_EQ(dequantised_rows(deferred, ids).to_vector<float>(), dequantised_rows(expected, ids).to_vector<float>());
  EXPECT_EQ(product(deferred, 1), product(expected, 1));
}

// What is looked up is packed for the one who asks, as often as it is asked for, until products have packed the rest.
TEST_P(DeferredPanels, GiveRowsWithoutTheOthers) {
  const std::vector<int64_t> places{kPanelRows - 1, 0, 17, 0};
  const Tensor ids = Tensor::from(places, {2, 2});
  const PackedMatrix exact = packed(false);
  const std::vector<float> expected = dequantised_rows(exact, ids).to_vector<float>();
  counted_->rows_read = 0, counted_->released = 0;
  const PackedMatrix deferred = packed(true);
  // Panels of 16 rows, the last one of 5, for codes, scales and, if there are some, minima.
  const int parts = exact.minima.defined() ? 3 : 2, rows_of_a_look = parts * (16 + 16 + 16 + 5);
  for (int look = 1; look <= 3; ++look) {
    EXPECT_EQ(dequantised_rows(deferred, ids).to_vector<float>(), expected) << look;
    EXPECT_EQ(counted_->rows_read, look * rows_of_a_look);
    EXPECT_EQ(counted_->released, 0) << "nothing is packed to stay";
  }
  product(deferred, 1), product(deferred, 1);
  EXPECT_EQ(counted_->released, 1);
  counted_->rows_read = 0;
  EXPECT_EQ(dequantised_rows(deferred, ids).to_vector<float>(), expected);
  EXPECT_EQ(counted_->rows_read, 0) << "from where products packed them";
}

TEST_P(DeferredPanels, AreSharedByThreads) {
  const PackedMatrix exact = packed(false);
  const std::vector<float> expected[] = {product(exact, 1), product(exact, 2)};
  const Tensor ids = Tensor::from(std::vector<int64_t>{kPanelRows - 1, 0, 20}, {3});
  const std::vector<float> rows = dequantised_rows(exact, ids).to_vector<float>();
  for (int round = 0; round < 10; ++round) {
    const PackedMatrix deferred = packed(true);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int64_t m = 1; m <= 2; ++m)
      threads.emplace_back([&, m] {
        for (int run = 0; run < 4; ++run) wrong += product(deferred, m) != expected[m - 1];
      });
    threads.emplace_back([&] {
      for (int run = 0; run < 4; ++run) wrong += dequantised_rows(deferred, ids).to_vector<float>() != rows;
    });
    threads.emplace_back([&] { wrong += deferred.bytes.to_vector<uint8_t>() != exact.bytes.to_vector<uint8_t>(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, DeferredPanels,
                         testing::Values(DeferredCase{4, true, "int8"}, DeferredCase{8, true, "int8"},
                                         DeferredCase{4, false, "int16"}, DeferredCase{8, true, "float32"}),
                         [](const auto& info) {
                           const DeferredCase& c = info.param;
                           return test::words(c.bits, "bits", c.symmetric ? "symmetric" : "with_zeros", c.activations);
                         });

// Threads that read panels by themselves: each panel is packed into place once, whoever asks.
TEST(PackedPanels, AreWrittenOnce) {
  const std::vector<float> numbers = sines(kPanelRows * kDepth, 4);
  const auto counted = std::make_shared<Counted>(
      rounded_matrix(numbers.data(), kPanelRows, kDepth, {.bits = 8, .group = 32, .symmetric = false}));
  PackedPanels whole(counted, 32);
  whole.finish();
  counted->rows_read = 0, counted->released = 0;
  PackedPanels panels(counted, 32);
  const size_t code_bytes = panels.codes().size() / 3, scale_bytes = panels.scales().size() / 3;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::vector<std::byte> codes(code_bytes), scales(scale_bytes), minima(scale_bytes);
      for (int run = 0; run < 50; ++run)
        for (size_t panel = 0; panel < 3; ++panel) {
          const transom_deferred& source = panels.source();
          const bool apart = source.read(source.context, panel, codes.data(), scales.data(), minima.data()) != 0;
          const std::byte* found = apart ? codes.data() : panels.codes().data() + panel * code_bytes;
          wrong += !std::equal(found, found + code_bytes, whole.codes().data() + panel * code_bytes);
        }
      panels.finish();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counted->released, 1);
}

}  // namespace
}  // namespace transom
