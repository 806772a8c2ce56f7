// The door for whoever holds a delegate's blob instead of a file.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "nibble/nibble.hpp"
#include "plan/constant_source.hpp"
#include "program/blob.hpp"

namespace nibble {

/// Gives the bytes of a graph's constants, once the graph is known.
using MakeSource = std::function<std::unique_ptr<ConstantSource>(std::span<const Constant> constants)>;

/// A delegate's method: its model, and the one session that it has.
struct Loaded {
  Model model;
  Session session;
};

/// Nothing of the blob or of the source is needed after.
NIBBLE_API Result<Loaded> load_blob(const Device& device, std::span<const std::byte> blob, const NamedSize& named,
                                    const MakeSource& make_source, const LoadOptions& options = {});

}  // namespace nibble
