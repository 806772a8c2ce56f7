// Makes graphs by hand, for tests of the planner: no file, so constants may be of any size.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace nibble::test {

struct GraphBuilder {
  Graph graph;

  ValueId value(Value v) {
    graph.values.push_back(std::move(v));
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId tensor(DType dtype, Shape shape) { return value(TensorValue{dtype, dtype, shape, -1, -1}); }
  ValueId constant(DType dtype, Shape shape, std::string key = {}) {
    graph.constants.push_back({Size::bytes(shape, dtype).unchecked(), std::move(key), 0, true});
    return value(TensorValue{dtype, dtype, shape, static_cast<std::int32_t>(graph.constants.size() - 1), -1});
  }
  ValueId integer(std::int64_t v) { return value(v); }
  ValueId number(double v) { return value(v); }
  ValueId boolean(bool v) { return value(v); }
  ValueId null() { return value(Null{}); }
  ValueId symint() { return value(SymInt{}); }
  ValueId ints(IntList v) { return value(std::move(v)); }
  ValueId list(std::vector<ValueId> items) { return value(ValueList{std::move(items)}); }
  void op(std::string name, std::vector<ValueId> args) { graph.nodes.push_back({std::move(name), std::move(args)}); }
  ValueId input(ValueId v) {
    graph.inputs.push_back(v);
    return v;
  }
  void output(ValueId v) { graph.outputs.push_back(v); }

  // Whole ops, with the arguments that tests rarely vary.
  ValueId embedding_q4(ValueId weight, ValueId scales, std::int64_t group, ValueId ids, bool linear = true) {
    Shape shape = graph.tensor(ids)->shape;
    shape.push_back(2 * graph.tensor(weight)->shape[1]);
    const ValueId out = tensor(DType::f32, shape);
    op("et_vk.embedding_q4gsw.default", {weight, scales, integer(group), ids, boolean(linear), out});
    return out;
  }
  ValueId add(ValueId a, ValueId b, Shape shape, DType dtype = DType::f32) {
    const ValueId out = tensor(dtype, shape);
    op("aten.add.Tensor", {a, b, integer(1), out});
    return out;
  }
  ValueId view(ValueId a, Shape shape) {
    const ValueId out = tensor(graph.tensor(a)->dtype, shape);
    op("aten.view_copy.default", {a, ints({shape.begin(), shape.end()}), out});
    return out;
  }
};

}  // namespace nibble::test
