"""The meaning of names in PyTorch and the libraries around it, as data.

Names are canonical dotted names: `canonical_name` maps the paths by which something can be imported to the shortest.
Entries are `fnmatch` patterns.
"""

from __future__ import annotations

import re
import sys
from enum import Enum
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from typing import NamedTuple

from instrumentor.emit import PROXY, RUNTIME_MODULE
from instrumentor.resolve.nature import Nature


class Holding(NamedTuple):
    """How an object of a library holds a model that the library makes for it.

    Attributes:
        attribute: the object's attribute that holds the model.
        argument: the first parameter, if it may be passed a model instead; otherwise empty.
        putting_off: the parameter that may postpone making the model; empty if there is none.
    """

    attribute: str
    argument: str = ""
    putting_off: str = ""


class Effect(Enum):
    """What a known function does with modules passed to it."""

    IDENTITY = "returns its argument"
    IDENTITY_TUPLE = "returns its arguments, as a tuple where there are several"
    PROXIES = "returns its argument, which is under a proxy from now on"
    REPLACES = "returns its argument with other parameters in it"
    WRAPS = "returns an object that holds its argument"
    WRAPS_EACH = "returns its arguments, the modules among them wrapped, as a tuple where there are several"
    WRAPS_FIRST = "returns a tuple whose first element wraps the argument"
    WRAPS_REPLACING = "returns an object that holds its argument and has new parameters"
    UNWRAPS = "returns what its argument holds"
    COPIES = "returns a module of its own, made from its argument"
    DERIVES = "returns another view of its argument's parameters"
    COLLECTS = "returns a container with its arguments' elements"
    READS = "looks at its argument and lets it go"
    BUILDS = "returns a partial application"


_MODULE_BASES = (
    "torch.nn.Module", "torch.jit.*ScriptModule", "torch.fx.*GraphModule", "torch.export.*UnflattenedModule",
    "torch.optim.swa_utils.AveragedModel", "torch.distributed.fsdp.*FullyShardedDataParallel",
    "torch.ao.quantization.*QuantWrapper", "torch.ao.nn.*.[A-Z]*", "lightning.LightningModule",
    "pytorch_lightning.LightningModule", "lightning.pytorch.LightningModule", "lightning_fabric.*Module",
    "transformers.*PreTrainedModel", "transformers.*Model", "transformers.*For[A-Z]*", "transformers.*Mixin",
    "diffusers.*Model", "diffusers.ModelMixin", "torchvision.models.*.[A-Z]*", "timm.models.*.[A-Z]*",
    "torch_geometric.nn.[A-Z]*", "torchaudio.models.[A-Z]*", "e3nn.nn.[A-Z]*", "deepxde.nn.[A-Z]*",
)  # fmt: skip

_MODULE_FACTORIES = (
    "torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained", "torchvision.models.*",
    "torchvision.models", "torchaudio.models.*", "torchaudio.pipelines.*.get_model", "timm.create_model",
    "timm.models.*", "torch.hub.load", "torch.nn.utils.skip_init", "torch.nn.utils.fusion.fuse_*_eval",
    "torch.nn.utils.fuse_*_eval", "transformers.*Model*.from_pretrained", "transformers.*Model*.from_config",
    "transformers.*Model*._from_config", "transformers.*For*.from_pretrained", "transformers.*For*.from_config",
    "transformers.*LMHead*.from_pretrained", "diffusers.*Model*.from_pretrained", "diffusers.*Model*.from_config",
    "diffusers.Autoencoder*.from_pretrained", "efficientnet_pytorch.EfficientNet.*", "pretrainedmodels.*",
    "segmentation_models_pytorch.[A-Z]*", "segmentation_models_pytorch.create_model", "open_clip.create_model",
    "sentence_transformers.SentenceTransformer", "monai.*networks.nets.[A-Z]*", "monai.*networks.nets.*.[A-Z]*",
    "torchtune.models.*", "torchrl.modules.[A-Z]*", "torch_geometric.nn.[A-Z]*",
)  # fmt: skip

