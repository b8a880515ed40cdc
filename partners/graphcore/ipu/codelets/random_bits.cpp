// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: words of random bits that depend on their place alone.
#include <poplar/Vertex.hpp>

using namespace poplar;

// `key`: seed and offset. `out`: blocks of four words, from block `first` on.
class RandomBits : public Vertex {
 public:
  Input<Vector<long long>> key;
  Output<Vector<unsigned>> out;
  unsigned first;

  bool compute() {
    const auto seed = static_cast<unsigned long long>(key[0]), offset = static_cast<unsigned long long>(key[1]);
    for (unsigned block = 0; block * 4 < out.size(); ++block) {
      unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
      unsigned c0 = first + block, c1 = 0, c2 = static_cast<unsigned>(offset), c3 = static_cast<unsigned>(offset >> 32);
      for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const unsigned long long x = 0xD2511F53ull * c0, y = 0xCD9E8D57ull * c2;
        c0 = static_cast<unsigned>(y >> 32) ^ c1 ^ k0;
        c1 = static_cast<unsigned>(y);
        c2 = static_cast<unsigned>(x >> 32) ^ c3 ^ k1;
        c3 = static_cast<unsigned>(x);
      }
      unsigned* words = &out[block * 4];
      words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
    }
    return true;
  }
};

#ifdef EMULATED_CODELET
EMULATED_CODELET(RandomBits, "RandomBits", key, out, first)
#endif
