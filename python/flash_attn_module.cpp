// octavo._flash_attn: octavo/flash_attn.h for Python, over arrays of any framework that has DLPack.
// Reads and checks every argument, so that an error names it before anything is launched; what is
// allocated, and on which stream, is the caller's: python/octavo/flash_attn.py does it for PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "octavo/flash_attn.h"

namespace py = pybind11;

namespace {

// --- DLPack: what its ABI says of a tensor (github.com/dmlc/dlpack, dlpack.h of version 1.1). A
// capsule "dltensor" points to a struct that begins with a DLTensor; its owner's destructor frees
// it, so that who only looks while holding the capsule needs nothing else.

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

constexpr int32_t kDlCuda = 2;
constexpr uint64_t kLegacyDefaultStream = 1;  // DLPack's word for it; 0 is not allowed

struct Type {
  uint8_t code;
  uint8_t bits;
  const char* name;
};

constexpr Type kInt32 = {0, 32, "int32"};
constexpr Type kUInt8 = {1, 8, "uint8"};
constexpr Type kFloat32 = {2, 32, "float32"};
constexpr Type kBFloat16 = {4, 16, "bfloat16"};
constexpr Type kFloat8E4M3 = {10, 8, "float8_e4m3fn"};
// What else is likely to be passed, for its name in an error.
constexpr Type kOtherTypes[] = {
    {0, 64, "int64"}, {2, 16, "float16"}, {2, 64, "float64"}, {12, 8, "float8_e5m2"}};

bool is(const DLDataType& dtype, const Type& type) {
  return dtype.code == type.code && dtype.bits == type.bits && dtype.lanes == 1;
}

std::string name_of(const DLDataType& dtype) {
  for (const Type& type : {kInt32, kUInt8, kFloat32, kBFloat16, kFloat8E4M3}) {
    if (is(dtype, type)) return type.name;
  }
  for (const Type& type : kOtherTypes) {
    if (is(dtype, type)) return type.name;
  }
  return "of DLPack's type code " + std::to_string(dtype.code) + " with " +
         std::to_string(dtype.bits) + " bits";
}

// --- arguments ---------------------------------------------------------------------------------

constexpr int64_t kAny = -1;  // a length that is not known yet
using Shape = std::vector<int64_t>;

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const int64_t length : shape) {
    if (text.size() > 1) text += ", ";
    text += length == kAny ? "*" : std::to_string(length);
  }
  return text + "]";
}

bool fits(const Shape& shape, const Shape& expected) {
  if (shape.size() != expected.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (expected[i] != kAny && shape[i] != expected[i]) return false;
  }
  return true;
}

bool is_contiguous(const DLTensor& tensor, const Shape& shape) {
  if (tensor.strides == nullptr) return true;
  for (const int64_t length : shape) {
    if (length == 0) return true;
  }
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= shape[i];
  }
  return true;
}

struct Array {
  void* data = nullptr;
  Shape shape;
  DLDataType dtype = {};
};

// Reads the arrays of one call and holds them until it ends; all are on the GPU of the first.
class Reader {
 public:
  explicit Reader(uint64_t stream) : stream_(stream == 0 ? kLegacyDefaultStream : stream) {}

  Array read(const std::string& name, const py::object& object, std::initializer_list<Type> types,
             const Shape& expected, uint64_t alignment = 4) {
    const DLTensor& tensor = view(name, object);
    Array array{static_cast<char*>(tensor.data) + tensor.byte_offset, {}, tensor.dtype};
    array.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    check_type(name, tensor.dtype, types);
    if (!fits(array.shape, expected))
      throw py::value_error(name + " has shape " + to_string(array.shape) + ", not " +
                            to_string(expected));
    if (!is_contiguous(tensor, array.shape)) throw py::value_error(name + " is not contiguous");
    if (reinterpret_cast<uintptr_t>(array.data) % alignment != 0)
      throw py::value_error(name + " does not begin at a multiple of " + std::to_string(alignment) +
                            " bytes");
    return array;
  }

