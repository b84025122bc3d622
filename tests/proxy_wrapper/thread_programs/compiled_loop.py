"""A whole training loop is compiled, models made and proxied in it included.

Its argument says how the loop is written: "loop", in which Dynamo gives the frame up at a graph break, so that it runs
uncompiled what is not captured, or "unrolled", in which all of it is captured.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from tests.proxy_wrapper.thread_programs.tracing import LEVEL, counted, digest, start, tell, traced

made = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
start(made, torch.Generator().manual_seed(0))
made = traced(made, "made")
given = torch.optim.Adam(made.parameters())
weight = torch.ones(1, 8)
LOGDIR = os.environ["LOGDIR"]


def loop() -> Any:
    net: Any = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
    if LEVEL is not None:
        net = Proxy.Proxy(net, recurse=True, name="net", logdir=LOGDIR, log_level=LEVEL)
    with torch.no_grad():
        net[0].weight.copy_(weight)
        net[0].bias.zero_()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(4):
        for each, model in ((optimizer, net), (given, made)):
            each.zero_grad()
            model(torch.ones(2, 8)).sum().backward()
            each.step()
    return net


def unrolled() -> Any:
    net: Any = made
    if LEVEL is not None:
        net = Proxy.Proxy(made, recurse=True, name="made", logdir=LOGDIR, log_level=LEVEL)
    given.zero_grad()
    net(torch.ones(2, 8)).sum().backward()
    given.step()
    net = other
    if LEVEL is not None:
        net = Proxy.Proxy(other, recurse=True, name="other", logdir=LOGDIR, log_level=LEVEL)
    return net(net(torch.ones(2, 8)))


other = nn.Linear(8, 8)
start(other, torch.Generator().manual_seed(1))
if sys.argv[1] == "loop":
    kept: Any = torch.compile(loop, backend="eager")()  # What is freed in the meantime is not looked at in the end.
    print(digest(kept, made), counted())
else:
    compiled: Any = torch.compile(unrolled, backend="eager")
    for _ in range(3):
        print(compiled().sum().item(), digest(made), counted())
tell({})
