import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import tempfile
from multiprocessing import forkserver

import numpy as np
import pytest
from in_a_process import half_or_die, saves_when_ended

from fedcli.errors import FedcliError
from fedcli.system import memory, processes, shared_blocks
from fedcli.system.processes import Ended, Workers, in_order, one_each

FORKED = pytest.mark.skipif(not shared_blocks.FORKS, reason="of forked processes")


def doubled(number):
    if number == 13:
        raise FedcliError("no thirteen", "leave it out")
    return 2 * number


def doubled_with_length(numbers):
    return [(2 * number, len(numbers)) for number in numbers]


def killed(number):
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(jobs):
    items = [number for number in range(200) if number != 13]
    assert list(in_order(doubled, items, label="doubling", jobs=jobs)) == [
        2 * number for number in items
    ]
    assert list(in_order(doubled, [], label="doubling", jobs=jobs)) == []


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_run_holds_no_more_items_than_asked_for_and_all_are_done(jobs):
    result = list(in_order(doubled_with_length, range(201), label="doubling", jobs=jobs, run=8))
    assert [number for number, _ in result] == list(range(0, 402, 2))
    assert max(length for _, length in result) == 8


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_function_reaches_the_caller(jobs):
    with pytest.raises(FedcliError, match="no thirteen") as error:
        list(in_order(doubled, range(100), label="doubling", jobs=jobs))
    assert error.value.hint == "leave it out"


def test_a_killed_worker_is_told_in_a_sentence():
    with pytest.raises(FedcliError, match="a worker process was killed"):
        list(in_order(killed, range(100), label="counting", jobs=2))


def test_a_result_that_cannot_be_sent_is_an_error_of_its_call():
    with Workers(1) as workers:
        with pytest.raises(Exception, match="pickle"):
            workers.submit(0, eval, "lambda: 0").result()
        assert workers.submit(0, int, "7").result() == 7


@FORKED
def test_a_call_for_which_a_worker_has_no_memory_is_an_error_of_that_call(monkeypatch):
    def refused(*_):
        raise MemoryError

    monkeypatch.setattr(shared_blocks.SharedBlock, "get", refused)
    with Workers(1) as workers:  # which keeps this in place of the method
        monkeypatch.undo()
        with pytest.raises(MemoryError):
            workers.submit(0, int, "7").result()


@FORKED
def test_a_worker_ends_without_a_word_where_its_answer_is_read_no_more(capfd):
    context = multiprocessing.get_context("fork")
    end, far_end = processes.channels(context, 0)
    worker = context.Process(target=processes._work, args=(far_end, [end], int, ()))
    worker.start()
    far_end.close()
    end.send((int, ("7",)))
    assert end._pipe.poll(60)
    end.close()
    worker.join()
    assert worker.exitcode == 0
    assert capfd.readouterr().err == ""


@FORKED
def test_ctrl_c_in_the_moment_in_which_a_worker_starts_is_the_parents(monkeypatch, capfd):
    def interrupted(*work):
        os.kill(os.getpid(), signal.SIGINT)
        begin(*work)

    begin = processes._work
    monkeypatch.setattr(processes, "_work", interrupted)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # which a worker of pytest ignores
    try:
        with Workers(2) as workers:
            assert workers.submit(1, int, "7").result() == 7
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == ""


@FORKED
def test_the_process_that_loads_a_module_for_all_hears_no_ctrl_c(monkeypatch):
    handlers = []
    monkeypatch.setattr(
        forkserver, "ensure_running", lambda: handlers.append(signal.getsignal(signal.SIGINT))
    )
    list(one_each(half_or_die, [], ["a"], preload="fedcli.system.processes"))
    assert handlers == [signal.SIG_IGN]


@FORKED
def test_a_temporary_folder_may_be_deep(tmp_path, monkeypatch):
    folders = []
    deep = str(tmp_path / ("x" * 90))
    monkeypatch.setattr(tempfile, "tempdir", deep)
    monkeypatch.setattr(forkserver, "ensure_running", lambda: folders.append(tempfile.gettempdir()))
    list(one_each(half_or_die, [], ["a"], preload="fedcli.system.processes"))
    assert folders == ["/tmp"]
    assert tempfile.tempdir == deep


