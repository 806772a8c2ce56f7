// Graphs at the shapes of whole models, for the audit: their layers as the exporter makes them. What constants hold
// does not matter to where kernels read.
#pragma once

#include "ops/registry.hpp"
#include "support/graph_builder.hpp"

namespace nibble::bench {

/// A part of a model in a call, and how often the model has it.
struct ModelPart {
  std::string model;
  std::string call;
  std::uint64_t times = 1;
  Graph graph;
  std::int64_t position = 0;  ///< of a call of a language model
  std::int64_t tokens = 0;    ///< of such a call
};

struct Decoder {
  std::string name;
  std::int64_t layers, width, heads, key_heads, head, hidden, vocabulary;
  std::int64_t context = 2048;
};

class LayerBuilder : public test::GraphBuilder {
 public:
  /// A node with the first arguments given, the output last, and Null for all between.
  void add_node(const std::string& name, std::vector<ValueId> args, ValueId out) {
    args.resize(find_op(ops::registry(), name)->signature.count - 1, null());
    args.push_back(out);
    op(name, std::move(args));
  }
  ValueId fixed(ValueId v) {
    input(v);
    if (auto* t = graph.tensor(v)) t->fixed = true;
    return v;
  }
  ValueId like(ValueId v) { return tensor(DType::f32, graph.tensor(v)->shape); }
  ValueId weight(DType dtype, Shape shape) { return constant(dtype, shape, "c" + std::to_string(graph.values.size())); }
  ValueId simple(const std::string& name, std::vector<ValueId> args) {
    const auto out = like(args[0]);
    add_node(name, std::move(args), out);
    return out;
  }

  /// What a linear of x gives.
  ValueId of_width(ValueId x, std::int64_t columns) {
    Shape shape = graph.tensor(x)->shape;
    shape[shape.rank() - 1] = columns;
    return tensor(DType::f32, shape);
  }

