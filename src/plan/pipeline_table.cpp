#include "plan/pipeline_table.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>

#include <fmt/format.h>

namespace nibble {
namespace {

// f16 is a storage type. Read-only buffers are read as f16 where the device has shader-f16; others are packed pairs.
// Written buffers are always packed pairs: pack_half() defines what numbers beyond float16 become, a conversion does
// not.
bool is_native_half(const BindingFormat& b, const DeviceProfile& profile) {
  return b.elem == Elem::f16 && b.access == Access::read && profile.shader_f16;
}

// Bytes (bool, u8, i8) are packed four to a word.
std::string_view array_type(const BindingFormat& b, bool is_native) {
  switch (b.elem) {
    case Elem::f32: return b.lanes == 4 ? "array<vec4<f32>>" : b.lanes == 2 ? "array<vec2<f32>>" : "array<f32>";
    case Elem::i32: return b.lanes == 4 ? "array<vec4<i32>>" : b.lanes == 2 ? "array<vec2<i32>>" : "array<i32>";
    case Elem::f16:
      if (is_native) return b.lanes == 4 ? "array<vec4<f16>>" : "array<vec2<f16>>";
      return b.lanes == 4 ? "array<vec2<u32>>" : "array<u32>";
    case Elem::boolean:
    case Elem::u8:
    case Elem::i8:
    case Elem::words: return "array<u32>";
    case Elem::words4: return "array<vec4<u32>>";
    case Elem::atomics: return "array<atomic<u32>, 4>";
  }
  return "";
}

bool is_byte(Elem e) { return e == Elem::boolean || e == Elem::u8 || e == Elem::i8; }

void write_loads(std::string& out, const BindingFormat& b, bool is_native) {
  auto it = std::back_inserter(out);
  const auto n = b.name;
  const std::string_view scalar = b.elem == Elem::f32 || b.elem == Elem::f16 ? "f32" : "i32";
  if (b.elem == Elem::f32 || b.elem == Elem::i32) {
    if (b.lanes == 1) {
      fmt::format_to(it, "fn load_{0}(i: u32) -> {1} {{ return {0}[i]; }}\n", n, scalar);
    } else {
      const int shift = b.lanes == 4 ? 2 : 1;
      fmt::format_to(it, "fn load_{0}(i: u32) -> {1} {{ return {0}[i >> {2}u][i & {3}u]; }}\n", n, scalar, shift,
                     b.lanes - 1);
      fmt::format_to(it, "fn load{2}_{0}(i: u32) -> vec{2}<{1}> {{ return {0}[i]; }}\n", n, scalar, b.lanes);
    }
  } else if (is_native) {
    fmt::format_to(it, "fn load_{0}(i: u32) -> f32 {{ return f32({0}[i >> {1}u][i & {2}u]); }}\n", n,
                   b.lanes == 4 ? 2 : 1, b.lanes == 4 ? 3 : 1);
    if (b.lanes == 4) {
      fmt::format_to(it, "fn load4_{0}(i: u32) -> vec4<f32> {{ return vec4<f32>({0}[i]); }}\n", n);
    }
  } else if (b.elem == Elem::f16) {
    fmt::format_to(it, "fn load_{0}(i: u32) -> f32 {{ return unpack2x16float({0}[{1}])[i & 1u]; }}\n", n,
                   b.lanes == 4 ? "i >> 2u][(i >> 1u) & 1u" : "i >> 1u");
    if (b.lanes == 4) {
      fmt::format_to(it,
                     "fn load4_{0}(i: u32) -> vec4<f32> {{ return vec4<f32>(unpack2x16float({0}[i].x), "
                     "unpack2x16float({0}[i].y)); }}\n",
                     n);
    }
  } else if (is_byte(b.elem)) {
    // Shifting left then right extends the sign of an i8.
    const bool is_signed = b.elem == Elem::i8;
    fmt::format_to(
        it, "fn load4_{0}(i: u32) -> vec4<i32> {{ return {1}; }}\n", n,
        is_signed ? fmt::format("vec4<i32>(vec4<u32>({0}[i]) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)", n)
                  : fmt::format("vec4<i32>((vec4<u32>({0}[i]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))", n));
    fmt::format_to(it, "fn load_{0}(i: u32) -> i32 {{ return load4_{0}(i >> 2u)[i & 3u]; }}\n", n);
  }
}

void write_stores(std::string& out, const BindingFormat& b) {
  auto it = std::back_inserter(out);
  const auto n = b.name;
  switch (b.elem) {
    case Elem::f32:
    case Elem::i32: {
      const std::string_view scalar = b.elem == Elem::f32 ? "f32" : "i32";
      if (b.lanes == 1) {
        fmt::format_to(it, "fn store_{0}(i: u32, v: {1}) {{ {0}[i] = v; }}\n", n, scalar);
      } else {
        fmt::format_to(it, "fn store{2}_{0}(i: u32, v: vec{2}<{1}>) {{ {0}[i] = v; }}\n", n, scalar, b.lanes);
      }
      break;
    }
    case Elem::f16:
      if (b.lanes == 4) {
        fmt::format_to(
            it, "fn store4_{0}(i: u32, v: vec4<f32>) {{ {0}[i] = vec2<u32>(pack_half(v.xy), pack_half(v.zw)); }}\n", n);
      } else {
        fmt::format_to(it, "fn store2_{0}(i: u32, v: vec2<f32>) {{ {0}[i] = pack_half(v); }}\n", n);
      }
      break;
    case Elem::boolean:
    case Elem::u8:
    case Elem::i8:
      fmt::format_to(it,
                     "fn store4_{0}(i: u32, v: vec4<i32>) {{ let b = (vec4<u32>(v) & vec4<u32>(255u)) << "
                     "vec4<u32>(0u, 8u, 16u, 24u); {0}[i] = b.x | b.y | b.z | b.w; }}\n",
                     n);
      break;
    case Elem::words:
    case Elem::words4:
    case Elem::atomics: break;
  }
}

constexpr std::string_view kFaultFunction =
    "fn report_fault_at(node: u32, site: u32, position: u32, value: i32) {\n"
    "  if (atomicCompareExchangeWeak(&fault[0], 0u, node + 1u).exchanged) {\n"
    "    atomicStore(&fault[1], position);\n"
    "    atomicStore(&fault[2], bitcast<u32>(value));\n"
    "    atomicStore(&fault[3], site);\n"
    "  }\n"
    "}\n";

// WGSL does not define pack2x16float for numbers beyond float16, infinity or NaN; on SwiftShader they spill into the
// neighbour's bits. So these are handled apart.
constexpr std::string_view kPackFunction =
    "fn pack_half(v: vec2<f32>) -> u32 {\n"
    "  let bits = bitcast<vec2<u32>>(v);\n"
    "  let size = bits & vec2<u32>(0x7fffffffu);\n"
    "  let over = size >= vec2<u32>(0x477ff000u);\n"
    "  let special = select(vec2<u32>(0x7c00u), vec2<u32>(0x7e00u), size > vec2<u32>(0x7f800000u));\n"
    "  let halves = select(vec2<u32>(), special | ((bits >> vec2<u32>(16u)) & vec2<u32>(0x8000u)), over);\n"
    "  return pack2x16float(select(v, vec2<f32>(), over)) | halves.x | (halves.y << 16u);\n"
    "}\n";

constexpr std::string_view kIndexFunction =
    "override WG: u32 = 64u;\n"
    "// The thread's number in a grid that may be folded into two or three dimensions.\n"
    "fn thread_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {\n"
    "  return id.x + WG * groups.x * (id.y + groups.y * id.z);\n"
    "}\n"
    "// The workgroup's number in such a grid.\n"
    "fn group_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {\n"
    "  return id.x + groups.x * (id.y + groups.y * id.z);\n"
    "}\n";

/// A shader together with the modules that it uses and that fill its slots, each once.
class Assembly {
 public:
  Assembly(const Kernel& kernel, std::string_view op) : kernel_(kernel), op_(op) { add(kernel.shader); }

