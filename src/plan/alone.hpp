// One node of a plan by itself, so that it can be measured.
#pragma once

#include "plan/plan.hpp"

namespace nibble {

/// A graph of this node and of what is computed at load for it, with the values and constants of the plan's graph. What
/// other nodes make, or change, is an input; what the node makes is an output. Floats come and go as float32.
Graph node_alone(const Plan& plan, std::uint32_t node);

/// A plan of that graph, in which calls may take any variant (Stepper::force()). `options` are those of the plan, but
/// its batches are shorter, so that a variant that is far too slow is given up soon.
Result<std::shared_ptr<const Plan>> plan_alone(const Plan& plan, std::uint32_t node, Options options,
                                               Registry registry);

/// Nodes that do the same in the same call have equal texts: op, arguments, types and live shapes.
std::string likeness(const Plan& plan, std::uint32_t node, const LiveValues& live);

}  // namespace nibble