# Names in `timm.models` besides the functions and classes that make models.
_TIMM_HELPERS = (
    "*Cfg", "*_", "*_cfgs", "*checkpoint", "*state_dict*", "FeatureInfo", "FeatureHooks", "adapt_input_conv",
    "checkpoint_seq", "drop_block_*", "drop_path", "filter_*", "get_*", "group_*", "is_*", "list_*",
    "load_model_config_*", "load_*pretrained", "make_divisible", "model_parameters", "named_modules*",
    "parse_model_name", "push_to_hf_hub", "register_*", "resolve_*", "safe_model_name", "save_for_hf", "set_*",
    "split_model_name_tag", "to_*tuple",
)  # fmt: skip
# Names that the patterns above match but that make no modules.
_NO_FACTORIES = (
    "diffusers.*EMAModel*",
    "transformers.*Arguments",
    "transformers.*Config*",
    "transformers.*DataCollator*",
    "transformers.*Dataset*",
    "transformers.*.TF[A-Z]*",
    "transformers.*FeatureExtractor*",
    "transformers.*Flax[A-Z]*",
    "transformers.*Tokenizer*",
    "transformers.TF[A-Z]*",
    "torchvision.models.*_Weights.*",
    "torchvision.models.get_weight",
    "torchvision.models.get_model_weights",
    "torchvision.models.list_models",
    "torchvision.models.*load_state_dict*",
    *(f"timm.models.{name}" for name in _TIMM_HELPERS),
    *(f"timm.models.*.{name}" for name in _TIMM_HELPERS),
)

# Names in torch.nn that make tensors for modules.
_TENSORS_OF_MODULES = frozenset({"Parameter", "UninitializedParameter", "Buffer", "UninitializedBuffer"})
# Names in torch.nn that make modules without parameters. All others have or may have some.
_PARAMETER_FREE_LAYERS = (
    "*Loss", "Identity", "Flatten", "Unflatten", "*Dropout*", "Dropout*", "ReLU*", "[CGS]ELU", "ELU", "LeakyReLU",
    "RReLU", "Hard*", "Softmax*", "Softmin", "LogSoftmax", "Softplus", "Softshrink", "Softsign", "LogSigmoid",
    "Sigmoid", "SiLU", "Mish", "GELU", "GLU", "Tanh", "Tanhshrink", "Threshold", "*Pool[123]d", "*Pad[123]d",
    "Upsample*", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle",
    "CosineSimilarity", "PairwiseDistance", "Fold", "Unfold", "LocalResponseNorm", "CrossMapLRN2d",
)  # fmt: skip

_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")

_PARAMETER_FREE = ("torchvision.transforms.*Normalize", "torchvision.transforms.v2.[A-Z]*", "kornia.losses.*")

# Environments and tools of reinforcement learning.
_ENVIRONMENTS = tuple(
    f"stable_baselines3.common.{name}.*"
    for name in ("atari_wrappers", "buffers", "callbacks", "env_util", "logger", "monitor", "vec_env")
)
_NOT_MODULES = (
    "torch.*",
    "torchvision.*",
    "torchaudio.*",
    "timm.*",
    "transformers.*",
    "datasets.*",
    "evaluate.*",
    "diffusers.*Scheduler*",
    "hydra.utils.get_original_cwd",
    "accelerate.Accelerator",
    "lightning.Trainer",
    "lightning.Fabric",
    "lightning*.Fabric.setup_dataloaders",
    "lightning*.Fabric.setup_optimizers",
    "pytorch_lightning.Trainer",
    *_ENVIRONMENTS,
)

# Functions whose result may be anything, but is usually no module. Its use decides.
_ANYTHING = frozenset({"torch.load", "pickle.load", "pickle.loads", "joblib.load", "builtins.eval", "functools.reduce"})
# Functions that return something passed earlier, also a function or class, or what a function of the script returned.
_HANDING_BACK = (
    "asyncio.*.get*", "asyncio.*.result", "collections.*.*", "concurrent.futures.*.*", "contextlib.*.enter_*",
    "contextvars.*.get", "heapq.heap*", "multiprocessing.*.get*", "multiprocessing.*.recv", "operator.*",
    "queue.*.get*", "random.choice*", "timm.models.*model_entrypoint", "timm.models.*named_apply",
)  # fmt: skip

# Packages that make no modules and need not be read.
_PLAIN_PACKAGES = frozenset(
    {
        "numpy", "pandas", "scipy", "sklearn", "matplotlib", "seaborn", "PIL", "cv2", "tqdm", "wandb", "tensorboardX",
        "tensorboard", "yaml", "omegaconf", "gym", "gymnasium", "baselines", "envpool", "pettingzoo", "procgen",
        "supersuit", "requests", "absl", "rich", "imageio", "skimage", "h5py", "pyarrow", "psutil", "attr", "attrs",
        "pydantic",
    }
)  # fmt: skip

