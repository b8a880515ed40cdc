// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/message.h"

namespace transom::onnx {
namespace {

std::vector<float> ramp(float top, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = top * static_cast<float>(i) / static_cast<float>(count - 1);
  return values;
}

double observed_scale(std::span<const float> values, const char* scheme, const char* method, int bits = 8) {
  Observer observer;
  observer.add(values);
  return observer.scale(quantization_scheme(scheme, method), bits);
}

TEST(Observer, GivesTheGreatestValueTheGreatestInteger) {
  const std::vector<float> values = {-2.54F, 1, 0};
  EXPECT_NEAR(observed_scale(values, "a8w8", "minmax"), 0.02, 1e-8);
  EXPECT_NEAR(observed_scale(values, "a16w8", "minmax", 16), 2.54 / 32767, 1e-10);
}

TEST(Observer, GivesPowersOfTwoToXint8) {
  const std::vector<float> values = {-2.54F, 1, 0};
  EXPECT_EQ(observed_scale(values, "xint8", "minmax"), 0.03125);  // 0.02 is not enough
  for (const float top : {0.01F, 0.9F, 1.0F, 37.0F}) {
    const double scale = observed_scale(ramp(top, 1000), "xint8", "");
    EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
  }
}

TEST(Observer, CutsOffWhatIsRare) {
  std::vector<float> values = ramp(1, 100'000);
  values.push_back(1000);
  EXPECT_GT(observed_scale(values, "a8w8", "minmax"), 7);
  EXPECT_LT(observed_scale(values, "a8w8", "percentile"), 0.3);  // a bin of the histogram is a quarter wide
}

TEST(Observer, TheLeastErrorIsNoGreaterThanThatOfTheWholeRange) {
  std::vector<float> values = ramp(1, 10'000);
  values.push_back(3);
  const auto error_of = [&](double scale) {
    double error = 0;
    for (const float value : values) {
      const double rounded = std::min(std::nearbyint(value / scale), 127.0) * scale;
      error += (value - rounded) * (value - rounded);
    }
    return error;
  };
  const double least = observed_scale(values, "a8w8", "mse"), whole = observed_scale(values, "a8w8", "minmax");
  EXPECT_LT(least, whole);
  EXPECT_LT(error_of(least), error_of(whole));
}

TEST(Observer, MergesWhatSeveralHaveSeen) {
  Observer a, b, both;
  const std::vector<float> small = ramp(0.5, 1000), large = ramp(8, 10);
  a.add(small), b.add(large), both.add(small), both.add(large);
  a.merge(b);
  for (const char* method : {"minmax", "mse"}) {
    const QuantizationScheme scheme = quantization_scheme("xint8", method);
    EXPECT_EQ(a.scale(scheme, 8), both.scale(scheme, 8)) << method;
  }
}

TEST(Observer, PassesOverWhatIsNotFinite) {
  EXPECT_EQ(observed_scale(std::vector<float>{0, 0}, "xint8", ""), 1);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(observed_scale(std::vector<float>{infinity, NAN, 1.27F}, "a8w8", ""), 0.01, 1e-8);
}

TEST(QuantizationScheme, RefusesOtherNames) {
  EXPECT_EQ(test::message_of([] { quantization_scheme("int3"); }),
            "quantization: expected xint8, a8w8 or a16w8, found 'int3'");
  EXPECT_EQ(test::message_of([] { quantization_scheme("xint8", "best"); }),
            "calibration_method: expected minmax, percentile or mse, found 'best'");
}

}  // namespace
}  // namespace transom::onnx
