"""Torch's own functions, for the runtime's own computations.

A program may replace `torch.Tensor.sum` or `torch.stack`, for instance to count calls or to record a graph. The
runtime's computations must bypass such replacements, or they would be counted and recorded as the program's. The
originals are therefore taken once, from where torch itself takes them.
"""

from __future__ import annotations

from typing import Final

import torch

_functions: Final = torch._C._VariableFunctions
_methods: Final = torch._C.TensorBase

aminmax: Final = _functions.aminmax
arange: Final = _functions.arange
bitwise_and: Final = _functions.bitwise_and
bitwise_or: Final = _functions.bitwise_or
bitwise_right_shift: Final = _functions.bitwise_right_shift
bitwise_xor: Final = _functions.bitwise_xor
dot: Final = _functions.dot
get_num_threads: Final = torch.get_num_threads
foreach_norm: Final = _functions._foreach_norm
isfinite: Final = _functions.isfinite
is_greater: Final = _functions.gt
is_less: Final = _functions.lt
is_equal: Final = _functions.equal
concatenate: Final = _functions.cat
frombuffer: Final = _functions.frombuffer
logsumexp: Final = _functions.logsumexp
multiply: Final = _functions.mul
narrow: Final = _functions.narrow
split: Final = _functions.split  # type: ignore[attr-defined]
stack: Final = _functions.stack
view_as_complex: Final = _functions.view_as_complex
view_as_real: Final = _functions.view_as_real
zeros: Final = _functions.zeros

clone: Final = _methods.clone
add_: Final = _methods.add_
as_strided: Final = _methods.as_strided
conj: Final = _methods.conj
contiguous: Final = _methods.contiguous
convert: Final = _methods.to
copy_into: Final = _methods.copy_
data_ptr: Final = _methods.data_ptr
dimensions: Final = _methods.dim
has_any: Final = _methods.any
is_complex: Final = _methods.is_complex
is_conj: Final = _methods.is_conj
is_contiguous: Final = _methods.is_contiguous
is_floating_point: Final = _methods.is_floating_point
is_neg: Final = _methods.is_neg
item: Final = _methods.item
negate_: Final = _methods.neg_
numel: Final = _methods.numel
reshape: Final = _methods.reshape
resolve_neg: Final = _methods.resolve_neg
storage_offset: Final = _methods.storage_offset
select: Final = _methods.select
total: Final = _methods.sum
tolist: Final = _methods.tolist
view: Final = _methods.view