  template <typename T>
  const T* read_optional(const std::string& name, const py::object& object, const Type& type,
                         const Shape& expected) {
    if (object.is_none()) return nullptr;
    return static_cast<const T*>(read(name, object, {type}, expected).data);
  }

 private:
  // A capsule is read as it is: who passes one has exported it for the stream of this call.
  const DLTensor& view(const std::string& name, const py::object& object) {
    held_.push_back(py::isinstance<py::capsule>(object) ? object : exported(name, object));
    const void* pointer = nullptr;
    if (PyCapsule_IsValid(held_.back().ptr(), "dltensor") != 0)
      pointer = PyCapsule_GetPointer(held_.back().ptr(), "dltensor");
    if (pointer == nullptr)
      throw py::type_error(name + " is, or its __dlpack__ gave, no capsule \"dltensor\"");
    const auto& tensor = *static_cast<const DLTensor*>(pointer);
    check_device_type(name, tensor.device.device_type);
    const int32_t id = tensor.device.device_id;
    if (held_.size() == 1) device_id_ = id;
    if (id != device_id_)
      throw py::value_error(name + " is on GPU " + std::to_string(id) + ", q on GPU " +
                            std::to_string(device_id_));
    return tensor;
  }

  py::object exported(const std::string& name, const py::object& object) const {
    if (!py::hasattr(object, "__dlpack__") || !py::hasattr(object, "__dlpack_device__"))
      throw py::type_error(name + " is a " + std::string(py::str(py::type::of(object))) +
                           ", not an array with __dlpack__");
    // Asked beforehand: owners of other devices' memory do not know what a stream is.
    const py::tuple device = object.attr("__dlpack_device__")();
    check_device_type(name, py::int_(device[0]).cast<int32_t>());
    try {
      return object.attr("__dlpack__")(py::arg("stream") = stream_);
    } catch (py::error_already_set& error) {
      const std::string message = name + " cannot be read: its __dlpack__ failed";
      py::raise_from(error, PyExc_ValueError, message.c_str());
      throw py::error_already_set();
    }
  }

  static void check_device_type(const std::string& name, int32_t type) {
    if (type != kDlCuda)
      throw py::value_error(name + " is not on a CUDA GPU (DLPack's device type " +
                            std::to_string(type) + ")");
  }

  static void check_type(const std::string& name, const DLDataType& dtype,
                         std::initializer_list<Type> types) {
    std::string names;
    for (const Type& type : types) {
      if (is(dtype, type)) return;
      names += (names.empty() ? "" : " or ") + std::string(type.name);
    }
    throw py::value_error(name + " is " + name_of(dtype) + ", not " + names);
  }

  uint64_t stream_;
  int32_t device_id_ = 0;
  std::vector<py::object> held_;
};

int32_t to_int32(const char* name, int64_t value) {
  if (value > std::numeric_limits<int32_t>::max())
    throw py::value_error(std::string(name) + " is too large: " + std::to_string(value));
  return static_cast<int32_t>(value);
}

void check(octavo_flash_attn_status status) {
  if (status == OCTAVO_FLASH_ATTN_OK) return;
  PyObject* error = status == OCTAVO_FLASH_ATTN_INVALID       ? PyExc_ValueError
                    : status == OCTAVO_FLASH_ATTN_UNSUPPORTED ? PyExc_NotImplementedError
                                                              : PyExc_RuntimeError;
  PyErr_SetString(error, octavo_flash_attn_error());
  throw py::error_already_set();
}

// --- the call ----------------------------------------------------------------------------------

constexpr uint64_t kRowAlignment = 16;  // the kernels copy rows in such pieces

