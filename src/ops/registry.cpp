#include "ops/registry.hpp"

#include <array>

#include "ops/families.hpp"

namespace nibble::ops {

Registry registry() {
  static const std::array kFamilies{
      kEmbedding, kLinearQ4,    kMatmul,   kConvolution, kConvolutionI8, kBinary,        kUnary,  kCompare,
      kConvert,   kFill,        kReduce,   kSoftmax,     kNorm,          kView,          kMove,   kCat,
      kPad,       kIndex,       kRotary,   kCache,       kAttention,     kChooseQparams, kSymInt, kPools,
      kResample,  kChannelNorm, kQuantize, kLinearQ8,    kTraining,      kCandidates,
  };
  return kFamilies;
}

}  // namespace nibble::ops
