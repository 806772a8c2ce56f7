// What convolutions have in common: how a filter moves over its input.
#pragma once

#include <limits>

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// A convolution along one dimension.
struct Axis {
  std::int64_t source = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t extra = 0;  ///< output padding
  bool is_transposed = false;

  std::int64_t reach() const { return dilation * (kernel - 1); }
  std::int64_t result() const {
    if (is_transposed) return (source - 1) * stride - 2 * padding + reach() + extra + 1;
    const auto room = source + 2 * padding - reach() - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  /// As a plain convolution over pixels that are spread: the padding before the first, and the step between results.
  std::int64_t border() const { return is_transposed ? reach() - padding : padding; }
  std::int64_t step() const { return is_transposed ? 1 : stride; }
  std::int64_t spread() const { return is_transposed ? stride : 1; }
  /// Pixels that the filter touches. Those that a filter of one pixel skips are left out.
  std::int64_t touched() const {
    const auto n = result();
    return n == 0 ? 0 : kernel == 1 ? n : (n - 1) * step() + reach() + 1;
  }
};

struct Filter {
  std::array<Axis, 2> axes{};  ///< rows, columns
  std::int64_t groups = 1;
  std::int64_t channels = 1;  ///< of the input, per group
  std::int64_t columns = 1;   ///< of the result, in all
  bool is_rearranged = false;
  std::optional<Number> low{};
  std::optional<Number> high{};

  /// The weight can be used as the program stores it.
  bool lies_well() const { return !axes[1].is_transposed && (channels == 1 || (taps() == 1 && channels % 4 == 0)); }
  bool sees_one_channel() const { return channels == 1 && !is_rearranged; }
  std::int64_t taps() const { return axes[0].kernel * axes[1].kernel; }
  std::int64_t padded_channels() const { return (channels + 3) / 4 * 4; }
  std::int64_t pixels() const { return axes[0].result() * axes[1].result(); }
  /// The picture can be multiplied as it lies.
  bool is_plain() const {
    return taps() == 1 &&
           std::ranges::all_of(axes, [](const Axis& a) { return a.stride == 1 && a.padding == 0 && a.extra == 0; });
  }
  float least() const { return low ? static_cast<float>(low->value) : -std::numeric_limits<float>::infinity(); }
  float most() const { return high ? static_cast<float>(high->value) : std::numeric_limits<float>::infinity(); }
};

/// The arguments that say how a filter moves.
struct Moves {
  const Ints& stride;
  const Ints& padding;
  const Ints& dilation;
  bool is_transposed;
  const Ints& output_padding;
  std::int64_t groups;
  std::optional<Number> low{};
  std::optional<Number> high{};
};

/// What `get` says of columns and of rows, as kernels take it.
template <class T, class F>
std::array<T, 2> xy(const Filter& f, F get) {
  return {static_cast<T>(std::invoke(get, f.axes[1])), static_cast<T>(std::invoke(get, f.axes[0]))};
}

/// `columns` is left to the caller, who knows the weight.
Result<Filter> read_filter(const Lowering& op, const Tensor& input, const Shape& kernel, const Moves& moves);
/// Sets the shape of the result, and checks the bias.
Status set_result(Lowering& op, const Tensor& input, const Filter& f, const std::optional<Float<Tensor>>& bias,
                  Out& out);
/// Lays out what the filter touches with the channels of a pixel together, after so many bytes of the working memory.
Result<wgsl::PixelsParams> lay_out(Lowering& op, const Tensor& input, const Filter& f, float fill = 0, Size before = 0,
                                   Size most_before = 0);

}  // namespace nibble::ops