  bool needs_subgroups() const {
    return std::ranges::any_of(modules_, [](const Shader* module) { return module->needs_subgroups; });
  }

  Status check() const {
    if (kernel_.overflowed()) {
      return fail(ErrorCode::internal, "{}: kernel {} has more bindings, overrides or slots than there is room for",
                  op_, name());
    }
    for (const Shader* module : modules_) {
      for (const auto& slot : module->slots) {
        if (!slot.optional && fill_of(slot.name) == nullptr) {
          return fail(ErrorCode::internal, "{}: kernel {} leaves the slot '{}' of {} open", op_, name(), slot.name,
                      module->name);
        }
      }
      if (!module->expression.empty() && kernel_.expression.empty()) {
        return fail(ErrorCode::internal, "{}: kernel {} has no expression", op_, name());
      }
    }
    for (const auto& fill : kernel_.slots) {
      const bool is_known = std::ranges::any_of(modules_, [&](const Shader* module) {
        return std::ranges::find(module->slots, fill.name, &Shader::Slot::name) != module->slots.end();
      });
      if (!is_known) {
        return fail(ErrorCode::internal, "{}: kernel {} fills a slot '{}' that it has not", op_, name(), fill.name);
      }
    }
    return {};
  }

  void write(std::string& out) const {
    for (const Shader* module : modules_) {
      if (!module->expression.empty()) {
        fmt::format_to(std::back_inserter(out), "{} {{ return {}; }}\n", module->expression, kernel_.expression);
      }
      out += module->body;
    }
  }

 private:
  std::string_view name() const { return kernel_.shader.get().name; }

  const Shader* fill_of(std::string_view slot) const {
    const auto* found = std::ranges::find(kernel_.slots, slot, &SlotFill::name);
    return found != kernel_.slots.end() ? found->module : nullptr;
  }

  void add(const Shader& module) {
    if (std::ranges::find(modules_, &module) != modules_.end()) return;
    modules_.push_back(&module);
    for (const Shader* used : module.uses) add(*used);
    for (const auto& slot : module.slots) {
      if (const Shader* fill = fill_of(slot.name)) add(*fill);
    }
  }

