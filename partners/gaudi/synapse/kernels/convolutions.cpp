// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolutions on the MME and their gradients. Operands come as WHCN and SRCK, which nodes say with
// layouts; this emulator takes these row-major orders only. Sums in f32.
#include <algorithm>

#include "elementwise.h"
#include "products.h"

namespace synapse_emulator {
namespace {

struct Convolution {
  int64_t width, height, channels, batch;  // of x
  int64_t out_width, out_height, out_channels;
  int64_t kernel_width, kernel_height, groups;
  ConvolutionParams params;

  // Sizes of the matrices of one group: x in columns [in * kernel, out places], w [out channels, in * kernel].
  int64_t group_in() const { return channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  int64_t depth() const { return group_in() * kernel_height * kernel_width; }
  int64_t places() const { return out_width * out_height; }
};

Convolution convolution_of(const Node& node, const Operand& x, const Operand& w, const Operand& y) {
  Convolution c;
  c.params = params_of<ConvolutionParams>(node);
  require(x.sizes.rank == 4 && w.sizes.rank == 4 && y.sizes.rank == 4, node, "operands have four dims");
  require_mme_type(node, x, "x");
  require_mme_type(node, y, "y");
  require_mme_type(node, w, "w");
  const ConvolutionParams& p = c.params;
  require(p.dW > 0 && p.dH > 0 && p.dilW > 0 && p.dilH > 0, node, "strides and dilations are positive");
  require(p.padL >= 0 && p.padR >= 0 && p.padT >= 0 && p.padB >= 0, node, "padding is not negative");
  c.width = x.sizes[0], c.height = x.sizes[1], c.channels = x.sizes[2], c.batch = x.sizes[3];
  c.out_width = y.sizes[0], c.out_height = y.sizes[1], c.out_channels = y.sizes[2];
  c.kernel_width = w.sizes[0], c.kernel_height = w.sizes[1];
  c.groups = std::max<int64_t>(1, p.nGroups);
  require(c.kernel_width == p.kW && c.kernel_height == p.kH, node, "w is ", c.kernel_width, " by ", c.kernel_height,
          ", the params say ", p.kW, " by ", p.kH);
  require(c.channels % c.groups == 0 && c.out_channels % c.groups == 0 && w.sizes[2] == c.channels / c.groups &&
              w.sizes[3] == c.out_channels,
          node, "w ", text_of(w.sizes), " for ", c.channels, " to ", c.out_channels, " channels in ", c.groups,
          " groups");
  require(y.sizes[3] == c.batch, node, "the batches differ");
  const int64_t wide = c.width + p.padL + p.padR - static_cast<int64_t>(p.dilW) * (c.kernel_width - 1) - 1;
  const int64_t high = c.height + p.padT + p.padB - static_cast<int64_t>(p.dilH) * (c.kernel_height - 1) - 1;
  require(wide >= 0 && high >= 0 && c.out_width == wide / p.dW + 1 && c.out_height == high / p.dH + 1, node, "y ",
          text_of(y.sizes), " does not fit x ", text_of(x.sizes));
  return c;
}

// Calls f(column row, place, x index or -1) for one image and group.
template <typename F>
void for_taps(const Convolution& c, int64_t group, const F& f) {
  for (int64_t channel = 0; channel < c.group_in(); ++channel) {
    for (int64_t r = 0; r < c.kernel_height; ++r) {
      for (int64_t s = 0; s < c.kernel_width; ++s) {
        const int64_t row = (channel * c.kernel_height + r) * c.kernel_width + s;
        for (int64_t oy = 0; oy < c.out_height; ++oy) {
          const int64_t iy = oy * c.params.dH - c.params.padT + r * c.params.dilH;
          for (int64_t ox = 0; ox < c.out_width; ++ox) {
            const int64_t ix = ox * c.params.dW - c.params.padL + s * c.params.dilW;
            const bool inside = iy >= 0 && iy < c.height && ix >= 0 && ix < c.width;
            f(row, oy * c.out_width + ox,
              inside ? ((group * c.group_in() + channel) * c.height + iy) * c.width + ix : -1);
          }
        }
      }
    }
  }
}

std::vector<float> columns_of(const Convolution& c, const std::vector<float>& image, int64_t group) {
  std::vector<float> columns(static_cast<size_t>(c.depth() * c.places()));
  for_taps(c, group, [&](int64_t row, int64_t place, int64_t x) {
    columns[static_cast<size_t>(row * c.places() + place)] = x < 0 ? 0 : image[static_cast<size_t>(x)];
  });
  return columns;
}

void check_forward(const Node& node) {
  require_counts(node, 2, 4, 1, 1);
  const Convolution c = convolution_of(node, node.input(0), node.input(1), node.output(0));
  require_type(node, node.input(1), node.input(0).type, "w");
  if (node.has_input(2))
    require(node.input(2).sizes.rank == 1 && node.input(2).sizes[0] == c.out_channels, node, "the bias has ",
            text_of(node.input(2).sizes));
  require(!node.has_input(3), node, "an addend is not emulated");
}
void run_forward(const Node& node) {
  const Operand &x = node.input(0), &w = node.input(1), &y = node.output(0);
  const Convolution c = convolution_of(node, x, w, y);
  std::vector<float> weights(static_cast<size_t>(w.elements())), bias(static_cast<size_t>(c.out_channels), 0);
  load_for_mme(w, 0, w.elements(), weights.data());
  if (node.has_input(2)) load<float>(node.input(2).type, node.input(2).data, 0, 1, c.out_channels, bias.data());
  const int64_t image_size = c.width * c.height * c.channels, result_size = c.places() * c.out_channels;
  parallel_for(c.batch, 1, [&](int64_t from, int64_t to) {
    std::vector<float> image(static_cast<size_t>(image_size)), result(static_cast<size_t>(result_size));
    for (int64_t n = from; n < to; ++n) {
      load_for_mme(x, n * image_size, image_size, image.data());
      for (int64_t g = 0; g < c.groups; ++g) {
        const std::vector<float> columns = columns_of(c, image, g);
        matrix_product(weights.data() + g * c.group_out() * c.depth(), columns.data(),
                       result.data() + g * c.group_out() * c.places(), c.group_out(), c.depth(), c.places());
      }
      for (int64_t k = 0; k < c.out_channels; ++k)
        for (int64_t i = 0; i < c.places(); ++i)
          result[static_cast<size_t>(k * c.places() + i)] += bias[static_cast<size_t>(k)];
      store<float>(y.type, y.data, n * result_size, 1, result_size, result.data());
    }
  });
}

// {dy, w} -> dx
void check_input_gradient(const Node& node) {
  require_counts(node, 2, 3, 1, 1);
  convolution_of(node, node.output(0), node.input(1), node.input(0));
  require_type(node, node.input(1), node.input(0).type, "w");
}
void run_input_gradient(const Node& node) {
  const Operand &dy = node.input(0), &w = node.input(1), &dx = node.output(0);
  const Convolution c = convolution_of(node, dx, w, dy);
  std::vector<float> weights(static_cast<size_t>(w.elements()));
  load_for_mme(w, 0, w.elements(), weights.data());
  const int64_t image_size = c.width * c.height * c.channels, result_size = c.places() * c.out_channels;
  parallel_for(c.batch, 1, [&](int64_t from, int64_t to) {
    std::vector<float> image(static_cast<size_t>(image_size)), result(static_cast<size_t>(result_size));
    std::vector<float> turned(static_cast<size_t>(c.group_out() * c.depth()));
    std::vector<float> columns(static_cast<size_t>(c.depth() * c.places()));
    for (int64_t n = from; n < to; ++n) {
      load_for_mme(dy, n * result_size, result_size, result.data());
      std::fill(image.begin(), image.end(), 0.0f);
      for (int64_t g = 0; g < c.groups; ++g) {
        transpose_matrix(weights.data() + g * c.group_out() * c.depth(), turned.data(), c.group_out(), c.depth());
        matrix_product(turned.data(), result.data() + g * c.group_out() * c.places(), columns.data(), c.depth(),
                       c.group_out(), c.places());
        for_taps(c, g, [&](int64_t row, int64_t place, int64_t x) {
          if (x >= 0) image[static_cast<size_t>(x)] += columns[static_cast<size_t>(row * c.places() + place)];
        });
      }
      store<float>(dx.type, dx.data, n * image_size, 1, image_size, image.data());
    }
  });
}

// {dy, x} -> dw
void check_weight_gradient(const Node& node) {
  require_counts(node, 2, 3, 1, 1);
  convolution_of(node, node.input(1), node.output(0), node.input(0));
  require_type(node, node.input(1), node.input(0).type, "x");
}
void run_weight_gradient(const Node& node) {
  const Operand &dy = node.input(0), &x = node.input(1), &dw = node.output(0);
  const Convolution c = convolution_of(node, x, dw, dy);
  const int64_t image_size = c.width * c.height * c.channels, result_size = c.places() * c.out_channels;
  std::vector<float> image(static_cast<size_t>(image_size)), result(static_cast<size_t>(result_size));
  std::vector<float> total(static_cast<size_t>(dw.elements()), 0), turned(static_cast<size_t>(c.places() * c.depth()));
  std::vector<float> part(static_cast<size_t>(c.group_out() * c.depth()));
  for (int64_t n = 0; n < c.batch; ++n) {
    load_for_mme(x, n * image_size, image_size, image.data());
    load_for_mme(dy, n * result_size, result_size, result.data());
    for (int64_t g = 0; g < c.groups; ++g) {
      const std::vector<float> columns = columns_of(c, image, g);
      transpose_matrix(columns.data(), turned.data(), c.depth(), c.places());
      matrix_product(result.data() + g * c.group_out() * c.places(), turned.data(), part.data(), c.group_out(),
                     c.places(), c.depth());
      float* into = total.data() + g * c.group_out() * c.depth();
      for (size_t i = 0; i < part.size(); ++i) into[i] += part[i];
    }
  }
  store<float>(dw.type, dw.data, 0, 1, dw.elements(), total.data());
}

double forward_flops(const Node& node) {
  const Operand& w = node.input(1);
  return 2.0 * static_cast<double>(node.output(0).elements()) *
         static_cast<double>(w.sizes[0] * w.sizes[1] * w.sizes[2]);
}
double input_flops(const Node& node) {
  const Operand& w = node.input(1);
  return 2.0 * static_cast<double>(node.input(0).elements()) *
         static_cast<double>(w.sizes[0] * w.sizes[1] * w.sizes[2]);
}
double weight_flops(const Node& node) {
  const Operand& w = node.output(0);
  return 2.0 * static_cast<double>(node.input(0).elements()) *
         static_cast<double>(w.sizes[0] * w.sizes[1] * w.sizes[2]);
}

}  // namespace

void add_convolutions(KernelTable& table) {
  table.add({"spatial_convolution", Engine::kMme, kNoSuffix, check_forward, run_forward, forward_flops, false});
  table.add({"dedx", Engine::kMme, kNoSuffix, check_input_gradient, run_input_gradient, input_flops, false});
  table.add({"dedw", Engine::kMme, kNoSuffix, check_weight_gradient, run_weight_gradient, weight_flops, false});
}

}  // namespace synapse_emulator