# Functions that call their argument for each element of an iterable, or with its parts.
MAPPING = frozenset({"builtins.map", "itertools.starmap"})
# The name of a library, or of a file of the project, that is imported under a computed name.
ANY_LIBRARY = "importlib.*"
# Lookups by a string in these may give anything: `getattr(sys.modules[__name__], arch)`, `nn.*`.
_NAMED_AT_RUN_TIME = ("sys.modules", "importlib", "builtins", "torch.nn.")

_EFFECTS: tuple[tuple[str, Effect], ...] = (
    ("torch.nn.DataParallel", Effect.WRAPS),
    ("torch.nn.DistributedDataParallel", Effect.WRAPS),
    ("torch.compile", Effect.WRAPS),
    ("apex.parallel.DistributedDataParallel", Effect.WRAPS),
    ("peft.get_peft_model", Effect.WRAPS),
    ("peft.PeftModel*.from_pretrained", Effect.WRAPS),
    ("fairscale.nn.data_parallel.ShardedDataParallel", Effect.WRAPS),
    ("fairscale.nn.ShardedDataParallel", Effect.WRAPS),
    ("lightning*.Fabric.setup_module", Effect.WRAPS),
    ("lightning*.Fabric.setup", Effect.WRAPS_EACH),
    ("accelerate.Accelerator.prepare", Effect.WRAPS_EACH),
    ("accelerate.Accelerator.prepare_model", Effect.WRAPS),
    ("accelerate.Accelerator.unwrap_model", Effect.UNWRAPS),
    ("accelerate.utils.extract_model_from_parallel", Effect.UNWRAPS),
    ("deepspeed.initialize", Effect.WRAPS_FIRST),
    ("torch.distributed.fsdp.FullyShardedDataParallel", Effect.WRAPS_REPLACING),
    ("torch.distributed.fsdp.fully_shard", Effect.REPLACES),
    ("torch.distributed._composable.fsdp.fully_shard", Effect.REPLACES),
    ("torch.distributed.tensor.parallel.parallelize_module", Effect.REPLACES),
    ("torch.nn.SyncBatchNorm.convert_sync_batchnorm", Effect.IDENTITY),
    ("apex.parallel.convert_syncbn_model", Effect.IDENTITY),
    ("timm.*.convert_sync_batchnorm", Effect.IDENTITY),
    ("timm.*.convert_splitbn_model", Effect.IDENTITY),
    ("torch.nn.utils.spectral_norm", Effect.IDENTITY),
    ("torch.nn.utils.weight_norm", Effect.IDENTITY),
    ("torch.nn.utils.remove_*_norm", Effect.IDENTITY),
    ("torch.nn.utils.parametrizations.*", Effect.IDENTITY),
    ("torch.nn.utils.prune.*", Effect.IDENTITY),
    ("asyncio.run", Effect.IDENTITY),
    ("asyncio.Runner.run", Effect.IDENTITY),
    ("asyncio.*.run_until_complete", Effect.IDENTITY),
    ("apex.amp.initialize", Effect.IDENTITY_TUPLE),
    ("typing.cast", Effect.IDENTITY),
    (f"{RUNTIME_MODULE}.{PROXY}", Effect.PROXIES),
    ("copy.deepcopy", Effect.COPIES),
    ("copy.copy", Effect.COPIES),
    ("torch.optim.swa_utils.AveragedModel", Effect.COPIES),
    ("timm.utils.ModelEma*", Effect.COPIES),
    ("ema_pytorch.EMA", Effect.COPIES),
    ("torch.jit.load", Effect.COPIES),
    ("torch.jit.*", Effect.DERIVES),
    ("torch.fx.*", Effect.DERIVES),
    ("torch.export.*.module", Effect.COPIES),  # the module of an exported program, which has calls of its own
    ("torch.export.unflatten", Effect.COPIES),
    ("torch.export.*", Effect.DERIVES),
    ("torch.onnx.*", Effect.DERIVES),
    *(
        (f"torch.{package}.{name}", Effect.COPIES)
        for package in ("quantization", "ao.quantization")
        for name in ("*prepare*", "*convert*", "*fuse_*", "quantize", "quantize_dynamic", "quantize_qat")
    ),
    ("torch.quantization.*", Effect.DERIVES),
    ("torch.ao.quantization.*", Effect.DERIVES),
    ("torch.nn.init.*", Effect.READS),
    ("torch.save", Effect.READS),
    ("torch.func.stack_module_state", Effect.DERIVES),
    ("functools.partial", Effect.BUILDS),
    ("collections.OrderedDict", Effect.COLLECTS),
    ("collections.deque", Effect.COLLECTS),
    ("collections.ChainMap", Effect.COLLECTS),
    *((f"weakref.{name}", Effect.COLLECTS) for name in ("WeakValueDictionary", "WeakKeyDictionary", "WeakSet")),
    *((f"itertools.{name}", Effect.COLLECTS) for name in ("chain", "cycle", "islice", "zip_longest")),
    ("logging.*", Effect.READS),
    *((f"builtins.{name}", Effect.COLLECTS) for name in ("list", "tuple", "set", "dict", "frozenset", "sorted")),
    *((f"builtins.{name}", Effect.COLLECTS) for name in ("reversed", "filter", "zip", "enumerate", "iter")),
    *(
        (f"builtins.{name}", Effect.READS)
        for name in ("print", "len", "isinstance", "issubclass", "str", "repr", "type", "id", "hasattr", "callable")
    ),
    *((f"builtins.{name}", Effect.READS) for name in ("sum", "any", "all", "max", "min", "bool", "vars", "dir")),
)

