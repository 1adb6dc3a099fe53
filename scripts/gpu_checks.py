"""The checks of ``scripts/check-gpu``: each has a device, returns its figures, and raises if something is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCKING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")
LATE_ERROR = (
    "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API "
    "call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)


class Skipped(Exception):
    """A check that can't be made here, with the reason."""


def need(is_true: bool, *facts: object) -> None:
    """Fail with these facts unless the condition is true."""
    if not is_true:
        raise AssertionError(" ".join(map(str, facts)))


# ------------------------------------------------------------------------------------------- a training, and its watch


def small(device, **options):
    """Return the training of a small GPT."""
    import torch

    from benchmarks.numbers_loop import Training

    # The backward passes of these kernels are not deterministic in each release.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    return Training(128, 2, 500, device=device, **options)


class Watched:
    """A watch without a broker: it keeps what would have stopped the rank, and the errors of its hooks."""

    def __init__(self, **question):
        from benchmarks.numbers_loop import lone_watch
        from dbg_wire.records.numbers import NumbersQuestion

        self.errors = []
        self.watch = lone_watch(self.errors.append)
        self._question, self._nothing = NumbersQuestion(**(question or {"nan": True})), NumbersQuestion()
        self.start()

    def start(self):
        self.watch.start(self._question)

    @property
    def wrong(self):
        from dbg_wire.records.numbers import wrong_in

        return wrong_in(self.watch.answer(self._nothing))

    def end(self):
        """End the watch; fail if one of its hooks has raised, or if it has checked nothing. Return the count."""
        checked = self.watch.answer(self._nothing)[0].checked
        self.watch.end()
        need(not self.errors, *self.errors)
        need(checked > 0, "the watch has seen no tensor")
        return checked


