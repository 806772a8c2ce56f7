// Wraps a delegate blob into a .pte file: describe() gives the plain description of a valid one, which a test may bend
// before write_pte().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/blob_builder.hpp"

namespace nibble::test {

struct PteTensor {
  int scalar_type = 6;  ///< as in the file: 3 int, 4 long, 6 float, …
  std::vector<std::int32_t> sizes = {};
  std::vector<std::uint8_t> dim_order = {};
  bool dynamic = false;
};
/// monostate is Null.
using PteValue = std::variant<std::monostate, std::int64_t, bool, double, std::string, PteTensor,
                              std::vector<std::int64_t>, std::vector<double>, std::vector<bool>>;

struct PteMethod {
  struct Delegate {
    std::string id = "VulkanBackend";
    int location = 1;         ///< 0 inline, 1 segment
    std::uint32_t index = 0;  ///< of the segment, or of the inline blobs
  };
  struct Call {
    bool is_delegate = true;
    std::int32_t index = 0;  ///< of the delegate or operator
    std::vector<std::int32_t> args;
  };

  std::string name = "forward";
  std::vector<PteValue> values;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> outputs;
  std::vector<Delegate> delegates;
  std::vector<std::pair<std::string, std::string>> operators;  ///< name and overload
  std::vector<Call> calls;
};

struct Pte {
  struct Segment {
    Bytes bytes;
    std::uint64_t extra_offset = 0;  ///< added to what the file says
    std::uint64_t extra_size = 0;
  };

  std::vector<PteMethod> methods;
  std::vector<Segment> segments;
  std::vector<Bytes> inline_blobs;
  std::vector<std::pair<std::string, std::uint32_t>> named;  ///< key and segment
  bool extended_header = true;
};

/// The host's dtype of a delegate's input or output: 64 bits wide for int32 when `wide_ints`, else the staging type.
struct PteOptions {
  bool wide_ints = true;
  bool dynamic = false;
};

/// One method `forward` that passes its inputs to the blob and returns the blob's outputs.
Pte describe(const BlobBuilder& blob, PteOptions options = {});
/// A method that returns values without computing, such as get_vocab_size.
PteMethod constant_method(std::string name, std::vector<PteValue> values);

Bytes write_pte(const Pte& pte);
/// describe() and write_pte().
Bytes make_pte(const BlobBuilder& blob, PteOptions options = {});

}  // namespace nibble::test