_LAST_PARTS = frozenset(pattern.rpartition(".")[2] for pattern, _ in _EFFECTS)

# Words in the path of everything in torch itself that makes, holds or changes modules.
TORCH_WORDS = (
    "AveragedModel", "ScriptModule", "_composable", "ao", "compile", "export", "fsdp", "func", "fx", "hub", "jit",
    "nn", "onnx", "parallel", "quantization", "swa_utils",
)  # fmt: skip
# Packages about which this catalogue says more than their sources: they look up imported names in tables of their own,
# wrap their arguments in one of many ways, or make models for themselves.
CATALOGUED_PACKAGES = frozenset(
    {"accelerate", "diffusers", "fastai", "sb3_contrib", "stable_baselines3", "torch", "transformers", "trl"}
)

_PACKAGES_OF_MODULES = tuple(
    {
        pattern.partition(".")[0].rstrip("*")
        for pattern in (*_MODULE_BASES, *_MODULE_FACTORIES, *(name for name, _ in _EFFECTS))
    }
)

# Attributes of modules that are tensors, and attributes of tensors.
TENSOR_ATTRIBUTES = frozenset({"weight", "bias", "data", "grad", "requires_grad", "shape", "dtype", "device", "ndim"})
# Methods of tensors, most of which classes call on tensors that they hold.
TENSOR_METHODS = frozenset(
    {
        "abs", "add", "add_", "argmax", "argmin", "bfloat16", "bool", "chunk", "clamp", "clamp_", "clone",
        "contiguous", "copy_", "cpu", "cuda", "detach", "detach_", "dim", "div", "div_", "double", "exp",
        "expand", "expand_as", "fill_", "flatten", "float", "gather", "half", "index_select", "int", "item",
        "log", "long", "lt", "masked_fill", "matmul", "max", "mean", "min", "mm", "mul", "mul_", "ndimension",
        "new", "new_tensor", "norm", "numel", "numpy", "permute", "pow", "repeat", "requires_grad_",
        "reshape", "resize_", "scatter_", "size", "softmax", "split", "sqrt", "squeeze", "std", "sub", "sub_",
        "sum", "t", "to", "tolist", "transpose", "type", "type_as", "unsqueeze", "unsqueeze_", "var", "view",
        "view_as", "zero_",
    }
)  # fmt: skip
# Attributes of modules that are plain values: those of torch's modules, and names that projects use for settings.
PLAIN_ATTRIBUTES = frozenset(
    {
        "args", "batch_first", "bidirectional", "cfg", "config", "dilation", "embed_dim", "embedding_dim", "eps",
        "generation_config", "groups", "head_dim", "hidden_size", "hparams", "in_channels", "in_features", "input_size",
        "kernel_size", "momentum", "normalized_shape", "num_embeddings", "num_features", "num_heads", "num_layers",
        "out_channels", "out_features", "padding", "padding_idx", "stride", "training",
    }
)  # fmt: skip

