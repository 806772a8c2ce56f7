// Loads a program from a delegate's blob instead of a file.
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

/// A model with its only session, for a delegate's method.
struct Loaded {
  Model model;
  Session session;
};

/// The blob and the source are not needed afterwards.
NIBBLE_API Result<Loaded> load_blob(const Device& device, std::span<const std::byte> blob, const NamedSize& named,
                                    const MakeSource& make_source, const LoadOptions& options = {});

}  // namespace nibble
