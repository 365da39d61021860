"""octavo.flash_attn without a GPU: what the compiled module reads of its arguments and refuses.

Arrays are made up: capsules of DLPack over addresses that nothing may touch. No case gets as far as
a launch; examples/flash_attn.py compares what a GPU computes. PYTHONPATH names the built package.
"""

import ctypes
import unittest

from octavo.flash_attn import flash_attn_varlen_func, varlen

INT32, INT64, UINT8 = (0, 32), (0, 64), (1, 8)
FLOAT16, FLOAT32, BFLOAT16, FLOAT8 = (2, 16), (2, 32), (4, 16), (10, 8)
CPU, CUDA = 1, 2


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]


class Array:
    """What a framework's array shows of itself; counts what the module holds of it."""

    def __init__(self, dtype, *shape, strides=None, device=(CUDA, 0), offset=0, lanes=1,
                 name=b"dltensor"):
        self.device, self.name = device, name
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self.tensor = DLTensor(1 << 20, *device, len(shape), *dtype, lanes, self.shape,
                               self.strides, offset)
        self.streams, self.held = [], 0
        self.destructor = DESTRUCTOR(self._release)

    def _release(self, _):
        self.held -= 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        self.held += 1
        return new_capsule(ctypes.addressof(self.tensor), self.name, self.destructor)


class Broken(Array):
    def __dlpack__(self, stream=None):
        raise BufferError("it requires a gradient")


class Allocated(Exception):
    """Raised in place of allocating a workspace: every check before it has passed."""


def refuse_to_allocate(size):
    raise Allocated(size)


def contiguous(**changed):
    return dict(out=Array(BFLOAT16, 9, 8, 128), q=Array(BFLOAT16, 9, 8, 128),
                k=Array(BFLOAT16, 20, 2, 128), v=Array(BFLOAT16, 20, 2, 128),
                cu_seqlens_q=Array(INT32, 4), cu_seqlens_k=Array(INT32, 4), stream=7,
                allocate=refuse_to_allocate) | changed


def paged(**changed):
    return dict(out=Array(BFLOAT16, 9, 8, 128), q=Array(BFLOAT16, 9, 8, 128),
                k=Array(BFLOAT16, 5, 2, 16, 128), v=Array(BFLOAT16, 5, 2, 16, 128),
                cu_seqlens_q=Array(INT32, 4), block_table=Array(INT32, 3, 2),
                seqused_k=Array(INT32, 3), stream=7, allocate=refuse_to_allocate) | changed


class Accepted(unittest.TestCase):
    def accept(self, arguments):
        with self.assertRaises(Allocated) as raised:
            varlen(**arguments)
        self.assertGreater(raised.exception.args[0], 0)
        for name, array in arguments.items():
            if isinstance(array, Array):
                self.assertEqual(array.held, 0, name)
                self.assertEqual(array.streams, [arguments["stream"] or 1], name)

    def test_contiguous_keys(self):
        self.accept(contiguous())
        self.accept(contiguous(lse=Array(FLOAT32, 8, 9), sinks=Array(FLOAT32, 8), causal=True,
                               softcap=30.0, softmax_scale=0.1, window_left=5, max_seqlen_q=4))

    def test_keys_in_pages(self):
        self.accept(paged())
        self.accept(paged(max_seqlen_q=1, causal=True))

    def test_e4m3(self):
        scales = dict(k_scale=Array(FLOAT32, 2), v_scale=Array(FLOAT32, 2))
        stored = dict(k=Array(FLOAT8, 5, 2, 16, 128), v=Array(FLOAT8, 5, 2, 16, 128))
        self.accept(paged(**stored, **scales))
        bytes_ = dict(k=Array(UINT8, 5, 2, 16, 128), v=Array(UINT8, 5, 2, 16, 128))
        scales = dict(k_scale=Array(FLOAT32, 2), v_scale=Array(FLOAT32, 2))
        self.accept(paged(**bytes_, **scales, kv_dtype="fp8_e4m3"))

    def test_capsules_are_read_and_not_consumed(self):
        array = Array(BFLOAT16, 9, 8, 128)
        capsule = array.__dlpack__()
        for _ in range(2):
            with self.assertRaises(Allocated):
                varlen(**contiguous(q=capsule))
        self.assertEqual(array.held, 1)
        del capsule
        self.assertEqual(array.held, 0)

    def test_the_default_stream_has_a_number_of_its_own_in_dlpack(self):
        self.accept(contiguous(stream=0))

    def test_strides_that_say_what_the_shape_says(self):
        self.accept(contiguous(q=Array(BFLOAT16, 9, 8, 128, strides=(1024, 128, 1))))
        one_row = dict(q=Array(BFLOAT16, 1, 8, 128, strides=(5, 128, 1)),
                       out=Array(BFLOAT16, 1, 8, 128))
        self.accept(contiguous(**one_row))