# Methods of nn.Module that return the module itself.
IDENTITY_METHODS = frozenset(
    {
        "to", "cuda", "cpu", "xpu", "ipu", "mps", "half", "float", "double", "bfloat16", "type", "train", "eval",
        "requires_grad_", "apply", "share_memory", "to_empty",
    }
)  # fmt: skip
# Methods after which the module has other parameters.
REPLACING_METHODS = frozenset({"to_empty"})
# Methods that return one of the module's submodules.
SUBMODULE_METHODS = frozenset(
    {
        "get_submodule", "get_input_embeddings", "get_output_embeddings", "resize_token_embeddings", "get_encoder",
        "get_decoder",
    }
)  # fmt: skip
# Methods that iterate over a module's submodules, without and with their names.
ITERATING_METHODS = frozenset({"modules", "children"})
NAMING_METHODS = frozenset({"named_modules", "named_children"})
# Methods that make their arguments submodules of a module.
NAMED_ADOPTING_METHODS = frozenset({"add_module", "register_module"})  # these store attributes
ADOPTING_METHODS = NAMED_ADOPTING_METHODS | frozenset({"append", "extend", "insert", "update", "__setitem__"})
# Methods that read or change the module in place and return nothing trainable.
HARMLESS_METHODS = frozenset(
    {
        "load_state_dict", "state_dict", "named_parameters", "parameters", "buffers", "named_buffers", "zero_grad",
        "register_buffer", "register_parameter", "extra_repr", "get_parameter",
    }
)  # fmt: skip
# Attributes in which wrappers hold their content.
UNWRAPPING_ATTRIBUTES = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "base_model"})
# Uses that show by themselves that an object is a module.
MODULE_EVIDENCE = frozenset(
    {
        "parameters", "named_parameters", "named_modules", "named_children", "eval", "add_module",
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "get_submodule",
        "named_buffers", "configure_optimizers", "gradient_checkpointing_enable",
    }
)  # fmt: skip
# Uses that show it only together with a call of the object, or with each other.
WEAK_EVIDENCE = frozenset(
    {
        "train", "requires_grad_", "to", "cuda", "cpu", "half", "float", "double", "zero_grad", "state_dict",
        "load_state_dict", "apply",
    }
)  # fmt: skip
# What has a state and is also moved to a device is a module: optimizers are not moved, and tensors have no state.
STATE = frozenset({"state_dict", "load_state_dict"})
# A class that defines one of these methods is a module class.
MODULE_METHODS = frozenset({"forward", "training_step", "configure_optimizers"})
CALLED = "()"
WRAPPED = "a wrapper for modules"
DECLARED = "an annotation with a class of modules"
BACKWARD = "backward"
TRAINED = "a backward pass starts from what it gives"
AS_LOSS = "a backward pass starts from what it makes of outputs"
# Moving an object does not show that it is a module.
MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double"})

