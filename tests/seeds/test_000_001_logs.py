"""What the logs in the first two descriptions say, the log of the MNIST example says in the same words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.seeds.blocks import NUMBER, SETTING, VALUES, count_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    Log = Callable[[str], list[str]]

TREE = [
    r"found the root object",
    r"logger_proxy: Proxying all submodules of 'Net'",
    r"logger_proxy: Proxying submodule 'conv1'",
]
"""Of 000, the second version of its log."""

TRACE = [
    r"INFO:root:Accessing attribute 'grad'",
    r"INFO:root:Accessing attribute 'is_sparse'",
    r"INFO:root:Accessing attribute 'mul_'",
    r"INFO:root:Object 'Tensor' is already proxied",
    r"INFO:root:Object 'Parameter' is already proxied",
    r"INFO:root:Object 'builtin_function_or_method' is already proxied",
    SETTING,
    rf"INFO:root:Minimum value: ({NUMBER})",
    rf"INFO:root:Maximum value: ({NUMBER})",
    r"INFO:root:Go to __torch_function__ for function 'is_complex'",
    r"INFO:root:Go to __call__ for object 'builtin_function_or_method'",
    r"INFO:root:Go to __init__ for object 'Tensor'",
    r"INFO:root:Go to __init__ for object 'Parameter'",
    r"INFO:root:Go to __init__ for object 'builtin_function_or_method'",
    r"INFO:root:Setting attribute 'grad' to 'None'",
]
"""Of both, in the log of instrumented_mnist.py and of instrumented_84911.py."""


@pytest.mark.parametrize("line", [*TREE, *TRACE])
def test_each_line_of_the_vocabulary_appears(line: str, mnist_log: Log) -> None:
    assert any(re.fullmatch(line, each) for each in mnist_log("Adadelta"))


def test_a_read_of_a_gradient_is_followed_by_its_values(mnist_log: Log) -> None:
    block = [r"INFO:root:Accessing attribute 'grad'", r"INFO:root:Object 'Tensor' is already proxied", *VALUES]
    assert count_blocks(mnist_log("Adadelta"), block) >= 3 * 8


@pytest.mark.parametrize(("optimizer", "method"), [("Adadelta", "mul_"), ("Adam", "mul_")])
def test_a_change_of_the_optimizer_s_average_is_followed_by_its_values(
    optimizer: str, method: str, mnist_log: Log
) -> None:
    block = [
        rf"INFO:root:Accessing attribute '{method}'",
        r"INFO:root:Object 'builtin_function_or_method' is already proxied",
        r"INFO:root:Go to __call__ for object 'builtin_function_or_method'",
        r"INFO:root:Object 'Tensor' is already proxied",
        *VALUES,
    ]
    lines = mnist_log(optimizer)
    assert count_blocks(lines, block) >= 2 * 8  # All but the first step's, for each parameter.
    average = [*block[:4], re.escape(SIZE), *VALUES[1:]]
    assert count_blocks(lines, average) >= 2


SIZE = "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([32, 1, 3, 3])'"
"""Of the average in the excerpt: that of the first convolution's weight."""


def test_the_second_script_s_optimizer_divides_in_place(mnist_log: Log) -> None:
    block = [
        r"INFO:root:Accessing attribute 'addcdiv_'",
        r"INFO:root:Object 'builtin_function_or_method' is already proxied",
        r"INFO:root:Go to __call__ for object 'builtin_function_or_method'",
        r"INFO:root:Object 'Parameter' is already proxied",
        *VALUES,
    ]
    assert count_blocks(mnist_log("Adam"), block) >= 2 * 8
