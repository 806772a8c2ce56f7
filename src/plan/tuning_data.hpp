// What a node is measured with, and whether two variants of it gave the same.
#pragma once

#include <span>

#include "plan/plan.hpp"

namespace nibble {

/// Makes elements of an input that look like noise, and are the same in every process. `rows`: indices are below this.
/// `integer`: what the caller's integers are.
void fill_input(const InputDesc& input, std::uint64_t rows, std::int32_t integer, std::span<std::byte> bytes);

/// Whether the elements of an output agree, as the host reads them: floats up to this part of their own size or of the
/// usual one, since sums in another order differ in what is lost; bytes up to one, since they are rounded from such
/// sums. With a tolerance of 0 all must be the same, and so must be int32, which number something, such as tokens.
bool agree(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b, float tolerance);

/// That of a choice, for an output that the device keeps in this type: a float16 is rounded to an eleventh bit, and of
/// what a choice adds up in halves each part is.
float tolerance_of(const Choice& choice, DType stored, const DeviceProfile& profile);

}  // namespace nibble
