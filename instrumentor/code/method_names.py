"""What the names of methods say of the objects that they are called on, of which nothing else is known."""

from __future__ import annotations

from instrumentor.resolve import catalogue

# Using an object so may make a module of it for those who want no guesses.
USES_OF_MODULES = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE) - catalogue.MOVES

# Methods that put what they are passed into a container.
PUTTING_METHODS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "__setitem__"}
)
# Methods of containers: an object of the project may have its own, as registries do.
CONTAINER_METHODS = PUTTING_METHODS | frozenset(
    {"copy", "get", "items", "keys", "pop", "popitem", "popleft", "values", "__getitem__"}
)
_TENSOR_METHODS = """
    abs add_ all amax amin any argmax argmin argsort astype bfloat16 bmm bool byte ceil char chunk clamp clamp_
    clip clone contiguous copy_ cos cpu cross cuda cumprod cumsum data_ptr detach detach_ diagonal diff dim div div_
    double eq erf exp expand expand_as fill_ flatten flip float floor gather ge get_device gt half imag index_add_
    index_copy_ index_fill_ index_put_ index_select int is_contiguous is_floating_point isfinite isinf isnan item le log
    log2 logical_and logical_not logical_or long lt masked_fill masked_fill_ masked_scatter masked_select matmul max
    mean median min mm movedim mul mul_ multinomial narrow ndimension ne neg new_empty new_full new_ones new_tensor
    new_zeros nonzero norm normal_ numel numpy outer permute pin_memory polar pow prod ravel real reciprocal relu repeat
    repeat_interleave reshape resize_ roll rot90 round rsqrt scatter scatter_ scatter_add scatter_add_ select sigmoid
    sign sin size softmax sort split sqrt square squeeze squeeze_ std stride sub sub_ sum swapaxes t take tan tanh tile
    to tobytes tolist topk trace transpose tril triu trunc type type_as unbind unfold uniform_ unique unsqueeze
    unsqueeze_ var view view_as where zero_
"""
_OTHER_METHODS = """
    absolute addHandler as_posix close critical debug end endswith error exception exists expanduser findall finditer
    flush fullmatch getvalue glob group groupdict groups info isEnabledFor is_dir is_file iterdir joinpath log match
    mkdir open read read_bytes read_text readline readlines relative_to rename resolve rglob search seek setLevel span
    start stat sub tell touch unlink warn warning with_name with_suffix write write_bytes write_text most_common
    move_to_end
"""
# The methods of Python's own values, of tensors, arrays, paths, files, patterns and loggers: none makes a module.
PLAIN_METHODS = (
    (
        frozenset(name for kind in (str, bytes, int, float, list, dict, set) for name in dir(kind))
        | frozenset(_TENSOR_METHODS.split())
        | frozenset(_OTHER_METHODS.split())
    )
    - USES_OF_MODULES
    - CONTAINER_METHODS
    - {"__class__", "__init__", "__new__", catalogue.BACKWARD}
)

# Decorators that hand the function that they are passed to nobody, and put nothing that makes a module in its place.
PLAIN_DECORATORS = frozenset(
    [
        "abstractmethod",
        "cache",
        "cached_property",
        "classmethod",
        "contextmanager",
        "deleter",
        "getter",
        "inference_mode",
        "lru_cache",
        "no_grad",
        "overload",
        "override",
        "property",
        "setter",
        "staticmethod",
        "total_ordering",
        "wraps",
    ]
)