void read_queries(octavo_flash_attn_args& args, Reader& reader, const py::object& q,
                  const py::object& out, const py::object& cu_seqlens_q, const py::object& lse) {
  const Array rows = reader.read("q", q, {kBFloat16}, {kAny, kAny, kAny}, kRowAlignment);
  args.q = rows.data;
  args.out = reader.read("out", out, {kBFloat16}, rows.shape, kRowAlignment).data;
  args.total_q = to_int32("total_q", rows.shape[0]);
  args.num_heads = to_int32("num_heads", rows.shape[1]);
  args.head_dim = to_int32("head_dim", rows.shape[2]);
  const Array ends = reader.read("cu_seqlens_q", cu_seqlens_q, {kInt32}, {kAny});
  if (ends.shape[0] == 0) throw py::value_error("cu_seqlens_q is empty");
  args.cu_seqlens_q = static_cast<const int32_t*>(ends.data);
  args.batch_size = to_int32("batch_size", ends.shape[0] - 1);
  if (!lse.is_none())
    args.lse = static_cast<float*>(
        reader.read("lse", lse, {kFloat32}, {args.num_heads, args.total_q}).data);
}

Array read_stored(Reader& reader, const char* name, const py::object& object,
                  const std::string& kv_dtype, const Shape& expected) {
  if (kv_dtype == "auto")
    return reader.read(name, object, {kBFloat16, kFloat8E4M3}, expected, kRowAlignment);
  if (kv_dtype == "bfloat16")
    return reader.read(name, object, {kBFloat16}, expected, kRowAlignment);
  if (kv_dtype == "fp8_e4m3")
    return reader.read(name, object, {kFloat8E4M3, kUInt8}, expected, kRowAlignment);
  throw py::value_error("kv_dtype is '" + kv_dtype + "', not auto, bfloat16 or fp8_e4m3");
}

void read_keys(octavo_flash_attn_args& args, Reader& reader, const py::object& k,
               const py::object& v, const std::string& kv_dtype, const py::object& cu_seqlens_k,
               const py::object& block_table, const py::object& seqused_k) {
  const bool paged = !block_table.is_none();
  if (cu_seqlens_k.is_none() != paged)
    throw py::value_error(paged ? "cu_seqlens_k: with block_table, seqused_k has the lengths"
                                : "either cu_seqlens_k or block_table is needed");
  if (seqused_k.is_none() == paged)
    throw py::value_error(paged ? "seqused_k is needed with block_table"
                                : "seqused_k is for keys in pages, with block_table");
  const Shape expected =
      paged ? Shape{kAny, kAny, kAny, args.head_dim} : Shape{kAny, kAny, args.head_dim};
  const Array keys = read_stored(reader, "k", k, kv_dtype, expected);
  const Array values = read_stored(reader, "v", v, kv_dtype, keys.shape);
  if (keys.dtype.bits != values.dtype.bits)
    throw py::value_error("v is " + name_of(values.dtype) + ", k " + name_of(keys.dtype));
  args.k = keys.data;
  args.v = values.data;
  args.kv_dtype = is(keys.dtype, kBFloat16) ? OCTAVO_FLASH_ATTN_BF16 : OCTAVO_FLASH_ATTN_F8E4M3;
  args.num_kv_heads = to_int32("num_kv_heads", keys.shape[1]);
  const int64_t batch_size = args.batch_size;
  if (!paged) {
    args.total_k = keys.shape[0];
    args.cu_seqlens_k =
        reader.read_optional<int32_t>("cu_seqlens_k", cu_seqlens_k, kInt32, {batch_size + 1});
    return;
  }
  args.num_blocks = keys.shape[0];
  args.block_size = to_int32("block_size", keys.shape[2]);
  const Array table = reader.read("block_table", block_table, {kInt32}, {batch_size, kAny});
  args.block_table = static_cast<const int32_t*>(table.data);
  args.block_table_stride = table.shape[1];
  args.seqused_k = reader.read_optional<int32_t>("seqused_k", seqused_k, kInt32, {batch_size});
}

// Returns the workspace: `planned`, or where that is None what `allocate` gave.
py::object launch(octavo_flash_attn_args& args, Reader& reader, uint64_t stream,
                  const py::function& allocate, const py::object& planned) {
  size_t bytes = 0;
  check(octavo_flash_attn_workspace_bytes(&args, &bytes));
  args.planned = planned.is_none() ? 0 : 1;
  const char* name = planned.is_none() ? "allocate(bytes)" : "planned";
  const py::object object = planned.is_none() ? allocate(bytes) : planned;
  const Array workspace = reader.read(name, object, {kUInt8}, {kAny});
  octavo_flash_attn_status status;
  {
    const py::gil_scoped_release released;
    status =
        octavo_flash_attn_varlen(&args, workspace.data, static_cast<size_t>(workspace.shape[0]),
                                 reinterpret_cast<void*>(stream));
  }
  check(status);
  return object;
}

