// What ExecuTorch's named data is to a delegate blob, for blobs that tests build.
#pragma once

#include "program/blob.hpp"
#include "support/blob_builder.hpp"

namespace nibble::test {

/// For read_blob(): the sizes of the builder's named constants.
inline NamedSize sizes_of(const BlobBuilder& b) {
  return [named = b.named()](std::string_view key) -> Result<std::uint64_t> {
    const auto data = named.find(std::string(key));
    if (data == named.end()) return std::unexpected(Error{ErrorCode::invalid_program, "no data of that name"});
    return data->second.size();
  };
}

}  // namespace nibble::test
