"""Programs whose output tells how they were started: `instrument run` must make no difference."""

from __future__ import annotations

PLAIN: dict[str, str] = {
    "names and arguments": """
        import sys

        print(sys.argv, __name__, __file__, __doc__, __package__, __cached__, sorted(globals()))
        print(__spec__ and (__spec__.name, __spec__.origin), type(__loader__).__name__, hasattr(__loader__, "path"))
        print(sys.path[0], sys.orig_argv[1:], sys._xoptions)
        print(sys.modules["__main__"].__dict__ is globals(), sys.flags, sys.stdout.line_buffering)
        """,
    "a docstring and a future import": '''
        """What this is."""
        from __future__ import annotations

        def f(x: nothing) -> None: ...

        print(__doc__, f.__annotations__, annotations)
        ''',
    "an exception with its chain": """
        import torch.nn as nn


        def fail():
            try:
                {}["key"]
            except KeyError as error:
                raise RuntimeError("no such model") from error


        model = nn.Linear(2, 2)
        fail()
        """,
    "sys.exit with a number": "import sys; print('out'); sys.exit(7)",
    "sys.exit with a text": "import sys; sys.exit('too bad')",
    "sys.exit within atexit": "import atexit, sys; atexit.register(lambda: print('last words')); sys.exit(3)",
    "os._exit": "import os, sys; print('out', flush=True); os._exit(9)",
    "killed": "import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "a signal handler": """
        import os, signal

        signal.signal(signal.SIGUSR1, lambda number, frame: print(number, frame.f_lineno, frame.f_code.co_filename))
        os.kill(os.getpid(), signal.SIGUSR1)
        print("on")
        """,
    "the stack": """
        import inspect, sys, traceback, warnings

        traceback.print_stack()
        print([(frame.filename, frame.lineno, frame.function) for frame in inspect.stack()], sys._getframe().f_back)
        warnings.warn("here")
        warnings.warn("above", stacklevel=2)


        def deep(n=0):
            try:
                return deep(n + 1)
            except RecursionError:
                return n


        print(deep())
        """,
    "its own source": """
        import inspect


        class Net:
            def forward(self, x):
                return x


        print(open(__file__).read(), inspect.getsource(Net), inspect.getsourcelines(Net.forward))
        """,
    "another folder": """
        import os, sys

        os.chdir("/")
        sys.path[:] = [each for each in sys.path if "site-packages" not in each]
        print(os.getcwd(), __file__, sys.argv)
        1 / 0
        """,
    "standard input": "import sys; print(sys.stdin.read(), sys.stdin.fileno(), input)",
    "open files": """
        import os

        print(sorted(os.listdir("/proc/self/fd"))[:-1])
        """,
    "itself imported": """
        import sys

        print(__name__)
        if __name__ == "__main__":
            import program

            print(program.__file__, program.__cached__ is not None, program is sys.modules["__main__"])
        """,
    "itself executed anew": """
        import os, sys

        if len(sys.argv) < 4:
            sys.stdout.flush()
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        print(sys.argv, __file__)
        """,
    "itself as a child process": """
        import subprocess, sys

        if "child" not in sys.argv:
            done = subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True)
            print(done.stdout, done.stderr, done.returncode)
        else:
            print(sys.argv, __file__)
            sys.exit(4)
        """,
    "another script executed": """
        import runpy

        with open("other.py", "w") as file:
            file.write("print(__name__, __file__, value)")
        exec(compile(open("other.py").read(), "other.py", "exec"), {"__name__": "o", "__file__": "f", "value": 1})
        runpy.run_path("other.py", {"value": 2}, "named")
        """,
    "pickled objects of its own": """
        import copy, pickle


        class Settings:
            def __init__(self, rate):
                self.rate = rate


        data = pickle.dumps(Settings(0.1))
        print(data, pickle.loads(data).rate, Settings.__module__)
        """,
    "forks": """
        import os, sys

        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            sys.exit(5)
        print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
    "a syntax error": "def f(:\n    pass",
    "a warning of the compiler": "x = 1\nprint(x is 1)",
    "an encoding declared": "# -*- coding: latin-1 -*-\nprint('caf\\xe9')",
    "nothing at all": "",
    "threads at the end": """
        import threading, time

        threading.Thread(target=lambda: (time.sleep(0.2), print("late"))).start()
        print("main")
        """,
    "an excepthook": """
        import sys

        sys.excepthook = lambda kind, value, at: print(value, at.tb_lineno, at.tb_frame.f_code.co_name, at.tb_next)
        {}[1]
        """,
    "the environment": "import os; print(sorted(os.environ), os.getpgid(0) == os.getpgid(os.getppid()))",
}
"""Programs that load no torch, by what they are about."""

_NET = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(F.dropout(self.norm(self.first(x)).relu(), 0.3, self.training))


def train(seed, steps=6, fail=False):
    torch.manual_seed(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(16, 4)
        loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fail and step == 3:
            model(torch.randn(3, 5))
        print(step, loss.item())
    return model
"""

TRAINING: dict[str, str] = {
    "a script": _NET
    + """
if __name__ == "__main__":
    model = train(1)
    torch.save(model.state_dict(), "weights.pt")
    torch.save(model, "model.pt")
    print(type(torch.load("model.pt", weights_only=False)), torch.get_rng_state().sum())
""",
    "an error in a model": _NET + "\ntrain(2, fail=True)\n",
    "another folder": _NET
    + """
import os, sys
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
sys.path[:] = [each for each in sys.path if not each.endswith("project")]
torch.save(train(3).state_dict(), "../weights.pt")
print(os.getcwd())
""",
    "itself imported": _NET
    + """
if __name__ == "__main__":
    import program
    model = program.train(4)
    print(type(model), isinstance(model, Net), isinstance(model, program.Net))
    torch.save(model.state_dict(), "weights.pt")
""",
    **{
        f"processes by {method}": _NET
        + f"""
import multiprocessing


def work(seed, queue):
    model = train(seed, steps=3)
    queue.put({{name: value.tolist() for name, value in model.state_dict().items()}})


if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    process = context.Process(target=work, args=(5, queue))
    process.start()
    state = queue.get()
    process.join()
    print(process.exitcode, state["last.bias"])
    torch.save({{name: torch.tensor(value) for name, value in state.items()}}, "weights.pt")
"""
        for method in ("spawn", "fork", "forkserver")
    },
    "itself as a child process": _NET
    + """
import subprocess, sys

if "child" in sys.argv:
    torch.save(train(6).state_dict(), "weights.pt")
else:
    done = subprocess.run([sys.executable, "-u", sys.argv[0], "child"], capture_output=True, text=True)
    print(done.stdout, done.stderr, done.returncode, done.args[1:])
""",
    "itself executed anew": _NET
    + """
import os, sys

if "again" in sys.argv:
    torch.save(train(7).state_dict(), "weights.pt")
else:
    os.execv(sys.executable, [sys.executable] + sys.argv + ["again"])
""",
    "compiled by a library that reads sources": _NET
    + """
import inspect

scripted = torch.jit.script(Net())
print(inspect.getsource(train)[:30], scripted.code)
model = train(8)
torch.save(model.state_dict(), "weights.pt")
""",
    "ended by os._exit": _NET
    + """
import os
torch.save(train(9).state_dict(), "weights.pt")
import sys
sys.stdout.flush()
os._exit(3)
""",
}
"""Programs that train, by what they are about; what they train they save as `weights.pt`."""
