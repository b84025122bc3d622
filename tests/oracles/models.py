"""Models that nobody here has written: of torchvision and transformers, in small configurations, without weights."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
import torch

from tests.oracles import torchvision_models

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


class Given(NamedTuple):
    """What a model is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Model(NamedTuple):
    """A model, and inputs of a batch size for it."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], Given]
    training: bool = False


def _pictures(size: int) -> Callable[[int], Given]:
    return lambda batch: Given((torch.randn(batch, 3, size, size),), {})


def _of_torchvision(name: str, size: int = 64, *, training: bool = False, **settings: Any) -> Model:
    def make() -> nn.Module:
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision is not installed; the extra models has it")
        made: nn.Module = getattr(torchvision_models.load(), name)(weights=None, **settings)
        return made

    return Model(make, _pictures(size), training)


def _tokens(batch: int) -> torch.Tensor:
    return torch.randint(0, 50, (batch, 7))


_SMALL: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_WORDS: Final[dict[str, Any]] = {**_SMALL, "vocab_size": 50}


def _of_transformers(
    model: str, config: str, inputs: Callable[[int], Given], *, training: bool = False, **settings: Any
) -> Model:
    def make() -> nn.Module:
        if importlib.util.find_spec("torchvision") is not None:
            torchvision_models.load()  # transformers imports it where it is installed.
        transformers = pytest.importorskip(
            "transformers", reason="transformers is not installed; the extra models has it"
        )
        made: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**settings))
        return made

    return Model(make, inputs, training)


def _text(batch: int) -> Given:
    return Given((), {"input_ids": _tokens(batch)})


def _masked_text(batch: int) -> Given:
    return Given((_tokens(batch),), {"attention_mask": torch.ones(batch, 7, dtype=torch.long)})


def _two_texts(batch: int) -> Given:
    return Given((), {"input_ids": _tokens(batch), "decoder_input_ids": _tokens(batch)[:, :5]})


MODELS: Final[dict[str, Model]] = {
    "resnet18": _of_torchvision("resnet18"),
    "resnet18 in training": _of_torchvision("resnet18", training=True),
    "convnext_tiny": _of_torchvision("convnext_tiny"),
    "densenet121": _of_torchvision("densenet121"),
    "efficientnet_b0": _of_torchvision("efficientnet_b0"),
    "googlenet": _of_torchvision("googlenet", init_weights=False),
    "mobilenet_v3_small": _of_torchvision("mobilenet_v3_small"),
    "regnet_y_400mf": _of_torchvision("regnet_y_400mf"),
    "shufflenet_v2_x0_5 in training": _of_torchvision("shufflenet_v2_x0_5", training=True),
    "squeezenet1_0 in training": _of_torchvision("squeezenet1_0", training=True),
    "swin_t": _of_torchvision("swin_t"),
    "swin_v2_t": _of_torchvision("swin_v2_t"),
    "vit_b_16": _of_torchvision("vit_b_16", image_size=64),
    "gpt2": _of_transformers(
        "GPT2LMHeadModel", "GPT2Config", _text, n_embd=32, n_layer=2, n_head=4, n_positions=32, vocab_size=50,
        bos_token_id=1, eos_token_id=2,
    ),
    "gpt2 in training": _of_transformers(
        "GPT2LMHeadModel", "GPT2Config", _masked_text, training=True, n_embd=32, n_layer=2, n_head=4, n_positions=32,
        vocab_size=50, use_cache=False, bos_token_id=1, eos_token_id=2,
    ),
    "llama": _of_transformers("LlamaForCausalLM", "LlamaConfig", _text, num_key_value_heads=2, **_WORDS),
    "bert in training": _of_transformers("BertModel", "BertConfig", _text, training=True, **_WORDS),
    "vit of transformers": _of_transformers(
        "ViTModel", "ViTConfig", _pictures(32), image_size=32, patch_size=8, **_SMALL
    ),
    "t5": _of_transformers(
        "T5ForConditionalGeneration", "T5Config", _two_texts, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        vocab_size=50,
    ),
    "distilbert": _of_transformers(
        "DistilBertModel", "DistilBertConfig", _masked_text, dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=50
    ),
}  # fmt: skip
