"""Several models at once: adversaries, teachers, threads."""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.proxy_wrapper.truth.in_threads import run_in_threads
from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, FEATURES, Perceptron, batch, state_of
from tests.proxy_wrapper.truth.programs.optimizers import DataSGD, SwappingSGD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy_wrapper.truth.run import Run


def adversaries(*, penalized: bool) -> Callable[[Run], Any]:
    """A GAN; the penalty on the critic's gradient takes a second derivative."""

    def run(run: Run) -> Any:
        generator = run.model(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, FEATURES)), "generator")
        critic = run.model(nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1)), "critic")
        of_generator = run.optimizer(torch.optim.Adam(generator.parameters(), lr=0.01))
        of_critic = run.optimizer(torch.optim.Adam(critic.parameters(), lr=0.01))
        losses = []
        for _ in range(3):
            for _ in range(2):
                real, fake = batch()[0], generator(torch.randn(5, 2)).detach()
                of_critic.zero_grad()
                loss = critic(fake).mean() - critic(real).mean()
                if penalized:
                    mixed = torch.lerp(real, fake, torch.rand(5, 1)).requires_grad_()
                    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
                    loss = loss + 10 * (slope.norm(dim=1) - 1).square().mean()
                loss.backward()
                of_critic.step()
            of_generator.zero_grad()
            (-critic(generator(torch.randn(5, 2))).mean()).backward()
            of_generator.step()
            losses.append(loss.detach())
        return losses, state_of(generator, critic)

    return run


def distill(run: Run) -> Any:
    teacher, student = run.model(Perceptron(12), "teacher"), run.model(Perceptron(4), "student")
    teacher.eval().requires_grad_(False)
    optimizer = run.optimizer(torch.optim.SGD(student.parameters(), lr=0.1))
    for _ in range(3):
        x, _ = batch()
        with torch.no_grad():
            goal = teacher(x).softmax(1)
        optimizer.zero_grad()
        F.cross_entropy(student(x), goal).backward()
        optimizer.step()
    return state_of(teacher, student)


def one_optimizer_for_two(run: Run) -> Any:
    left, right = run.model(nn.Linear(FEATURES, 4), "left"), run.model(nn.Linear(FEATURES, 4), "right")
    optimizer = run.optimizer(torch.optim.AdamW([*left.parameters(), *right.parameters()], lr=0.01))
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        F.cosine_embedding_loss(left(x), right(x), (y > 0) * 2.0 - 1).backward()
        optimizer.step()
    return state_of(left, right)


def copy_in_the_middle(run: Run) -> Any:
    """A copy of a trained model is trained on; the copy alone goes on."""
    model = run.model(Perceptron(), "model")
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for number in range(4):
        if number == 2:
            model = run.model(copy.deepcopy(model), "copy")
            optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return state_of(model)


def accumulate_for_one(run: Run) -> Any:
    """One optimizer steps in each iteration, the other in each fourth, with the gradients of all four."""
    fast, slow = run.model(Perceptron(), "fast"), run.model(Perceptron(), "slow")
    each = run.optimizer(torch.optim.SGD(fast.parameters(), lr=0.1))
    fourth = run.optimizer(torch.optim.SGD(slow.parameters(), lr=0.1))
    for number in range(8):
        x, y = batch()
        each.zero_grad()
        F.cross_entropy(fast(x) + slow(x), y).backward()
        each.step()
        if number % 4 == 3:
            fourth.step()
            fourth.zero_grad()
    return state_of(fast, slow)


def made_one_after_another(run: Run) -> Any:
    """A sweep that makes a model and an optimizer for each rate."""
    kept = []
    for number, rate in enumerate((0.1, 0.01, 0.0)):
        model = run.model(Perceptron(), f"model{number}")
        optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=rate))
        for _ in range(2):
            x, y = batch()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        kept.append(model)
    return state_of(*kept)


def in_threads(make: Callable[[Any], torch.optim.Optimizer], *, made_inside: bool = False) -> Callable[[Run], Any]:
    """Models that are trained at once, each in a thread of its own, with numbers of its own."""

    def run(run: Run) -> Any:
        count = 4
        models: list[Perceptron] = []
        for number in range(count):
            torch.manual_seed(number)
            models.append(Perceptron())
        if not made_inside:
            for number, model in enumerate(models):
                run.model(model, f"model{number}")

        def work(number: int) -> None:
            model = models[number]
            if made_inside:
                run.model(model, f"model{number}")
            optimizer = run.optimizer(make(model.parameters()))
            generator = torch.Generator().manual_seed(number)
            for _ in range(25):
                x = torch.randn(5, FEATURES, generator=generator)
                y = torch.randint(0, CLASSES, (5,), generator=generator)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        run_in_threads([partial(work, number) for number in range(count)])
        return state_of(*models)

    return run


def actors_and_learner(run: Run) -> Any:
    """A thread that evaluates copies while the main one trains, in turns, so that each run is the same."""
    model, actor = run.model(Perceptron(), "model"), run.model(Perceptron(), "actor")
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    asked, answered, outputs = threading.Semaphore(0), threading.Semaphore(0), []
    x, y = batch()

    def act() -> None:
        for _ in range(3):
            asked.acquire()
            actor.load_state_dict(model.state_dict())
            with torch.no_grad():
                outputs.append(actor(x))
            answered.release()

    thread = threading.Thread(target=act)
    thread.start()
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        asked.release()
        answered.acquire()
    thread.join()
    return outputs, state_of(model, actor)


PROGRAMS = (
    TruthProgram("a GAN", adversaries(penalized=False)),
    TruthProgram("a GAN with a penalty on gradients", adversaries(penalized=True)),
    TruthProgram("distillation", distill),
    TruthProgram("one optimizer for two models", one_optimizer_for_two),
    TruthProgram("one optimizer that steps in each fourth iteration", accumulate_for_one),
    TruthProgram("a copy in the middle", copy_in_the_middle),
    TruthProgram("a sweep, one model after another", made_one_after_another),
    TruthProgram("threads that train at once", in_threads(torch.optim.Adam), in_order=False),
    TruthProgram(
        "threads that proxy and train at once", in_threads(torch.optim.Adam, made_inside=True), in_order=False
    ),
    TruthProgram("threads that swap tensors", in_threads(SwappingSGD), in_order=False),
    TruthProgram("threads that change .data", in_threads(DataSGD), in_order=False),
    TruthProgram("an actor in a thread", actors_and_learner),
)