  ValueId linear_q4(ValueId x, std::int64_t depth, std::int64_t columns, std::int64_t group = 32) {
    const auto out = of_width(x, columns);
    add_node("et_vk.linear_q4gsw.default",
             {x, weight(DType::u8, {columns, depth / 2}), weight(DType::f32, {depth / group, columns}), integer(group)},
             out);
    return out;
  }
  /// As 8da4w has it: x is rounded to bytes, row by row.
  ValueId linear_of_bytes(ValueId x, std::int64_t depth, std::int64_t columns, std::int64_t group = 32) {
    const auto out = of_width(x, columns);
    Shape rows = graph.tensor(x)->shape;
    rows[rows.rank() - 1] = 1;
    const auto scales = tensor(DType::f32, rows);
    const auto zeros = tensor(DType::i8, rows);
    IntList block(rows.rank() - 1, 1);
    block.push_back(depth);
    add_node("torchao.choose_qparams_affine.default",
             {x, value(std::string("ASYMMETRIC")), ints(block), null(), integer(-128), integer(127), null(), null(),
              null(), boolean(true)},
             list({scales, zeros}));
    add_node("et_vk.linear_dq8ca_q4gsw.default",
             {x, scales, zeros, weight(DType::u8, {columns, depth / 2}), null(),
              weight(DType::f32, {depth / group, columns}), integer(group)},
             out);
    return out;
  }
  ValueId linear_q8(ValueId x, std::int64_t depth, std::int64_t columns) {
    const auto out = of_width(x, columns);
    add_node("et_vk.linear_q8csw.default", {x, weight(DType::i8, {columns, depth}), weight(DType::f32, {columns})},
             out);
    return out;
  }
  ValueId linear(ValueId x, std::int64_t depth, std::int64_t columns) {
    const auto out = of_width(x, columns);
    add_node("aten.linear.default", {x, weight(DType::f32, {columns, depth}), weight(DType::f32, {columns})}, out);
    return out;
  }
  ValueId rms_norm(ValueId x, std::int64_t width) {
    return simple("et_vk.rms_norm.default", {x, weight(DType::f32, {width}), number(1e-5)});
  }
  ValueId layer_norm(ValueId x, std::int64_t width) {
    const auto out = like(x);
    Shape one = graph.tensor(x)->shape;
    one[one.rank() - 1] = 1;
    const auto all = list({out, tensor(DType::f32, one), tensor(DType::f32, one)});
    add_node("aten.native_layer_norm.default",
             {x, ints({width}), weight(DType::f32, {width}), weight(DType::f32, {width}), number(1e-5)}, all);
    return out;
  }
  ValueId sum(ValueId a, ValueId b) { return add(a, b, graph.tensor(a)->shape); }
};

inline Graph decoder_layer(const Decoder& m, std::int64_t rows, bool of_bytes = false) {
  LayerBuilder b;
  const auto multiply = [&](ValueId by, std::int64_t depth, std::int64_t columns) {
    return of_bytes ? b.linear_of_bytes(by, depth, columns) : b.linear_q4(by, depth, columns);
  };
  const auto x = b.fixed(b.tensor(DType::f32, {1, rows, m.width}));
  const auto start = b.fixed(b.symint());
  const auto n = b.rms_norm(x, m.width);
  const auto q = b.view(multiply(n, m.width, m.heads * m.head), {1, rows, m.heads, m.head});
  const auto k = b.view(multiply(n, m.width, m.key_heads * m.head), {1, rows, m.key_heads, m.head});
  const auto v = b.view(multiply(n, m.width, m.key_heads * m.head), {1, rows, m.key_heads, m.head});
  const auto cos = b.weight(DType::f32, {m.context, m.head});
  const auto sin = b.weight(DType::f32, {m.context, m.head});
  const auto q_turned = b.like(q);
  const auto k_turned = b.like(k);
  b.op("et_vk.apply_rotary_emb_hf.default", {q, k, cos, sin, start, b.list({q_turned, k_turned})});
  const auto key_cache = b.constant(DType::f32, {1, m.context, m.key_heads, m.head});
  const auto value_cache = b.constant(DType::f32, {1, m.context, m.key_heads, m.head});
  const auto heads = b.like(q);
  b.op("sdpa_with_kv_cache.default", {q_turned, k_turned, v, key_cache, value_cache, start, b.integer(rows), b.null(),
                                      b.number(0), b.boolean(true), b.null(), heads});
  const auto attended = multiply(b.view(heads, {1, rows, m.heads * m.head}), m.heads * m.head, m.width);
  const auto middle = b.sum(x, attended);
  const auto normed = b.rms_norm(middle, m.width);
  const auto gate = multiply(normed, m.width, m.hidden);
  const auto silu = b.simple("aten.mul.Tensor", {gate, b.simple("aten.sigmoid.default", {gate})});
  const auto up = multiply(normed, m.width, m.hidden);
  const auto down = multiply(b.simple("aten.mul.Tensor", {silu, up}), m.hidden, m.width);
  b.output(b.sum(middle, down));
  return b.graph;
}

/// The embedding of all tokens, and the logits of the last; with 8-bit weights also the likeliest of them, as imported
/// models have it.
inline Graph decoder_ends(const Decoder& m, std::int64_t rows, bool of_bytes = false) {
  LayerBuilder b;
  const auto ids = b.fixed(b.tensor(DType::i32, {1, rows}));
  b.output(b.embedding_q4(b.weight(DType::u8, {m.vocabulary, m.width / 2}),
                          b.weight(DType::f32, {m.vocabulary, m.width / 32}), 32, ids));
  const auto x = b.fixed(b.tensor(DType::f32, {1, 1, m.width}));
  const auto normed = b.rms_norm(x, m.width);
  if (of_bytes) {
    constexpr std::int64_t kCount = 64;
    const auto logits = b.view(b.linear_q8(normed, m.width, m.vocabulary), {m.vocabulary});
    const auto values = b.tensor(DType::f32, {kCount});
    const auto places = b.tensor(DType::i32, {kCount});
    const auto rest = b.tensor(DType::f32, {1});
    b.add_node("nibble.top_candidates", {logits, b.integer(kCount)}, b.list({values, places, rest}));
    for (const auto out : {values, places, rest}) b.output(out);
  } else {
    b.output(b.linear_q4(normed, m.width, m.vocabulary));
  }
  return b.graph;
}

inline Graph encoder_layer(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t hidden) {
  LayerBuilder b;
  const auto x = b.fixed(b.tensor(DType::f32, {1, rows, width}));
  const auto by_head = [&](ValueId v) {
    const auto out = b.tensor(DType::f32, {1, heads, rows, width / heads});
    b.add_node("aten.permute_copy.default", {b.view(v, {1, rows, heads, width / heads}), b.ints({0, 2, 1, 3})}, out);
    return out;
  };
  const auto q = by_head(b.linear(x, width, width));
  const auto k = by_head(b.linear(x, width, width));
  const auto v = by_head(b.linear(x, width, width));
  const auto attended = b.simple("et_vk.sdpa.default", {q, k, v});
  const auto back = b.tensor(DType::f32, {1, rows, heads, width / heads});
  b.add_node("aten.permute_copy.default", {attended, b.ints({0, 2, 1, 3})}, back);
  const auto middle = b.layer_norm(b.sum(b.linear(b.view(back, {1, rows, width}), width, width), x), width);
  const auto wide = b.simple("aten.gelu.default", {b.linear(middle, width, hidden), b.value(std::string("none"))});
  b.output(b.layer_norm(b.sum(b.linear(wide, hidden, width), middle), width));
  return b.graph;
}

inline Graph encoder_table(std::int64_t rows, std::int64_t width, std::int64_t vocabulary) {
  LayerBuilder b;
  const auto ids = b.fixed(b.tensor(DType::i32, {1, rows}));
  const auto out = b.tensor(DType::f32, {1, rows, width});
  b.add_node("aten.embedding.default", {b.weight(DType::f32, {vocabulary, width}), ids}, out);
  b.output(out);
  return b.graph;
}

/// 8-bit weights and activations in bytes, if they are bytes.
inline Graph mobilenet(bool of_bytes) {
  LayerBuilder b;
  std::int64_t side = 224;
  std::int64_t channels = 3;
  const auto dtype = of_bytes ? DType::i8 : DType::f32;
  ValueId x = b.fixed(b.tensor(dtype, {1, channels, side, side}));
  const auto convolve = [&](std::int64_t to, std::int64_t taps, std::int64_t stride, std::int64_t groups, bool clamps) {
    const auto pad = taps / 2;
    side = (side - 1) / stride + 1;
    const auto out = b.tensor(dtype, {1, to, side, side});
    if (of_bytes) {
      const auto weight =
          groups > 1 ? b.weight(DType::i8, {taps, taps, channels}) : b.weight(DType::i8, {to, taps * taps * channels});
      b.add_node(
          groups > 1  ? "et_vk.q8ta_conv2d_dw.default"
          : taps == 1 ? "et_vk.q8ta_conv2d_pw.default"
                      : "et_vk.q8ta_conv2d.default",
          {x, b.number(0.1), b.integer(3), weight, b.null(), b.weight(DType::f32, {to}), b.number(0.1), b.integer(-3),
           b.weight(DType::f32, {to}), b.ints({taps, taps}), b.ints({stride, stride}), b.ints({pad, pad}),
           b.ints({1, 1}), b.integer(groups), b.value(std::string(clamps ? "relu" : "none"))},
          out);
      x = out;
      channels = to;
      return;
    }
    b.op("aten.convolution.default", {x, b.weight(DType::f32, {to, channels / groups, taps, taps}),
                                      b.weight(DType::f32, {to}), b.ints({stride, stride}), b.ints({pad, pad}),
                                      b.ints({1, 1}), b.boolean(false), b.ints({0, 0}), b.integer(groups), out});
    x = clamps ? b.simple("aten.hardtanh.default", {out, b.number(0), b.number(6)}) : out;
    channels = to;
  };
  convolve(32, 3, 2, 1, true);
  struct Stage {
    std::int64_t expansion, channels, blocks, stride;
  };
  for (const auto& s : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (std::int64_t block = 0; block < s.blocks; ++block) {
      const auto before = x;
      const auto stride = block == 0 ? s.stride : 1;
      const bool has_shortcut = stride == 1 && channels == s.channels;
      if (s.expansion > 1) convolve(channels * s.expansion, 1, 1, 1, true);
      convolve(channels, 3, stride, channels, true);
      convolve(s.channels, 1, 1, 1, false);
      if (!has_shortcut) continue;
      const auto sum = b.tensor(dtype, b.graph.tensor(x)->shape);
      if (of_bytes) {
        b.add_node("et_vk.q8ta_add.default",
                   {x, before, b.number(0.1), b.integer(0), b.number(0.1), b.integer(0), b.number(0.2), b.integer(0),
                    b.number(1)},
                   sum);
      } else {
        b.add_node("aten.add.Tensor", {x, before, b.integer(1)}, sum);
      }
      x = sum;
    }
  }
  convolve(1280, 1, 1, 1, true);
  if (of_bytes) {
    b.output(x);
    return b.graph;
  }
  const auto mean = b.tensor(DType::f32, {1, 1280, 1, 1});
  b.add_node("aten.mean.dim", {x, b.ints({-1, -2}), b.boolean(true)}, mean);
  b.output(b.linear(b.view(mean, {1, 1280}), 1280, 1000));
  return b.graph;
}

inline std::vector<ModelPart> model_parts() {
  std::vector<ModelPart> parts;
  const Decoder decoders[] = {{"Llama 3.2 1B", 16, 2048, 32, 8, 64, 8192, 128256},
                              {"SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152}};
  constexpr std::int64_t kPosition = 1023;
  constexpr std::int64_t kPrompt = 128;
  for (const auto& m : decoders) {
    const auto layers = static_cast<std::uint64_t>(m.layers);
    parts.push_back({m.name, "decode", layers, decoder_layer(m, 1), kPosition, 1});
    parts.push_back({m.name, "decode", 1, decoder_ends(m, 1), kPosition, 1});
    parts.push_back({m.name, "prefill", layers, decoder_layer(m, kPrompt), 0, kPrompt});
    parts.push_back({m.name, "prefill", 1, decoder_ends(m, kPrompt), 0, kPrompt});
  }
  // Programs of bytes: their calls are not added up, so they have no tokens.
  const auto& llama = decoders[0];
  parts.push_back({"Llama 3.2 1B, 8da4w", "decode", 16, decoder_layer(llama, 1, true), kPosition});
  parts.push_back({"Llama 3.2 1B, 8da4w", "prefill", 16, decoder_layer(llama, kPrompt, true), 0});
  parts.push_back({"SmolLM2-135M, 8-bit head", "decode", 1, decoder_ends(decoders[1], 1, true), kPosition});
  parts.push_back({"MiniLM", "128 tokens", 6, encoder_layer(128, 384, 12, 1536)});
  parts.push_back({"MiniLM", "128 tokens", 1, encoder_table(128, 384, 30522)});
  parts.push_back({"MobileNetV2", "224 x 224", 1, mobilenet(false)});
  parts.push_back({"MobileNetV2, int8", "224 x 224", 1, mobilenet(true)});
  return parts;
}

}  // namespace nibble::bench