# Decorators that pass a function's source or bytecode to a compiler, which may not know the proxy.
_COMPILING_DECORATORS = ("torch.jit.*", "torch.compile", "torch.compiler.*", "torch._dynamo.*", "numba.*", "triton.*")
# Decorators whose functions are called only by their callers, with their arguments.
_TRANSPARENT_DECORATORS = (
    "torch.*", "functools.*", "contextlib.*", "typing.*", "abc.*", "builtins.staticmethod", "builtins.classmethod",
    "builtins.property", "*.no_grad", "*.inference_mode",
)  # fmt: skip
# Functions that only write their first argument to a file.
_SAVING = frozenset({"torch.save", "pickle.dump", "pickle.dumps", "cloudpickle.dump", "dill.dump", "joblib.dump"})
# Functions and classes that take a module as their first argument or as `model`.
_TAKING_MODULES = (
    "composer.Trainer",
    "fvcore.nn.FlopCountAnalysis",
    "ignite.engine.create_supervised_evaluator",
    "ignite.engine.create_supervised_trainer",
    *(
        f"{name}.Trainer.{method}"
        for name in ("lightning", "pytorch_lightning")
        for method in ("fit", "test", "validate")
    ),
    "ptflops.get_model_complexity_info",
    "sentence_transformers.*Trainer",
    "thop.profile",
    "torchinfo.summary",
    "torchsummary.summary",
    "transformers.*Trainer",
    "trl.*Trainer",
    "wandb.watch",
)
# Functions and classes that instantiate the classes passed to them: libraries that train, and fields.
_MAKING_OBJECTS = (
    "attr.field", "attr.ib", "attrs.field", "collections.defaultdict", "dataclasses.field", "jsonargparse.CLI",
    "jsonargparse.auto_cli", "lightning.LightningCLI", "pydantic.Field", "pytorch_lightning.*.LightningCLI",
    "sb3_contrib.*", "skorch.*", "stable_baselines3.*", "torchensemble.*", "transformers.*Trainer",
)  # fmt: skip
# Classes and functions whose objects hold a model of their own; `argument` may merely name the kind of model.
_HOLDING_MODELS = (
    ("trl.*Trainer", Holding("model", "model")),
    *(
        (f"{package}.{kind}{name}{ending}", Holding("policy", putting_off="_init_setup_model"))
        for package, names in (
            ("stable_baselines3", ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3")),
            ("sb3_contrib", ("ARS", "CrossQ", "MaskablePPO", "QRDQN", "RecurrentPPO", "TQC", "TRPO")),
        )
        for name in names
        for kind in ("", "*.")
        for ending in ("", ".load")
    ),
    *(
        (f"fastai.*.{kind}_learner", Holding("model"))
        for kind in ("cnn", "collab", "language_model", "tabular", "text_classifier", "unet", "vision")
    ),
)
_HOLDING_PACKAGES = tuple({f"{pattern.partition('.')[0]}." for pattern, _ in _HOLDING_MODELS})
# Contexts that bind their argument, and contexts that may end an exception.
_GIVING_CONTEXTS = frozenset({"contextlib.nullcontext", "contextlib.closing"})
_SUPPRESSING_CONTEXTS = ("contextlib.suppress", "contextlib.ExitStack", "contextlib.AsyncExitStack", "unittest.*")

_CANONICAL_PREFIXES = (
    ("torch.nn.parallel.distributed.", "torch.nn."),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.nn.parallel.", "torch.nn."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.nn.utils.parametrizations.", "torch.nn.utils.parametrizations."),
    ("torch.nn.modules.", "torch.nn."),
    ("torch.nn.parameter.", "torch.nn."),
    ("lightning.pytorch.", "lightning."),
    ("lightning.fabric.", "lightning."),
    ("pytorch_lightning.core.", "pytorch_lightning."),
    ("accelerate.accelerator.", "accelerate."),
    ("transformers.models.", "transformers."),
)


@lru_cache(maxsize=4096)
def canonical_name(name: str) -> str:
    """The shortest name of something of a library."""
    for prefix, short in _CANONICAL_PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :].split(".")
            # `modules.linear.Linear` is `Linear`, but `SyncBatchNorm.convert_sync_batchnorm` keeps both parts.
            first = next((i for i, part in enumerate(rest) if part[:1].isupper()), len(rest) - 1)
            return short + ".".join(rest[first:])
    return name


def is_complete(name: str) -> bool:
    """Whether this catalogue is complete for a package: torch, the standard library, packages without modules."""
    package = name.partition(".")[0]
    return package == "torch" or _is_plain(package)


def _is_plain(package: str) -> bool:
    return package in _PLAIN_PACKAGES or package in sys.stdlib_module_names


@lru_cache(maxsize=4096)
def effect_of(name: str) -> Effect | None:
    """What the function `name` does with modules passed to it; None if unknown."""
    name = canonical_name(name)
    return next((effect for pattern, effect in _EFFECTS if fnmatchcase(name, pattern)), None)


def is_method_with_effect(name: str) -> bool:
    """Whether some library object has a method `name` with a known effect on modules."""
    return name in _LAST_PARTS


@lru_cache(maxsize=4096)
def nature_of_call(name: str) -> Nature:
    """The nature of what calling the library's class or function `name` returns, regardless of its arguments."""
    name = canonical_name(name)
    if _is_layer(name):
        layer = name.removeprefix("torch.nn.")
        if layer in _TENSORS_OF_MODULES:
            return Nature.NOT_MODULE
        return Nature.NO_PARAMS if _matches(layer, _PARAMETER_FREE_LAYERS) else Nature.MODULE
    if _matches(name, _PARAMETER_FREE):
        return Nature.NO_PARAMS
    if _matches(name, _NO_FACTORIES):
        return Nature.NOT_MODULE
    if name in _ANYTHING or _matches(name, _HANDING_BACK):
        return Nature.UNKNOWN
    if _matches(name, _MODULE_FACTORIES):
        return Nature.MODULE
    if _matches(name, _MODULE_BASES):
        return Nature.MODULE
    if "*" in name and (name.startswith(_NAMED_AT_RUN_TIME) or (is_of_modules(name) and not name.startswith("torch."))):
        return Nature.UNKNOWN
    return Nature.NOT_MODULE if _is_plain(name.partition(".")[0]) or _matches(name, _NOT_MODULES) else Nature.UNKNOWN