  const Kernel& kernel_;
  std::string_view op_;
  std::vector<const Shader*> modules_;
};

std::string write_wgsl(const Kernel& kernel, const Assembly& assembly, const DeviceProfile& profile) {
  std::string out;
  const auto formats = kernel.bind.all() | std::views::transform(&BufferArg::format);
  if (std::ranges::any_of(formats, [&](const BindingFormat& b) { return is_native_half(b, profile); })) {
    out += "enable f16;\n";
  }
  if (profile.subgroups_need_enable && assembly.needs_subgroups()) out += "enable subgroups;\n";
  out += kIndexFunction;
  std::uint32_t binding = 0;
  for (const auto& b : formats) {
    const bool is_native = is_native_half(b, profile);
    fmt::format_to(std::back_inserter(out), "@group(0) @binding({}) var<storage, {}> {}: {};\n", ++binding,
                   b.access == Access::read ? "read" : "read_write", b.name, array_type(b, is_native));
    write_loads(out, b, is_native);
    if (b.access == Access::read_write) write_stores(out, b);
  }
  const bool packs = std::ranges::any_of(
      formats, [](const BindingFormat& b) { return b.elem == Elem::f16 && b.access == Access::read_write; });
  if (packs) out += kPackFunction;
  const bool reports = std::ranges::find(formats, Elem::atomics, &BindingFormat::elem) != formats.end();
  out += reports ? kFaultFunction : "fn report_fault_at(node: u32, site: u32, position: u32, value: i32) {}\n";
  out += "fn report_fault(node: u32, position: u32, value: i32) { report_fault_at(node, 0u, position, value); }\n";
  assembly.write(out);
  return out;
}

}  // namespace

Elem elem_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return Elem::boolean;
    case DType::u8: return Elem::u8;
    case DType::i8: return Elem::i8;
    case DType::i32: return Elem::i32;
    case DType::f16: return Elem::f16;
    case DType::f32:
    case DType::f64:
    case DType::i64: return Elem::f32;
  }
  return Elem::f32;
}

bool PipelineTable::matches(PipelineId id, const Kernel& kernel, std::uint32_t workgroup) const {
  const Key& key = keys_[id];
  if (key.shader != &kernel.shader.get() || key.workgroup != workgroup || key.bindings.size() != kernel.bind.size()) {
    return false;
  }
  for (std::size_t i = 0; i < key.bindings.size(); ++i) {
    if (!(key.bindings[i] == kernel.bind[i].format)) return false;
  }
  return key.overrides == kernel.overrides && key.slots == kernel.slots && key.expression == kernel.expression;
}

std::optional<PipelineId> PipelineTable::find(const Kernel& kernel, std::uint32_t workgroup) const {
  // A plan has a few dozen pipelines; comparing keys is cheaper than hashing them.
  for (PipelineId id = 0; id < keys_.size(); ++id) {
    if (matches(id, kernel, workgroup)) return id;
  }
  return {};
}

Status PipelineTable::intern(const Kernel& kernel, std::uint32_t workgroup, const DeviceProfile& profile,
                             std::string_view op) {
  if (find(kernel, workgroup)) return {};
  const Assembly assembly(kernel, op);
  TRY(assembly.check());
  if (assembly.needs_subgroups() && !profile.subgroups) {
    return fail(ErrorCode::internal, "{}: kernel {} needs subgroups, which this device has not", op,
                kernel.shader.get().name);
  }
  PipelineDesc desc;
  desc.label = kernel.shader.get().name;
  desc.wgsl = write_wgsl(kernel, assembly, profile);
  Key key{.shader = &kernel.shader.get(),
          .workgroup = workgroup,
          .overrides = kernel.overrides,
          .slots = kernel.slots,
          .expression = kernel.expression};
  for (const auto& b : kernel.bind) {
    key.bindings.push_back(b.format);
    desc.bindings.push_back(b.format.access);
    desc.reports_faults |= b.format.elem == Elem::atomics;
  }
  desc.overrides.push_back({"WG", static_cast<double>(workgroup)});
  for (const auto& one : kernel.overrides) desc.overrides.push_back({std::string(one.name), one.value});
  keys_.push_back(key);
  descs_.push_back(std::move(desc));
  return {};
}

std::string to_string(const Kernel& kernel) {
  std::string text =
      fmt::format("{} ({} threads in groups of {})", kernel.shader.get().name, kernel.threads, kernel.workgroup);
  for (const auto& b : kernel.bind) {
    fmt::format_to(std::back_inserter(text), " {}{}", b.format.name, b.format.access == Access::read ? "" : "*");
  }
  for (const auto& one : kernel.overrides) fmt::format_to(std::back_inserter(text), " {}={}", one.name, one.value);
  for (const auto& one : kernel.slots) fmt::format_to(std::back_inserter(text), " {}:{}", one.name, one.module->name);
  if (!kernel.expression.empty()) fmt::format_to(std::back_inserter(text), " `{}`", kernel.expression);
  return text;
}

}  // namespace nibble