class Refused(unittest.TestCase):
    def refuse(self, error, message, arguments):
        with self.assertRaisesRegex(error, message):
            varlen(**arguments)
        for name, array in arguments.items():
            if isinstance(array, Array):
                self.assertEqual(array.held, 0, name)

    def test_what_is_no_array(self):
        self.refuse(TypeError, "q is a <class 'list'>", contiguous(q=[1.0]))
        self.refuse(TypeError, "^k is, or its __dlpack__ gave, no capsule",
                    contiguous(k=Array(BFLOAT16, 20, 2, 128, name=b"used_dltensor")))
        self.refuse(ValueError, "k cannot be read", contiguous(k=Broken(BFLOAT16, 20, 2, 128)))

    def test_what_an_owner_says_is_the_cause(self):
        with self.assertRaises(ValueError) as raised:
            varlen(**contiguous(k=Broken(BFLOAT16, 20, 2, 128)))
        self.assertIsInstance(raised.exception.__cause__, BufferError)

    def test_devices(self):
        on_cpu = Array(BFLOAT16, 9, 8, 128, device=(CPU, 0))
        self.refuse(ValueError, "^q is not on a CUDA GPU", contiguous(q=on_cpu))
        self.refuse(ValueError, "^out is on GPU 1, q on GPU 0",
                    contiguous(out=Array(BFLOAT16, 9, 8, 128, device=(CUDA, 1))))

        on_cpu = Array(BFLOAT16, 20, 2, 128, device=(CPU, 0))
        self.refuse(ValueError, "^k is not on a CUDA GPU", contiguous(k=on_cpu.__dlpack__()))

    def test_types(self):
        self.refuse(ValueError, "^q is float16, not bfloat16",
                    contiguous(q=Array(FLOAT16, 9, 8, 128)))
        self.refuse(ValueError, "^cu_seqlens_q is int64, not int32",
                    contiguous(cu_seqlens_q=Array(INT64, 4)))
        self.refuse(ValueError, "^v is float8_e4m3fn, k bfloat16",
                    contiguous(v=Array(FLOAT8, 20, 2, 128)))
        self.refuse(ValueError, "^k is uint8, not bfloat16 or float8_e4m3fn",
                    contiguous(k=Array(UINT8, 20, 2, 128)))
        self.refuse(ValueError, "^k is bfloat16, not float8_e4m3fn or uint8",
                    contiguous(kv_dtype="fp8_e4m3"))
        self.refuse(ValueError, "^kv_dtype is 'fp8'", contiguous(kv_dtype="fp8"))
        self.refuse(ValueError, "^q is of DLPack's type code 4 with 16 bits",
                    contiguous(q=Array(BFLOAT16, 9, 8, 128, lanes=2)))

    def test_shapes(self):
        for name, expected, array in (
                ("q", r"\[\*, \*, \*\]", Array(BFLOAT16, 9, 1024)),
                ("out", r"\[9, 8, 128\]", Array(BFLOAT16, 9, 8, 64)),
                ("lse", r"\[8, 9\]", Array(FLOAT32, 9, 8)),
                ("k", r"\[\*, \*, 128\]", Array(BFLOAT16, 20, 2, 64)),
                ("v", r"\[20, 2, 128\]", Array(BFLOAT16, 19, 2, 128)),
                ("cu_seqlens_k", r"\[4\]", Array(INT32, 3)),
                ("sinks", r"\[8\]", Array(FLOAT32, 2))):
            self.refuse(ValueError, f"^{name} has shape .*, not {expected}$",
                        contiguous(**{name: array}))
        self.refuse(ValueError, r"^block_table has shape \[2, 2\], not \[3, \*\]",
                    paged(block_table=Array(INT32, 2, 2)))
        self.refuse(ValueError, r"^seqused_k has shape \[4\], not \[3\]",
                    paged(seqused_k=Array(INT32, 4)))
        self.refuse(ValueError, "^cu_seqlens_q is empty", contiguous(cu_seqlens_q=Array(INT32, 0)))
        self.refuse(ValueError, "^total_q is too large",
                    contiguous(q=Array(BFLOAT16, 1 << 31, 8, 128),
                               out=Array(BFLOAT16, 1 << 31, 8, 128)))

    def test_layouts(self):
        self.refuse(ValueError, "^k is not contiguous",
                    contiguous(k=Array(BFLOAT16, 20, 2, 128, strides=(128, 2560, 1))))
        self.refuse(ValueError, "^v does not begin at a multiple of 16",
                    contiguous(v=Array(BFLOAT16, 20, 2, 128, offset=2)))

    def test_arguments_that_contradict_each_other(self):
        self.refuse(ValueError, "either cu_seqlens_k or block_table", contiguous(cu_seqlens_k=None))
        self.refuse(ValueError, "seqused_k is needed", paged(seqused_k=None))
        self.refuse(ValueError, "^cu_seqlens_k: ", paged(cu_seqlens_k=Array(INT32, 4)))
        self.refuse(ValueError, "^seqused_k is for keys in pages",
                    contiguous(seqused_k=Array(INT32, 3)))
        self.refuse(ValueError, "k_scale and v_scale", contiguous(k_scale=Array(FLOAT32, 2)))

    def test_what_the_library_refuses(self):
        self.refuse(NotImplementedError, "head_dim 96",
                    contiguous(q=Array(BFLOAT16, 9, 8, 96), out=Array(BFLOAT16, 9, 8, 96),
                               k=Array(BFLOAT16, 20, 2, 96), v=Array(BFLOAT16, 20, 2, 96)))
        self.refuse(ValueError, "num_heads 8 is not a multiple of num_kv_heads 3",
                    contiguous(k=Array(BFLOAT16, 20, 3, 128), v=Array(BFLOAT16, 20, 3, 128)))
        self.refuse(ValueError, "a workspace of 1 bytes",
                    contiguous(allocate=lambda size: Array(UINT8, 1)))

    def test_numbers(self):
        self.refuse(TypeError, "max_seqlen_q", contiguous(max_seqlen_q="9"))
        self.refuse(ValueError, "max_seqlen_q is -1", contiguous(max_seqlen_q=-1))

    def test_a_workspace_that_is_none(self):
        self.refuse(TypeError, r"^allocate\(bytes\) is a <class 'int'>",
                    contiguous(allocate=lambda size: size))
        self.refuse(ValueError, r"^allocate\(bytes\) is float32, not uint8",
                    contiguous(allocate=lambda size: Array(FLOAT32, size)))

    def test_a_list_of_work_that_is_none(self):
        self.refuse(TypeError, "^planned is a <class 'int'>", contiguous(planned=3))
        self.refuse(ValueError, "^planned is float32, not uint8",
                    contiguous(planned=Array(FLOAT32, 100)))
        self.refuse(ValueError, "a workspace of 1 bytes", paged(planned=Array(UINT8, 1)))

    def test_the_function_for_pytorch_wants_a_tensor_on_a_gpu(self):
        for q in ([1.0], Array(BFLOAT16, 9, 8, 128, device=(CPU, 0))):
            with self.assertRaisesRegex(ValueError, "q is no PyTorch tensor on a GPU"):
                flash_attn_varlen_func(q, q, q, q)


if __name__ == "__main__":
    unittest.main()