@lru_cache(maxsize=4096)
def nature_of_base(name: str) -> Nature:
    """The nature of a class whose base is the library's class `name`."""
    name = canonical_name(name)
    if _is_layer(name):
        return nature_of_call(name)
    if name == "torch.nn.Module":
        return Nature.NO_PARAMS
    if _matches(name, _MODULE_BASES) or _matches(name, _MODULE_FACTORIES):
        return Nature.MODULE
    if is_complete(name) or _matches(name, ("torchvision.datasets.*", *_ENVIRONMENTS)):
        return Nature.NOT_MODULE
    return Nature.UNKNOWN


def is_of_modules(name: str) -> bool:
    """Whether this catalogue lists something in a name's package that makes, holds or changes modules."""
    return name.partition(".")[0].startswith(_PACKAGES_OF_MODULES)


@lru_cache(maxsize=4096)
def is_listed(name: str) -> bool:
    """Whether this catalogue has an entry for `name` or one of its methods, not merely for its package."""
    name = canonical_name(name)
    classes = (*_MODULE_BASES, *_MODULE_FACTORIES, *_NO_FACTORIES, *_TAKING_MODULES, *_MAKING_OBJECTS)
    effects = tuple(pattern for pattern, _ in _EFFECTS)
    return _matches(name, (*classes, *effects)) or any(each.startswith(f"{name}.") for each in (*classes, *effects))


def is_parameter(name: str) -> bool:
    """Whether `name` is a class of parameters."""
    return canonical_name(name) in {"torch.nn.Parameter", "torch.nn.UninitializedParameter"}


def is_container(name: str) -> bool:
    """Whether `name` is a torch.nn container, whose parameters are only those of its elements."""
    name = canonical_name(name)
    return name.startswith("torch.nn.") and name.removeprefix("torch.nn.") in _CONTAINERS


@lru_cache(maxsize=4096)
def is_compiling_decorator(name: str) -> bool:
    """Whether a compiler reads functions decorated with `name`."""
    return _matches(name, _COMPILING_DECORATORS)


@lru_cache(maxsize=4096)
def is_transparent_decorator(name: str) -> bool:
    """Whether functions decorated with `name` are called only by their callers, with their arguments."""
    return _matches(name, _TRANSPARENT_DECORATORS)


def is_saving(name: str) -> bool:
    """Whether a library function only writes its first argument to a file."""
    return name in _SAVING


@lru_cache(maxsize=4096)
def takes_module(name: str) -> bool:
    """Whether the first argument of a library's function or class `name`, or its `model`, is a module."""
    return _matches(canonical_name(name), _TAKING_MODULES)


@lru_cache(maxsize=4096)
def holding(name: str) -> Holding | None:
    """How the object that a library's `name` returns holds a model made for it; None if it is not known to do so."""
    if not name.startswith(_HOLDING_PACKAGES):
        return None
    return next((held for pattern, held in _HOLDING_MODELS if fnmatchcase(name, pattern)), None)


@lru_cache(maxsize=4096)
def makes_objects(name: str) -> bool:
    """Whether a library's function or class `name` is known to instantiate the classes passed to it."""
    return _matches(canonical_name(name), _MAKING_OBJECTS)


def is_giving_context(name: str) -> bool:
    """Whether a `with` block binds the argument of the context `name`."""
    return name in _GIVING_CONTEXTS


def never_suppresses(name: str) -> bool:
    """Whether exceptions always leave a `with` block of the context `name`."""
    package = name.partition(".")[0]
    is_known = package == "torch" or package in sys.stdlib_module_names
    return is_known and not _matches(name, _SUPPRESSING_CONTEXTS)


def _is_layer(name: str) -> bool:
    layer = name.removeprefix("torch.nn.")
    return layer != name and "." not in layer and layer.lstrip("_")[:1].isupper() and layer != "Module"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return _any_of(patterns).match(name) is not None


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One regular expression for several patterns. Matching them individually takes ten times as long."""
    return re.compile("|".join(map(translate, patterns)))