py::object varlen(const py::object& out, const py::object& q, const py::object& k,
                  const py::object& v, const py::object& cu_seqlens_q, uint64_t stream,
                  const py::function& allocate, const py::object& lse,
                  const py::object& cu_seqlens_k, const py::object& block_table,
                  const py::object& seqused_k, std::optional<int32_t> max_seqlen_q,
                  const std::string& kv_dtype, const py::object& k_scale, const py::object& v_scale,
                  float softmax_scale, float softcap, bool causal, int32_t window_left,
                  int32_t chunk, const py::object& sinks, const py::object& planned) {
  octavo_flash_attn_args args = {};
  args.struct_size = sizeof args;
  Reader reader(stream);
  read_queries(args, reader, q, out, cu_seqlens_q, lse);
  read_keys(args, reader, k, v, kv_dtype, cu_seqlens_k, block_table, seqused_k);
  const Shape per_kv_head = {args.num_kv_heads};
  args.k_scale = reader.read_optional<float>("k_scale", k_scale, kFloat32, per_kv_head);
  args.v_scale = reader.read_optional<float>("v_scale", v_scale, kFloat32, per_kv_head);
  if (args.kv_dtype == OCTAVO_FLASH_ATTN_BF16 && (args.k_scale || args.v_scale))
    throw py::value_error("k_scale and v_scale are for k and v in float8_e4m3fn");
  args.sinks = reader.read_optional<float>("sinks", sinks, kFloat32, {args.num_heads});
  args.max_seqlen_q = max_seqlen_q.value_or(args.total_q);
  args.softmax_scale = softmax_scale;
  args.softcap = softcap;
  args.causal = causal ? 1 : 0;
  args.window_left = window_left;
  args.chunk = chunk;
  return launch(args, reader, stream, allocate, planned);
}

constexpr const char* kDoc =
    R"(Writes the attention of a ragged batch to out and, where given, lse; both on `stream`.

Arrays are of any framework with DLPack, or its capsules, which are read and not consumed;
contiguous and on one GPU, the current one. Shapes and
meaning are those of octavo/flash_attn.h: q, out [total_q, num_heads, head_dim] bfloat16; k, v
[total_k, num_kv_heads, head_dim] with cu_seqlens_k, or [num_blocks, num_kv_heads, block_size,
head_dim] with block_table and seqused_k. k and v are bfloat16 or float8_e4m3fn, which
kv_dtype="fp8_e4m3" finds in arrays of uint8 too. max_seqlen_q: total_q where it is None.
stream: a cudaStream_t as an integer. allocate(bytes) gives an array of so many uint8, which must
not be reused before the stream has come past this call. Returns that array; as `planned` of later
calls that differ only in what octavo/flash_attn.h says (the layers of a model) its list of work is
used again.)";

}  // namespace

PYBIND11_MODULE(_flash_attn, module) {
  using py::arg;
  module.doc() = "octavo/flash_attn.h over DLPack arrays.";
  const py::none none;
  module.def("varlen", &varlen, kDoc, py::kw_only(), arg("out"), arg("q"), arg("k"), arg("v"),
             arg("cu_seqlens_q"), arg("stream"), arg("allocate"), arg("lse") = none,
             arg("cu_seqlens_k") = none, arg("block_table") = none, arg("seqused_k") = none,
             arg("max_seqlen_q") = none, arg("kv_dtype") = "auto", arg("k_scale") = none,
             arg("v_scale") = none, arg("softmax_scale") = 0.0f, arg("softcap") = 0.0f,
             arg("causal") = false, arg("window_left") = -1, arg("chunk") = 0, arg("sinks") = none,
             arg("planned") = none);
}
