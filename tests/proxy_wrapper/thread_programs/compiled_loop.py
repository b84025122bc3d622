"""A whole training loop is compiled, models made and proxied in it included.

Its argument says how the loop is written: "loop", in which Dynamo gives the frame up at a graph break, so that it runs
uncompiled what is not captured, or "unrolled", in which all of it is captured.
"""

from __future__ import annotations

import os
import sys

import torch
from torch import nn
from tracing import LEVEL, counted, digest, start, tell, traced

import proxy_wrapper.proxy as Proxy

made = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
start(made, torch.Generator().manual_seed(0))
made = traced(made, "made")  # type: ignore[assignment]
given = torch.optim.Adam(made.parameters())
weight = torch.ones(1, 8)
LOGDIR = os.environ["LOGDIR"]


def loop() -> nn.Module:
    net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
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


def unrolled() -> nn.Module:
    if LEVEL is not None:
        net = Proxy.Proxy(made, recurse=True, name="made", logdir=LOGDIR, log_level=LEVEL)
    else:
        net = made
    given.zero_grad()
    net(torch.ones(2, 8)).sum().backward()
    given.step()
    if LEVEL is not None:
        net = Proxy.Proxy(other, recurse=True, name="other", logdir=LOGDIR, log_level=LEVEL)
    else:
        net = other
    return net(net(torch.ones(2, 8)))  # type: ignore[no-any-return]


other = nn.Linear(8, 8)
start(other, torch.Generator().manual_seed(1))
if sys.argv[1] == "loop":
    print(digest(torch.compile(loop, backend="eager")(), made), counted())
else:
    compiled = torch.compile(unrolled, backend="eager")
    for _ in range(3):
        print(compiled().sum().item(), digest(made), counted())
tell({})
