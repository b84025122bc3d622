from __future__ import annotations

import inspect
from pydoc import locate

import pytest
from torch import nn

from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.nature import Nature

LAYERS = sorted(name for name, held in vars(nn).items() if inspect.isclass(held) and issubclass(held, nn.Module))


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_of_torch_is_known_for_what_it_is(name: str) -> None:
    """What is said to have no parameters has none, by the source of its constructor and of those above it."""
    if name == "Module":
        return
    nature = catalogue.nature_of_call(f"torch.nn.{name}")
    made_of = "".join(
        inspect.getsource(each)
        for each in getattr(nn, name).__mro__
        if each.__module__.startswith("torch.nn.modules") and each is not nn.Module
    )
    has_parameters = "Parameter(" in made_of or "register_parameter" in made_of
    if nature is Nature.NO_PARAMS:
        assert not has_parameters
    else:
        assert nature is Nature.MODULE or (name in {"DataParallel"} and nature is not Nature.NOT_MODULE)


@pytest.mark.parametrize(
    "name",
    [
        "torch.fx.GraphModule",
        "torch.fx.graph_module.GraphModule",
        "torch.export.UnflattenedModule",
        "torch.jit.ScriptModule",
        "torch.jit.RecursiveScriptModule",
        "torch.optim.swa_utils.AveragedModel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.ao.quantization.QuantWrapper",
        "torch.ao.nn.qat.Linear",
    ],
)
def test_modules_of_torch_that_are_no_layers_are_known_as_annotations_and_bases(name: str) -> None:
    found = locate(name)
    assert isinstance(found, type)
    assert issubclass(found, nn.Module)
    assert catalogue.nature_of_base(name) is Nature.MODULE


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("torch.nn.modules.linear.Linear", Nature.MODULE),
        ("torch.nn.PReLU", Nature.MODULE),
        ("torch.nn.CrossEntropyLoss", Nature.NO_PARAMS),
        ("torch.nn.Parameter", Nature.NOT_MODULE),
        ("torch.nn.parameter.Parameter", Nature.NOT_MODULE),
        ("torch.nn.functional.relu", Nature.NOT_MODULE),
        ("torch.optim.SGD", Nature.NOT_MODULE),
        ("torch.load", Nature.UNKNOWN),
        ("pickle.load", Nature.UNKNOWN),
        ("builtins.eval", Nature.UNKNOWN),
        ("builtins.sorted", Nature.NOT_MODULE),
        ("attr.field", Nature.NOT_MODULE),
        ("pydantic.BaseModel", Nature.NOT_MODULE),
        ("torch.nn.utils.skip_init", Nature.MODULE),
        ("torch.nn.utils.fusion.fuse_conv_bn_eval", Nature.MODULE),
        ("torchvision.models.resnet18", Nature.MODULE),
        ("torchvision.models.ResNet18_Weights.DEFAULT.get_state_dict", Nature.NOT_MODULE),
        ("torchvision.models.list_models", Nature.NOT_MODULE),
        ("timm.models.registry.generate_default_cfgs", Nature.NOT_MODULE),
        ("timm.models.model_parameters", Nature.NOT_MODULE),
        ("timm.models.load_checkpoint", Nature.NOT_MODULE),
        ("timm.models.helpers.load_checkpoint", Nature.NOT_MODULE),
        ("timm.models.adapt_input_conv", Nature.NOT_MODULE),
        ("timm.models.safe_model_name", Nature.NOT_MODULE),
        ("timm.models.layers.trunc_normal_", Nature.NOT_MODULE),
        ("timm.models.layers.to_2tuple", Nature.NOT_MODULE),
        ("timm.models.model_entrypoint", Nature.UNKNOWN),
        ("timm.models.registry.model_entrypoint", Nature.UNKNOWN),
        ("timm.models.resnet18", Nature.MODULE),
        ("timm.models.vision_transformer.vit_base_patch16_224", Nature.MODULE),
        ("timm.models.create_model", Nature.MODULE),
        ("timm.models.build_model_with_cfg", Nature.MODULE),
        ("torchvision.transforms.Compose", Nature.NOT_MODULE),
        ("torchvision.transforms.Normalize", Nature.NO_PARAMS),
        ("transformers.AutoModelForCausalLM.from_pretrained", Nature.MODULE),
        ("transformers.AutoTokenizer.from_pretrained", Nature.NOT_MODULE),
        ("transformers.AutoConfig.from_pretrained", Nature.NOT_MODULE),
        ("transformers.DataCollatorForLanguageModeling", Nature.NOT_MODULE),
        ("transformers.TFAutoModelForTokenClassification.from_pretrained", Nature.NOT_MODULE),
        ("monai.networks.nets.resnet.ResNet", Nature.MODULE),
        ("monai.apps.reconstruction.networks.nets.varnet.VariationalNetworkModel", Nature.MODULE),
        ("timm.create_model", Nature.MODULE),
        ("timm.utils.accuracy", Nature.NOT_MODULE),
        ("argparse.ArgumentParser", Nature.NOT_MODULE),
        ("sys.modules.*.*", Nature.UNKNOWN),
        ("torch.optim.*", Nature.NOT_MODULE),
        ("somebody.Thing", Nature.UNKNOWN),
    ],
)
def test_calls_are_known(name: str, wanted: Nature) -> None:
    assert catalogue.nature_of_call(name) is wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("timm.models.convert_splitbn_model", Effect.IDENTITY),
        ("timm.layers.convert_sync_batchnorm", Effect.IDENTITY),
        ("torch.nn.parallel.DistributedDataParallel", Effect.WRAPS),
        ("torch.nn.parallel.distributed.DistributedDataParallel", Effect.WRAPS),
        ("torch.nn.DataParallel", Effect.WRAPS),
        ("torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel", Effect.WRAPS_REPLACING),
        ("torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm", Effect.IDENTITY),
        ("copy.deepcopy", Effect.COPIES),
        ("torch.jit.script", Effect.DERIVES),
        ("builtins.print", Effect.READS),
        ("somebody.function", None),
    ],
)
def test_effects_are_known(name: str, wanted: Effect | None) -> None:
    assert catalogue.effect_of(name) is wanted


def test_identity_methods_are_methods_of_modules() -> None:
    # `mps` is not one yet, but reads as its neighbours do.
    assert {name for name in catalogue.IDENTITY_METHODS if not hasattr(nn.Module, name)} <= {"mps"}


def test_methods_of_tensors_are_theirs() -> None:
    import torch

    assert all(callable(getattr(torch.Tensor, name)) for name in catalogue.TENSOR_METHODS)


@pytest.mark.parametrize(
    "name",
    [
        f"torch.nn.{cls.__name__}.{name}"
        for cls in vars(nn).values()
        if isinstance(cls, type) and issubclass(cls, nn.Module)
        for name, held in vars(cls).items()
        if isinstance(held, classmethod) and not name.startswith("_")
    ],
)
def test_class_methods_of_layers_make_or_return_modules(name: str) -> None:
    effect = catalogue.effect_of(name)
    assert effect is Effect.IDENTITY or catalogue.nature_of_call(name) is Nature.MODULE
