// The families of ops; the table of each stands at the end of its file.
#pragma once

#include "plan/op.hpp"

namespace nibble::ops {

extern const Family kAttention;
extern const Family kBinary;
extern const Family kCache;
extern const Family kCandidates;
extern const Family kCat;
extern const Family kChannelNorm;
extern const Family kChooseQparams;
extern const Family kCompare;
extern const Family kConvert;
extern const Family kConvolution;
extern const Family kConvolutionI8;
extern const Family kEmbedding;
extern const Family kFill;
extern const Family kIndex;
extern const Family kLinearQ4;
extern const Family kLinearQ8;
extern const Family kMatmul;
extern const Family kMove;
extern const Family kNorm;
extern const Family kPad;
extern const Family kPools;
extern const Family kQuantize;
extern const Family kReduce;
extern const Family kResample;
extern const Family kRotary;
extern const Family kSoftmax;
extern const Family kSymInt;
extern const Family kTraining;
extern const Family kUnary;
extern const Family kView;

}  // namespace nibble::ops