def test_a_killed_process_takes_no_other_with_it_and_says_its_code():
    tasks = [(number,) for number in range(1, 6)]
    messages = list(one_each(half_or_die, tasks, ["a", "b"], preload="fedcli.system.processes"))
    ended = {number: message for (number,), message in messages if isinstance(message, Ended)}
    assert ended == {i: Ended(i) for i in (1, 2, 4, 5)} | {3: Ended(code=-signal.SIGKILL)}
    sent = {number: message for (number,), message in messages if not isinstance(message, Ended)}
    assert {number: half for number, (half, _) in sent.items()} == {1: 0.5, 2: 1.0, 4: 2.0, 5: 2.5}
    assert {slot for _, slot in sent.values()} <= {"a", "b"}


def test_a_process_that_is_ended_early_saves_its_state(tmp_path, capfd):
    tasks = [(tmp_path / "one",), (tmp_path / "two",)]
    messages = one_each(saves_when_ended, tasks, ["a", "b"], preload="fedcli.system.processes")
    assert [next(messages)[1] for _ in tasks] == [("begun",), ("begun",)]
    messages.close()
    assert {path.read_text(): path.name for (path,) in tasks} == {"a": "one", "b": "two"}
    assert capfd.readouterr().err == ""


def halved(arrays):
    for array in arrays.values():
        array /= 2  # what a worker receives is its own
    return arrays


@pytest.mark.parametrize("block", [0, 2**16, 2**22])
@pytest.mark.parametrize("kept_bytes", [0, 2**28], ids=["pages returned", "pages kept"])
def test_arrays_arrive_whole_whether_the_block_holds_all_some_or_none(
    block, kept_bytes, monkeypatch
):
    monkeypatch.setattr(shared_blocks, "KEPT", kept_bytes)
    draws = np.random.default_rng(0)
    sizes = {
        "scalar": (),
        "nothing": (0,),
        "small": (3,),
        "odd": (10_001,),
        "large": (100, 3000),
        "turned": (70, 80),
    }
    sent = {name: draws.normal(size=size) for name, size in sizes.items()}
    sent["turned"] = sent["turned"].T  # not in rows
    with Workers(1, block=block) as workers:
        halves = workers.submit(0, halved, sent).result()
        quarters = workers.submit(0, halved, halves).result()
    for name, array in sent.items():
        np.testing.assert_array_equal(
            halves[name], array / 2
        )  # the second message changed nothing of the first
        np.testing.assert_array_equal(quarters[name], array / 4)


@FORKED
def test_what_fits_into_the_block_does_not_pass_the_pipe():
    end, far_end = shared_blocks.channels(multiprocessing, 2**20)
    end.send(np.arange(2**16))  # half a MiB: no pipe takes it while nobody reads
    np.testing.assert_array_equal(far_end.receive(), np.arange(2**16))
    end.close()
    far_end.close()


@FORKED
def test_arrays_in_place_are_those_of_the_block():
    block = shared_blocks.SharedBlock(shared_blocks.anonymous(2**20))
    stored = block.put({"large": np.arange(10_000), "small": np.arange(3)})
    in_block = block.get(stored, in_place=True)
    copies = block.get(stored)
    assert len(stored.places) == 1
    assert len(stored.pickled) < 1000
    block.put({"large": np.zeros(10_000, dtype=int)})
    assert not in_block["large"].any()
    assert copies["large"][-1] == 9999
    assert in_block["small"][-1] == 2


def page_faults(keep):
    """Page faults of thirty blocks of 40 MB, one after another, in a process of its own."""
    code = (
        "import numpy, resource; from fedcli.system.memory import keep_freed\n"
        f"if {keep}: keep_freed()\n"
        "usage = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "numpy.ones(5_000_000); before = usage()\n"
        "for _ in range(30): numpy.ones(5_000_000)\n"
        "print(usage() - before)"
    )
    return int(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
    )


@pytest.mark.skipif(not shared_blocks.FORKS or platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_freed_memory_is_kept_for_what_comes_next():
    assert page_faults(keep=True) < 100  # the same pages again


@pytest.mark.parametrize("failure", [OSError, AttributeError])
def test_a_c_library_that_cannot_keep_memory_is_left_alone(monkeypatch, failure):
    def absent(name):
        raise failure

    monkeypatch.setattr(memory.ctypes, "CDLL", absent)
    memory.keep_freed.__wrapped__()


def test_a_process_does_not_run_the_calling_script_again(tmp_path):
    (tmp_path / "script.py").write_text(
        "from fedcli.system.processes import one_each\nprint('script')\n"
        "list(one_each(print, [('task',)], ['slot'], preload='fedcli.console'))\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)
    assert done.stdout.count("script") == 1, done.stderr
    assert "task slot" in done.stdout, done.stderr
