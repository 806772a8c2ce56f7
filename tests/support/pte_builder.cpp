#include "support/pte_builder.hpp"

#include <cstring>
#include <numeric>

#include "program_generated.h"

namespace nibble::test {

namespace et = executorch_flatbuffer;

namespace {

constexpr std::size_t kPteHeaderBytes = 32;

int scalar_type(DType dtype, bool wide_ints) {
  switch (dtype) {
    case DType::boolean: return 11;
    case DType::u8: return 0;
    case DType::i8: return 1;
    case DType::i32: return wide_ints ? 4 : 3;
    case DType::f16: return 5;
    case DType::f32: return 6;
    case DType::f64: return 7;
    case DType::i64: return 4;
  }
  return 6;
}

struct WriteValue {
  flatbuffers::FlatBufferBuilder& fb;

  template <class T>
  flatbuffers::Offset<et::EValue> wrap(et::KernelTypes type, flatbuffers::Offset<T> offset) const {
    return et::CreateEValue(fb, type, offset.Union());
  }
  auto operator()(std::monostate) const { return wrap(et::KernelTypes::Null, et::CreateNull(fb)); }
  auto operator()(std::int64_t v) const { return wrap(et::KernelTypes::Int, et::CreateInt(fb, v)); }
  auto operator()(bool v) const { return wrap(et::KernelTypes::Bool, et::CreateBool(fb, v)); }
  auto operator()(double v) const { return wrap(et::KernelTypes::Double, et::CreateDouble(fb, v)); }
  auto operator()(const std::string& v) const {
    return wrap(et::KernelTypes::String, et::CreateString(fb, fb.CreateString(v)));
  }
  auto operator()(const PteTensor& t) const {
    const auto sizes = fb.CreateVector(t.sizes);
    const auto dim_order = fb.CreateVector(t.dim_order);
    et::TensorBuilder tensor(fb);
    tensor.add_scalar_type(static_cast<et::ScalarType>(t.scalar_type));
    tensor.add_sizes(sizes);
    tensor.add_dim_order(dim_order);
    if (t.dynamic) tensor.add_shape_dynamism(et::TensorShapeDynamism::DYNAMIC_BOUND);
    return wrap(et::KernelTypes::Tensor, tensor.Finish());
  }
  auto operator()(const std::vector<std::int64_t>& v) const {
    return wrap(et::KernelTypes::IntList, et::CreateIntList(fb, fb.CreateVector(v)));
  }
  auto operator()(const std::vector<double>& v) const {
    return wrap(et::KernelTypes::DoubleList, et::CreateDoubleList(fb, fb.CreateVector(v)));
  }
  auto operator()(const std::vector<bool>& v) const {
    return wrap(et::KernelTypes::BoolList, et::CreateBoolList(fb, fb.CreateVector(v)));
  }
};

flatbuffers::Offset<et::ExecutionPlan> write_method(flatbuffers::FlatBufferBuilder& fb, const PteMethod& method) {
  std::vector<flatbuffers::Offset<et::EValue>> values;
  for (const auto& value : method.values) values.push_back(std::visit(WriteValue{fb}, value));
  std::vector<flatbuffers::Offset<et::Operator>> operators;
  for (const auto& [name, overload] : method.operators) {
    const auto name_text = fb.CreateString(name);
    operators.push_back(et::CreateOperator(fb, name_text, fb.CreateString(overload)));
  }
  std::vector<flatbuffers::Offset<et::BackendDelegate>> delegates;
  for (const auto& delegate : method.delegates) {
    const auto id = fb.CreateString(delegate.id);
    const auto place =
        et::CreateBackendDelegateDataReference(fb, static_cast<et::DataLocation>(delegate.location), delegate.index);
    delegates.push_back(et::CreateBackendDelegate(fb, id, place));
  }
  std::vector<flatbuffers::Offset<et::Instruction>> instructions;
  for (const auto& call : method.calls) {
    const auto args = fb.CreateVector(call.args);
    if (call.is_delegate) {
      instructions.push_back(et::CreateInstruction(fb, et::InstructionArguments::DelegateCall,
                                                   et::CreateDelegateCall(fb, call.index, args).Union()));
    } else {
      instructions.push_back(et::CreateInstruction(fb, et::InstructionArguments::KernelCall,
                                                   et::CreateKernelCall(fb, call.index, args).Union()));
    }
  }
  const auto all = fb.CreateVector(instructions);
  const std::vector chains{et::CreateChain(fb, 0, 0, all)};
  const auto name = fb.CreateString(method.name);
  return et::CreateExecutionPlan(fb, name, 0, fb.CreateVector(values), fb.CreateVector(method.inputs),
                                 fb.CreateVector(method.outputs), fb.CreateVector(chains), fb.CreateVector(operators),
                                 fb.CreateVector(delegates));
}

template <class T>
void put(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

void pad_to_16(Bytes& bytes) { bytes.resize((bytes.size() + 15) / 16 * 16); }

}  // namespace

Pte describe(const BlobBuilder& blob, PteOptions options) {
  Pte pte;
  PteMethod method;
  const auto add = [&](std::uint32_t id, std::vector<std::int32_t>& ends) {
    if (const auto* tensor = blob.tensor_at(id)) {
      PteTensor host;
      const int staging = tensor->staging_datatype == 127 ? tensor->datatype : tensor->staging_datatype;
      host.scalar_type = scalar_type(static_cast<DType>(staging), options.wide_ints);
      host.sizes.assign(tensor->dims.begin(), tensor->dims.end());
      host.dim_order.resize(host.sizes.size());
      std::iota(host.dim_order.begin(), host.dim_order.end(), std::uint8_t{0});
      host.dynamic = options.dynamic;
      method.values.emplace_back(std::move(host));
    } else {
      method.values.emplace_back(std::int64_t{0});
    }
    ends.push_back(static_cast<std::int32_t>(method.values.size()) - 1);
  };
  for (auto id : blob.input_ids()) add(id, method.inputs);
  for (auto id : blob.output_ids()) add(id, method.outputs);

  PteMethod::Call call;
  call.args = method.inputs;
  call.args.insert(call.args.end(), method.outputs.begin(), method.outputs.end());
  method.calls.push_back(std::move(call));
  method.delegates.emplace_back();
  pte.segments.push_back({blob.finish()});
  for (const auto& [key, bytes] : blob.named()) {
    pte.named.emplace_back(key, static_cast<std::uint32_t>(pte.segments.size()));
    pte.segments.push_back({bytes});
  }
  pte.methods.push_back(std::move(method));
  return pte;
}

PteMethod constant_method(std::string name, std::vector<PteValue> values) {
  PteMethod method;
  method.name = std::move(name);
  method.values = std::move(values);
  method.outputs.resize(method.values.size());
  std::iota(method.outputs.begin(), method.outputs.end(), 0);
  return method;
}

Bytes write_pte(const Pte& pte) {
  Bytes data;  // all segments
  flatbuffers::FlatBufferBuilder fb;
  std::vector<flatbuffers::Offset<et::DataSegment>> segments;
  for (const auto& segment : pte.segments) {
    segments.push_back(
        et::CreateDataSegment(fb, data.size() + segment.extra_offset, segment.bytes.size() + segment.extra_size));
    data.insert(data.end(), segment.bytes.begin(), segment.bytes.end());
    pad_to_16(data);
  }
  std::vector<flatbuffers::Offset<et::ExecutionPlan>> methods;
  for (const auto& method : pte.methods) methods.push_back(write_method(fb, method));
  std::vector<flatbuffers::Offset<et::NamedData>> named;
  for (const auto& [key, segment] : pte.named) {
    named.push_back(et::CreateNamedData(fb, fb.CreateString(key), segment));
  }
  std::vector<flatbuffers::Offset<et::BackendDelegateInlineData>> blobs;
  for (const auto& blob : pte.inline_blobs) {
    fb.ForceVectorAlignment(blob.size(), 1, 16);
    const auto bytes = fb.CreateVector(reinterpret_cast<const std::uint8_t*>(blob.data()), blob.size());
    blobs.push_back(et::CreateBackendDelegateInlineData(fb, bytes));
  }
  et::FinishProgramBuffer(fb, et::CreateProgram(fb, 0, fb.CreateVector(methods), 0, fb.CreateVector(blobs),
                                                fb.CreateVector(segments), 0, 0, fb.CreateVector(named)));

  const auto* program = reinterpret_cast<const std::byte*>(fb.GetBufferPointer());
  Bytes file(program, program + fb.GetSize());
  if (!pte.extended_header) return file;
  // The header stands between the FlatBuffer's identifier and the rest, so the root moves by its size.
  std::uint32_t root = 0;
  std::memcpy(&root, file.data(), sizeof(root));
  file.insert(file.begin() + 8, kPteHeaderBytes, std::byte{0});
  put(file, 0, static_cast<std::uint32_t>(root + kPteHeaderBytes));
  std::memcpy(file.data() + 8, "eh00", 4);
  put(file, 12, static_cast<std::uint32_t>(kPteHeaderBytes));
  store<std::uint64_t>(file, 16, file.size());
  pad_to_16(file);
  store<std::uint64_t>(file, 24, data.empty() ? 0 : file.size());
  store<std::uint64_t>(file, 32, data.size());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

Bytes make_pte(const BlobBuilder& blob, PteOptions options) { return write_pte(describe(blob, options)); }

}  // namespace nibble::test