def no_waits(device, **question):
    """Train without and with the watch: no operation may wait for the device, and the watch must add no such call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    is_cuda, calls, training = device == "cuda", {}, small(device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    for name in ("without", "with"):
        watched = Watched(**question) if name == "with" else None
        for _ in range(3):
            training.step()
        torch.cuda.set_sync_debug_mode("error") if is_cuda else None
        try:
            for _ in range(30):
                training.step()
        finally:
            torch.cuda.set_sync_debug_mode("default") if is_cuda else None
        with profile(activities=activities) as profiler:
            for _ in range(10):
                training.step()
        counts = {event.key: event.count for event in profiler.key_averages()}
        calls[name] = sum(counts.get(one, 0) for one in BLOCKING), counts.get("cudaLaunchKernel", 0) // 10
        if watched is not None:
            need(watched.wrong is None, watched.wrong)
            checked = watched.end() // 43  # steps: 3, 30 and 10
    (waits, launches), (more_waits, more_launches) = calls["without"], calls["with"]
    need(more_waits <= waits, f"blocking calls in 10 steps: {waits} without, {more_waits} with the watch")
    measured = f"blocking calls {waits} and {more_waits}, kernels per step {launches} and {more_launches}"
    return f"30 steps, {checked} tensors per step; {measured if launches else 'the profiler counted no CUDA call'}"


def cheap_watch(device):
    return no_waits(device)


def recording(device):
    """Record all numbers in a file, without a wait for the device."""
    with tempfile.TemporaryDirectory() as folder:
        figures = no_waits(device, record=folder)
        size = sum(one.stat().st_size for one in Path(folder).iterdir())
        need(size > 0, "nothing is recorded")
        return f"{figures}; {size / 1e3:.0f} kB"


def replicas(device):
    """Make digests of gradients and parameters, as for a job of two ranks, without a wait for the device."""
    from benchmarks.numbers_loop import join_fake_group

    join_fake_group()
    return no_waits(device, different=True)


def first_nan(device):
    """Put a NaN into a weight, and into the loss; the watch must name the module and the step."""
    figures = []
    for exact in (False, True):
        for kind in ("weight", "backward"):
            training, watched = small(device), Watched(nan=True, exact=exact)
            found_in = None
            for step in range(1, 9):
                if kind == "weight" and step == 4:
                    training.spoil()
                training.step(float("nan") if kind == "backward" and step == 4 else 1.0).item()
                if watched.wrong is not None:
                    found_in = step
                    break
            wrong = watched.wrong
            need(wrong is not None, exact, kind, "nothing found", *watched.errors)
            suspect, name = ("output", "2.linear2") if kind == "weight" else ("output gradient", "4")
            need((wrong.step, wrong.suspect.value, wrong.name) == (4, suspect, name), exact, kind, wrong)
            # The first step after the wrong one may end before the flags have arrived.
            need(found_in <= (4 if exact or device == "cpu" else 5), "found only in step", found_in)
            if exact and kind == "weight":
                need(wrong.origin.value == "weight" and wrong.weight == "weight", wrong)
            figures.append(f"{kind}{' exact' if exact else ''} +{found_in - 4}")
            watched.end()
    return f"steps until it was found: {', '.join(figures)}"


def cost(device):
    """Alternate steps with and without the watch; compare the shortest ones. No limit is promised for a GPU."""
    import torch

    from benchmarks.numbers_loop import Training

    figures = []
    sizes = ((384, 5, 2000), (768, 12, 10_000)) if device == "cuda" else ((128, 2, 500),)
    for width, layers, words in sizes:
        training = Training(width, layers, words, device=device)
        parameters = sum(one.numel() for one in training.model.parameters())
        watched, shortest = Watched(), {True: 1e9, False: 1e9}
        for turn in range(20):
            is_on = bool(turn % 2)
            watched.start() if is_on else watched.watch.end()
            for _ in range(5):
                torch.cuda.synchronize() if device == "cuda" else None
                began = time.perf_counter()
                training.step()
                torch.cuda.synchronize() if device == "cuda" else None
                shortest[is_on] = min(shortest[is_on], time.perf_counter() - began)
        watched.end()
        off, on = shortest[False] * 1e3, shortest[True] * 1e3
        figures.append(f"{parameters / 1e6:.1f} M: {off:.2f} ms, watched {on:.2f} ms ({100 * (on / off - 1):+.1f} %)")
    return "; ".join(figures)


def equal_losses(device):
    """Losses with dropout must be equal, bit by bit, with and without the watch."""
    import torch

    torch.use_deterministic_algorithms(True)
    losses = []
    for mode in ("without", "without", "cheap", "exact"):
        watched = Watched(nan=True, exact=mode == "exact") if mode != "without" else None
        training = small(device, dropout=0.1)
        losses.append([training.step().item() for _ in range(20)])
        if watched is not None:
            watched.end()
    need(losses[0] == losses[1], "this training is not deterministic, so nothing can be compared")
    need(losses[0] == losses[2] == losses[3], "the losses differ:", losses[0][-1], losses[2][-1], losses[3][-1])
    return f"20 losses, the last one is {losses[0][-1]!r}"


def cuda_graph(device):
    """Capture and replay a whole step while the watch is on."""
    import torch

    if device == "cpu":
        raise Skipped("needs CUDA")
    training, watched = small(device, capturable=True), Watched()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            training.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = training.step()
    losses = []
    for _ in range(5):
        graph.replay()
        losses.append(loss.item())
    need(losses == sorted(losses, reverse=True) and losses[0] > losses[-1], "the replayed losses don't fall:", losses)
    need(watched.wrong is None, watched.wrong)
    watched.end()
    return f"captured a step with backward and AdamW; losses {losses[0]:.3f} to {losses[-1]:.3f}"


def scaler(device):
    """Train in float16 with a scale that overflows: the scaler skips steps, and this must stop nothing."""
    import torch

    figures = []
    for fused in (False, True):
        for exact in (False, True):
            training, watched = small(device, fused=fused), Watched(nan=True, exact=exact)
            scaling, skipped = torch.amp.GradScaler(device, init_scale=2.0**28), 0
            for _ in range(20):
                with torch.autocast(device, dtype=torch.float16):
                    loss = training.loss()
                scaling.scale(loss).backward()
                before = scaling.get_scale()
                scaling.step(training.optimizer)
                scaling.update()
                training.optimizer.zero_grad()
                skipped += scaling.get_scale() < before
                need(watched.wrong is None, "fused" if fused else "", "exact" if exact else "cheap", watched.wrong)
            need(skipped > 0, "the scaler has skipped no step, so nothing was tested")
            watched.end()
            figures.append(str(skipped))
    return f"skipped steps that stopped nothing: {', '.join(figures)}"


def compiled(device):
    """Compile the model: the watch must break no graph, and find a NaN in the outputs of the region."""
    import torch

    if device == "cuda" and importlib.util.find_spec("triton") is None:
        raise Skipped("triton is missing")
    from torch._dynamo.utils import counters

    training, watched = small(device), Watched()
    training.call = torch.compile(training.model)
    try:
        training.step()
    except Exception as error:
        if "compiler" in str(error).lower():
            raise Skipped(f"torch.compile has no compiler: {str(error).splitlines()[0]}") from error
        raise
    need(not counters["graph_break"], dict(counters["graph_break"]))
    for step in range(2, 8):
        if step == 4:
            training.spoil()
        training.step().item()
    wrong = watched.wrong
    need(wrong is not None and wrong.step == 4 and wrong.suspect.value == "output", wrong, *watched.errors)
    watched.end()
    return f"{counters['stats'].get('unique_graphs', 0)} graphs, no break; found: {wrong.text}"


# --------------------------------------------------------------------------------------------- ranks of a real broker


class Job:
    """A broker of its own, and ranks that run a script; all end with the context."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.home = Path(self._folder.name)
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
        self._environ |= {"DBG_HOME": str(self.home), "DBG_LEASE": "600"}
        self._children = []

    def __enter__(self):
        self._start("dbg_broker", "serve", "--listen", "127.0.0.1:0")
        for _ in range(300):
            if (self.home / "broker.json").exists():
                return self
            time.sleep(0.1)
        raise AssertionError(f"the broker has not started: {self.output()}")

    def __exit__(self, *_):
        for child in self._children:
            child.kill()
            child.wait()
        self._folder.cleanup()

    def _start(self, *words):
        with (self.home / f"log{len(self._children)}").open("wb") as log:
            command = [sys.executable, "-m", *words]
            self._children.append(subprocess.Popen(command, env=self._environ, stdout=log, stderr=subprocess.STDOUT))

    def rank(self, script, *options):
        """Start a rank with this script, whose lines are numbered from 1."""
        (self.home / "train.py").write_text(script)
        self._start("dbg_agent", *options, str(self.home / "train.py"))

    def output(self):
        return " | ".join(log.read_text().strip()[-600:] for log in sorted(self.home.glob("log*")))

    def ask(self, *words):
        """Return the standard output of dbg-attach."""
        command = [sys.executable, "-m", "dbg_client", *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def until(self, test, *words, seconds=60):
        """Ask until the answer passes the test, and return it."""
        end = time.monotonic() + seconds
        while not test(answer := self.ask(*words)):
            need(time.monotonic() < end, words, "answers", answer.strip() or "nothing", "; output:", self.output())
            time.sleep(0.5)
        return answer


def evaluated(device):
    """Evaluate expressions with tensors of the device at a stop."""
    with Job() as job:
        job.rank(f"import dbg_agent, torch\nx = torch.arange(6.0, device={device!r})\ndbg_agent.set_trace()\n")
        job.until(lambda text: '"stopped"' in text, "list", "--json")
        for expression, expected in (("x", device if device == "cuda" else "5."), ("x.sum().item()", "15.0")):
            answer = job.ask("eval", expression)
            need(expected in answer, expression, "answers", answer, job.output())
        return f"x.sum().item() answers {answer.split()[-1]}"


def why(device):
    """Ask why of ranks that wait for a kernel that does not end: in item(), in synchronize(), in a full queue."""
    busy = "torch.cuda._sleep(10**12)" if device == "cuda" else "import ctypes"
    waits = {"item": "x.item()", "synchronize": "torch.cuda.synchronize()", "queue": "for _ in range(10**7): x.add_(1)"}
    figures = []
    for name, on_device in waits.items():
        wait = on_device if device == "cuda" else "ctypes.CDLL(None).sleep(1000)"
        with Job() as job:
            job.rank(f"import torch\nx = torch.zeros((), device={device!r})\n{busy}\n{wait}\n")
            answer = job.until(lambda text: "train.py:4" in text and '"age": null' not in text, "why", "--json")
            verdict = json.loads(answer)["verdicts"][0]
            figures.append(f"{name}: {verdict['kind']}: {verdict['sentence']}")
    return "; ".join(figures)


def late_error(device):
    """Let a kernel fail: the error is raised at a later line, and dbg-attach must say so."""
    fails = "torch.zeros(9, device='cuda')[torch.tensor([99], device='cuda')]\ntorch.cuda.synchronize()\n"
    with Job() as job:
        raising = fails if device == "cuda" else f"\nraise RuntimeError({LATE_ERROR!r})\n"
        job.rank("import torch\n" + raising, "--post-mortem")
        job.until(lambda text: '"stopped"' in text, "list", "--json")
        need("2" in job.ask("eval", "1 + 1"), "nothing can be evaluated at this stop", job.output())
        answers = {verb: job.ask(verb) for verb in ("list", "why", "where")}
        telling = [verb for verb, text in answers.items() if "CUDA_LAUNCH_BLOCKING" in text or "earlier" in text]
        need(bool(telling), "nothing says that the line is a late one:", *answers.values())
        return f"pointed out by {', '.join(telling)}"


def one_rank(device):
    """Start a group of one rank: its timeout must be raised, and its recorder must be read."""
    backend = "nccl" if device == "cuda" else "gloo"
    lines = (
        "import dbg_agent, json, torch, torch.distributed as dist",
        "dbg_agent.install(collective_timeout=7200)",
        f"dist.init_process_group({backend!r}, init_method='tcp://127.0.0.1:0', rank=0, world_size=1)",
        f"x = torch.ones(4, device={device!r})",
        "for _ in range(5): dist.all_reduce(x)",
        f"options = dist.group.WORLD._get_backend(torch.device({device!r})).options",
        "from dbg_agent.torch.flight_recorder import LastStatus, read, recorders_of",
        "found = [(r.backend, read(r, LastStatus(), is_still=True)) for r in recorders_of(torch._C._distributed_c10d)]",
        "calls = {name: len(recorded.entries or ()) for name, recorded in found}",
        "failures = [recorded.failure for _, recorded in found if recorded.failure]",
        "facts = options._timeout.total_seconds(), calls, failures, x.sum().item()",
        "print(chr(10) + json.dumps([facts]), flush=True)",
        "dbg_agent.set_trace()",
    )
    with Job() as job:
        job.rank("\n".join(lines) + "\n")
        job.until(lambda text: '"stopped"' in text, "list", "--json")
        timeout, calls, failures, total = json.loads(re.findall(r"\[\[.*\]\]", job.output())[0])[0]
        need(timeout >= 7200 and total == 4 and not failures, timeout, calls, failures, total)
        need(calls.get(backend, 0) >= 1, f"the recorder of {backend} has", calls)
        return f"{backend}: timeout {timeout:.0f} s, {calls[backend]} calls recorded"


CHECKS = {
    check.__name__: check
    for check in (
        *(cheap_watch, recording, replicas, first_nan, equal_losses, cost, scaler, cuda_graph, compiled),
        *(evaluated, why, late_error, one_rank),
    )
}
