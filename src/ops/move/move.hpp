// What ops that make tensors without computing on elements have in common.
#pragma once

#include "ops/checks.hpp"
#include "plan/walk.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// Element i of `out`, whose shape is set, becomes start + i * step.
Status fill(Lowering& op, const Out& out, const Number& start, const Number& step = {0, true, 0});

/// Converts or copies `in` to `out`, which has the same shape; nothing to do where both are one storage.
Status convert(Lowering& op, const Tensor& in, const Out& out);

/// Depth to space; the types of both are the same.
Status pixel_shuffle(Lowering& op, const Tensor& self, std::int64_t factor, Out& out);

/// Types of one width are moved alike, so they share pipelines. float16 stays float16: a half of a word has no loads
/// of its own, and its way through float32 and back changes no bit of a number.
inline BufferArg moved(const BufferArg& arg) {
  switch (arg.format.elem) {
    case Elem::f16: return arg;
    case Elem::f32:
    case Elem::i32: return arg.raw(Elem::i32);
    default: return arg.raw(Elem::u8);
  }
}

/// What loads of such elements give.
inline const Shader& moved_type(DType dtype) { return dtype == DType::f16 ? wgsl::floats : wgsl::ints; }

/// How many neighbouring vec4s a thread moves, where runs of `run` elements are whole ones.
std::uint32_t vectors_per_thread(Lowering& op, std::int64_t run);

/// Of a merged walk.
wgsl::WalkParams walk_params(Lowering& op, const Walk& walk, bool in_vectors);

}  // namespace nibble::ops
