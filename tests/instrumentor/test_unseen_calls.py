"""Functions that run where no call of them is seen: what they change is not taken for what was there before."""

from __future__ import annotations

import pytest
import torch

from tests.instrumentor.soundness import judge

HEAD = """\
import asyncio, collections, contextlib, copy, dataclasses, functools, itertools, json, operator, pickle, re
import sched, threading, warnings
import torch
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
class Holder:
    def __init__(self, net):
        self.net = net
holder, nets, kept = Holder(Net()), {"a": Net()}, Net()
def change(*_):
    global kept
    holder.net = Net()
    nets["a"] = Net()
    kept = Net()
    return 1
def generate():
    change()
    yield 1
def finish():
    try:
        yield 1
    finally:
        change()
@contextlib.contextmanager
def surround():
    yield
    change()
tensor, layer = torch.ones(1, requires_grad=True), nn.Linear(1, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
"""
BEFORE = """
holder.net = nets["a"] = kept = Net()
first, second, third = holder.net, nets["a"], kept
"""
AFTER = """
fourth, fifth, sixth = holder.net, nets["a"], kept
"""
# What is prepared, and when `change` runs.
CALLBACKS = {
    "a thread starts": ("thread = threading.Thread(target=change)", "thread.start(), thread.join()"),
    "a thread is run": ("thread = threading.Thread(target=change)", "thread.run()"),
    "a thread runs a partial application": (
        "thread = threading.Thread(target=functools.partial(change, 1))",
        "thread.start(), thread.join()",
    ),
    "a timer starts": ("timer = threading.Timer(0.0, change)", "timer.start(), timer.join()"),
    "an exit stack closes": ("stack = contextlib.ExitStack()\nstack.callback(change)", "stack.close()"),
    "an exit stack is left": ("stack = contextlib.ExitStack()\nstack.callback(change)", "with stack: pass"),
    "a context on an exit stack is left": ("", "with contextlib.ExitStack() as stack: stack.enter_context(surround())"),
    "an executor is given a function": ("pool = ThreadPoolExecutor(1)", "pool.submit(change).result()"),
    "an executor goes on": (
        "go_on = threading.Event()\nfuture = ThreadPoolExecutor(1).submit(lambda: go_on.wait() and change())",
        "go_on.set()\nfuture.result()",
    ),
    "an executor is left": ("", "with ThreadPoolExecutor(1) as pool: pool.submit(change)"),
    "a pool maps": ("", "with ThreadPool(1) as pool: pool.map(change, [1])"),
    "a future is done": ("future = Future()\nfuture.add_done_callback(change)", "future.set_result(1)"),
    "a scheduler runs": ("scheduler = sched.scheduler()\nscheduler.enter(0, 0, change)", "scheduler.run()"),
    "a library calls what was stored in it": (
        "warnings.simplefilter('always')\nwarnings.showwarning = change",
        "warnings.warn('changed')",
    ),
    "a list is sorted by a key": ("", "sorted([1, 2], key=change)"),
    "a list is sorted in place by a key": ("numbers = [1, 2]", "numbers.sort(key=change)"),
    "the greatest is found by a key": ("", "max([1, 2], key=change)"),
    "a partial application of a library's function is called": (
        "reduce = functools.partial(functools.reduce, change)",
        "reduce([1, 2])",
    ),
    "a pattern is replaced by a function": ("", "re.sub('a', lambda match: str(change()), 'a')"),
    "JSON asks for a default": ("", "json.dumps(object(), default=change)"),
    "a default is made": ("defaults = collections.defaultdict(change)", "defaults[0]"),
    "a function is called until it gives something": ("numbers = iter(change, 1)", "list(numbers)"),
    "what is filtered is gone over": ("numbers = filter(change, [1])", "list(numbers)"),
    "what is mapped is gone over": ("numbers = map(change, [1])", "list(numbers)"),
    "the next of what is mapped is asked for": ("numbers = map(change, [1])", "next(numbers)"),
    "a loop goes over what is mapped": ("numbers = map(change, [1])", "for _ in numbers: pass"),
    "what is mapped is unpacked": ("numbers = map(change, [1])", "number, = numbers"),
    "what is mapped is spread": ("numbers = map(change, [1])", "print(*numbers, end='')"),
    "something is looked for in what is mapped": ("numbers = map(change, [1])", "2 in numbers"),
    "what is mapped is added to a list": ("numbers, found = map(change, [1]), []", "found += numbers"),
    "what is mapped is stored into a slice": ("numbers, found = map(change, [1]), []", "found[:] = numbers"),
    "what is mapped is counted": ("numbers = enumerate(map(change, [1]))", "for _ in numbers: pass"),
    "what is grouped by a key is gone over": ("groups = itertools.groupby([1], change)", "list(groups)"),
    "what is taken on a condition is gone over": ("some = itertools.takewhile(change, [1])", "for _ in some: pass"),
    "a generator expression is gone over": ("numbers = (change() for _ in [1])", "list(numbers)"),
    "a generator expression is tested": ("numbers = (change() for _ in [1])", "any(numbers)"),
    "a generator goes on": ("numbers = generate()", "next(numbers)"),
    "a generator is sent something": ("numbers = generate()", "numbers.send(None)"),
    "a generator is unpacked": ("numbers = generate()", "number, = numbers"),
    "something is looked for in a generator": ("numbers = generate()", "1 in numbers"),
    "generators are chained": ("numbers = itertools.chain(generate())", "for _ in numbers: pass"),
    "generators are zipped": ("numbers = zip(generate())", "for _ in numbers: pass"),
    "a generator is closed": ("numbers = finish()\nnext(numbers)", "numbers.close()"),
    "a generator is deleted": ("numbers = finish()\nnext(numbers)", "del numbers"),
    "a generator is let go of": ("numbers = finish()\nnext(numbers)", "numbers = None"),
    "a context that a name holds is left": ("context = surround()", "with context: pass"),
    "a function is called in a context": ("@surround()\ndef call(): pass", "call()"),
    "a coroutine is run": ("async def wait(): change()", "asyncio.run(wait())"),
    "a coroutine that a name holds is run": ("async def wait(): change()\nwaiting = wait()", "asyncio.run(waiting)"),
    "a function is dispatched by type": (
        "@functools.singledispatch\ndef call(number): pass\n@call.register\ndef _(number: int): change()",
        "call(1)",
    ),
    "a text is executed": ("", "exec('change()')"),
    "a text is evaluated": ("", "eval('change()')"),
    "a function is looked up by its name": ("", "globals()['change']()"),
    "a module with a hook is called": (
        "layer.register_forward_pre_hook(lambda *_: change() and None)",
        "layer(tensor)",
    ),
    "a function is applied to a module": ("", "layer.apply(change)"),
    "a gradient is computed for a tensor with a hook": (
        "tensor.register_hook(lambda _: change() and None)\nloss = tensor.sum()",
        "loss.backward()",
    ),
    "an optimizer with a hook steps": ("optimizer.register_step_post_hook(change)", "optimizer.step()"),
    "an optimizer steps by a closure": ("", "optimizer.step(change)"),
    "a schedule steps": ("schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, change)", "schedule.step()"),
    "a loader collates": ("loader = DataLoader([1], collate_fn=change)", "for _ in loader: pass"),
    "a loader is asked for a batch": ("batches = iter(DataLoader([1], collate_fn=change))", "next(batches)"),
}
# The bases of a class, what is in its body, and when `change` runs, where `own` is an instance.
METHODS = {
    "an instance is indexed": ("", "def __getitem__(self, index): return change()", "own[0]"),
    "an instance's length is asked for": ("", "def __len__(self): return change()", "len(own)"),
    "an instance is tested": ("", "def __bool__(self): return bool(change())", "if own: pass"),
    "an instance is negated": ("", "def __bool__(self): return bool(change())", "not own"),
    "an instance is an operand of `and`": ("", "def __bool__(self): return bool(change())", "own and 1"),
    "an instance is what a loop tests": ("", "def __bool__(self): return not change()", "while own: pass"),
    "an instance is asserted": ("", "def __bool__(self): return bool(change())", "assert own"),
    "an instance is what an expression tests": (
        "",
        "def __bool__(self): return bool(change())",
        "one = 1 if own else 2",
    ),
    "a loop goes over an instance": ("", "def __iter__(self): return iter([change()])", "for _ in own: pass"),
    "an instance is spread": ("", "def __iter__(self): return iter([change()])", "numbers = [*own]"),
    "a comprehension goes over an instance": ("", "def __iter__(self): return iter([change()])", "[_ for _ in own]"),
    "an instance is unpacked": ("", "def __iter__(self): return iter([change()])", "number, = own"),
    "something is looked for in an instance": ("", "def __contains__(self, each): return change()", "1 in own"),
    "an instance is made a text": ("", "def __str__(self): return str(change())", "str(own)"),
    "an instance is put into a text": ("", "def __str__(self): return str(change())", "text = f'{own}'"),
    "an instance is formatted": ("", "def __str__(self): return str(change())", "text = '%s' % (own,)"),
    "something is added to an instance": ("", "def __add__(self, other): return change()", "own + 1"),
    "an instance is negated by an operator": ("", "def __neg__(self): return change()", "-own"),
    "something is added to an instance in place": ("", "def __iadd__(self, other): return change()", "own += 1"),
    "instances are sorted": ("", "def __lt__(self, other): return change()", "sorted([own, own])"),
    "an instance is a key": ("", "def __hash__(self): return change()", "{own: 1}"),
    "an instance is looked for in a list": ("", "def __eq__(self, other): return change()", "2 in [own]"),
    "an attribute is computed": ("", "def __getattr__(self, name): return change()", "own.number"),
    "an attribute is set": ("", "def __setattr__(self, name, number): change()", "own.number = 1"),
    "an attribute is deleted": ("", "def __delattr__(self, name): change()", "del own.number"),
    "an element is set": ("", "def __setitem__(self, index, number): change()", "own[0] = 1"),
    "an element is deleted": ("", "def __delitem__(self, index): change()", "del own[0]"),
    "an instance is called": ("", "def __call__(self): change()", "own()"),
    "an instance is deleted": ("", "def __del__(self): change()", "del own"),
    "a context is left": ("", "__enter__ = lambda self: 1\n    def __exit__(self, *_): change()", "with own: pass"),
    "an instance copies itself": ("", "def __deepcopy__(self, memo): return change()", "copy.deepcopy(own)"),
    "an instance is pickled": ("", "def __reduce__(self): return int, (change(),)", "pickle.dumps(own)"),
    "a method is called by an operator object": ("", "def go(self): change()", "operator.methodcaller('go')(own)"),
    "a method is looked up by a computed name": ("", "def go(self): change()", "getattr(own, 'g' + 'o')()"),
    "a thread runs a method": (
        "",
        "def go(self): change()",
        "thread = threading.Thread(target=own.go)\nthread.start(), thread.join()",
    ),
    "a property is read": ("", "@property\n    def number(self): return change()", "own.number"),
    "a property is asked for": ("", "@property\n    def number(self): return change()", "hasattr(own, 'number')"),
    "a cached property is read": (
        "",
        "@functools.cached_property\n    def number(self): return change()",
        "own.number",
    ),
    "a class is derived": ("", "def __init_subclass__(cls): change()", "class Derived(Own): pass"),
    "a thread of its own runs": ("threading.Thread", "def run(self): change()", "own.start(), own.join()"),
    "a data set is indexed": ("Dataset", "def __getitem__(self, index): return change()", "own[0]"),
    "a loader goes over a data set": (
        "Dataset",
        "def __getitem__(self, index): return change()\n    def __len__(self): return 1",
        "for _ in DataLoader(own): pass",
    ),
    "an optimizer steps": (
        "torch.optim.SGD",
        "def __init__(self): super().__init__(layer.parameters())\n    def step(self, closure=None): change()",
        "own.step()",
    ),
    "a function with gradients is applied": (
        "torch.autograd.Function",
        "@staticmethod\n    def forward(ctx, given): change(); return given.clone()",
        "Own.apply(tensor)",
    ),
    "a module is called": ("Net", "def forward(self, given): change(); return given", "own(tensor)"),
    "a module in another is called": (
        "Net",
        "def forward(self, given): change(); return given",
        "nn.Sequential(own)(tensor)",
    ),
    "a module in another is put into training": (
        "Net",
        "def train(self, mode=True): change(); return self",
        "nn.Sequential(own).train()",
    ),
    "a module copies itself": ("Net", "def __deepcopy__(self, memo): change(); return self", "copy.deepcopy(own)"),
    "a class with a metaclass is called": ("type", "def __call__(cls): return change()", 'Own("Made", (), {})()'),
}
_OWN = """
class Own({}):
    {}
own = Own({})
"""
PROGRAMS = {
    **CALLBACKS,
    **{
        name: (_OWN.format(base, body, '"Made", (), {}' if base == "type" else ""), happening)
        for name, (base, body, happening) in METHODS.items()
    },
}

BEFORE_NAMES, AFTER_NAMES = ("first", "second", "third"), ("fourth", "fifth", "sixth")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Have torch import what it imports late, before `judge` puts something else in the place of `random`."""
    layer = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1)).sum().backward()
    optimizer.step()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_runs_unseen_is_taken_into_account_when(name: str) -> None:
    prepared, happening = PROGRAMS[name]
    program = f"{HEAD}{prepared}\n{BEFORE}{happening}\n{AFTER}"

    names: dict[str, object] = {}
    exec(compile(program, "program.py", "exec"), names)
    assert all(names[before] is not names[after] for before, after in zip(BEFORE_NAMES, AFTER_NAMES, strict=True))
    assert judge(program, range(1)).violations == []
